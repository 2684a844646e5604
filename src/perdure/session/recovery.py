"""What a crash left open, settled from the log alone.

Recovery writes the one settlement that is missing, in words that hold no clock and no process, so
that doing it twice leaves the same bytes as doing it once.
"""

from __future__ import annotations

from perdure.history.events import StepFinished
from perdure.history.state import Call
from perdure.session.calls import Calls, settlement
from perdure.session.log import SessionLog
from perdure.session.workplace import Workplace
from perdure.tools.registry import ToolSet
from perdure.tools.settle import NOT_RUN, UNKNOWN


async def recover(log: SessionLog, workplace: Workplace, tools: ToolSet) -> None:
    """Settle the step that an earlier drain left open; do nothing where there is none.

    A finished call keeps its result. A call that was started and is not known to have ended is
    not run again, unless its tool declares itself idempotent. One that was never started is
    settled as not run.
    """
    step = log.state.step
    if step is None:
        return
    repeatable = [call for call in step.unsettled if _may_repeat(call, tools)]
    given_up = [
        settlement(step.started.step, call.call, UNKNOWN if call.started else NOT_RUN)
        for call in step.unsettled
        if call not in repeatable
    ]
    if given_up:
        await log.write(*given_up)
    if repeatable:
        number = step.started.step
        await Calls(log, workplace, tools, number).run([call.call for call in repeatable])
    await log.write(StepFinished(step.started.step, "crashed"))


def _may_repeat(call: Call, tools: ToolSet) -> bool:
    tool = tools.find(call.call.name)
    return call.started and tool is not None and tool.idempotent
