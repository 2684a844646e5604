"""What a crash left open, settled from the log alone.

Recovery counts its attempt before it does anything, so that a session which kills its process each
time is not tried for ever. Then it writes the one settlement that is missing, in words that hold no
clock and no process: a recovery that died half way leaves the same history as one that did not.
"""

from __future__ import annotations

from perdure.errors import CrashLoop
from perdure.history.events import RecoveryStarted, StepFinished
from perdure.history.state import Call, SessionState
from perdure.session.attempts import failure_of
from perdure.session.calls import Calls, given_up
from perdure.session.delegation import Delegation
from perdure.session.log import SessionLog
from perdure.session.workplace import Workplace
from perdure.tools.registry import ToolSet
from perdure.tools.settle import UNKNOWN

_ATTEMPTS = 3
"""Recoveries of one step that run its idempotent calls again; further ones run nothing."""

_CRASHES = 10
"""Steps in a row that a crash may end; the last of them is settled as failed."""


async def recover(
    log: SessionLog, workplace: Workplace, tools: ToolSet, delegation: Delegation
) -> None:
    """Settle the step that an earlier drain left open; do nothing where there is none.

    A finished call keeps its result. A call that was started and is not known to have ended is
    not run again, unless its tool declares itself idempotent and the recovery itself has not died
    of it three times. One that was never started is settled as not run. The step is done once
    more then, until ten in a row have crashed: it has failed with CrashLoop then, and the session
    waits for its next prompt.
    """
    step = log.state.step
    if step is None:
        return
    number, attempt = step.started.step, step.recoveries + 1
    await log.write(RecoveryStarted(number, attempt))
    if log.state.crashes + 1 >= _CRASHES:
        failure = failure_of(_crash_loop(log.state, number))
        await log.write(*given_up(step, UNKNOWN), StepFinished(number, "failed", failure))
        return
    repeatable = [call for call in step.unsettled if _may_repeat(call, tools, attempt)]
    if settled := given_up(step, UNKNOWN, but=repeatable):
        await log.write(*settled)
    if repeatable:
        again = Calls(log, workplace, tools, number, delegation, images=step.started.request.images)
        await again.run([call.call for call in repeatable])
    await log.write(StepFinished(number, "crashed"))


async def abandon(log: SessionLog) -> None:
    """Settle as interrupted what a recovery was about to settle; run nothing again."""
    step = log.state.step
    if step is not None:
        await log.write(*given_up(step, UNKNOWN), StepFinished(step.started.step, "interrupted"))


def _may_repeat(call: Call, tools: ToolSet, attempt: int) -> bool:
    tool = tools.find(call.call.name)
    return call.started and attempt <= _ATTEMPTS and tool is not None and tool.idempotent


def _crash_loop(state: SessionState, step: int) -> CrashLoop:
    return CrashLoop(
        f"session {state.session}: {_CRASHES} steps in a row ended with their process, up to step "
        f"{step}; find out what ends it (memory, a tool, a plugin), then send a prompt, which "
        "starts afresh"
    )
