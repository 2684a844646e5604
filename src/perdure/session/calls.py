"""The tool calls of one step: started durably, run side by side, each settled exactly once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from typing import cast

import anyio

from perdure.errors import PerdureError, UsageError
from perdure.history.content import ToolCall
from perdure.history.events import (
    EntrySet,
    InstructionsDiscovered,
    ToolProgress,
    ToolSettled,
    ToolStarted,
)
from perdure.history.state import Call, OpenStep
from perdure.session.delegation import Delegation
from perdure.session.gate import Gate
from perdure.session.log import SessionLog
from perdure.session.workplace import Workplace
from perdure.sources import check_entry
from perdure.tools.base import ToolContext
from perdure.tools.registry import ToolSet
from perdure.tools.settle import NOT_RUN, UNKNOWN, Settled, prepare, run

_logger = logging.getLogger("perdure.session")

STEP_LIMIT = Settled("not_run", "not run: the step limit of this prompt is reached.")


class Calls:
    """Runs the calls of one step at one Workplace, with the tools of its boundary.

    `images` says whether the step's model takes pictures.
    """

    def __init__(
        self,
        log: SessionLog,
        workplace: Workplace,
        tools: ToolSet,
        step: int,
        delegation: Delegation,
        *,
        images: bool,
    ) -> None:
        self._log = log
        self._workplace = workplace
        self._tools = tools
        self._step = step
        self._delegation = delegation
        self._images = images
        self._gate = Gate(log.state.session, workplace)

    async def run(self, calls: list[ToolCall]) -> None:
        """Run all of these calls side by side; return when every result is durable."""
        try:
            async with anyio.create_task_group() as group:
                for call in calls:
                    group.start_soon(self._run_one, call)
        except BaseExceptionGroup as errors:
            raise _first(errors) from None

    async def refuse(self, calls: list[ToolCall], settled: Settled) -> None:
        """Settle these calls without running them."""
        await self._log.write(*(settlement(self._step, call, settled) for call in calls))

    async def _run_one(self, call: ToolCall) -> None:
        settled, entries = _with_entries(await self._settle(call))
        event = settlement(self._step, call, settled)
        state = self._log.state
        changed = [each for each in entries if state.entries.get(each.name, ...) != each.value]
        found = await self._workplace.nested(state.discovered, settled.paths)
        if new := tuple(path for path in found if path not in state.discovered):
            directory = str(self._workplace.location.directory)
            await self._log.write(event, *changed, InstructionsDiscovered(directory, new))
        else:
            await self._log.write(event, *changed)

    async def _settle(self, call: ToolCall) -> Settled:
        again = self._was_started(call)
        prepared = prepare(call, self._tools)
        if isinstance(prepared, Settled):
            return UNKNOWN if again else prepared
        context = self._context(call)
        if refused := await self._gate.refusal(call, prepared, context, again=again):
            return UNKNOWN if again else refused
        await self._log.write(ToolStarted(self._step, call.id, call.name))
        with self._workplace.telemetry.call(context.session, self._step, call) as span:
            settled = await run(prepared, context)
            span.settled(settled)
        return settled

    def _was_started(self, call: ToolCall) -> bool:
        """Say whether a crash ended the call: it may have run, whatever becomes of it now."""
        step = self._log.state.step
        return step is not None and step.calls[call.id].started

    def _context(self, call: ToolCall) -> ToolContext:
        session, place = self._log.state.session, self._workplace
        progress = partial(self._show, call.id)
        return ToolContext(
            session=session,
            call=call.id,
            directory=place.location.directory,
            project=place.location.project,
            outputs=place.outputs(session),
            progress=progress,
            idempotency_key=f"{session}:{self._step}:{call.id}",
            allowed=place.config.tools.allowed_paths,
            hosts=place.config.tools.allowed_hosts,
            images=self._images,
            delegate=self._delegation.of_call(self._log.state, place.location, call.id, progress),
        )

    def _show(self, call: str, text: str) -> None:
        self._log.show(ToolProgress(call, text))


def _with_entries(settled: Settled) -> tuple[Settled, list[EntrySet]]:
    """Return a settlement with the entries that it sets; a failed one where they cannot be."""
    try:
        events = [EntrySet(name, check_entry(name, it)) for name, it in settled.entries.items()]
    except UsageError as error:
        return Settled("failed", f"nothing was kept: {error}"), []
    return settled, events


def settlement(step: int, call: ToolCall, settled: Settled) -> ToolSettled:
    """Return the event that settles a call."""
    return ToolSettled(step, call.id, settled.outcome, settled.output, settled.file, settled.images)


def given_up(step: OpenStep, running: Settled, but: Iterable[Call] = ()) -> list[ToolSettled]:
    """Return the events that settle what has no result yet, `but` some, without running it.

    `running` settles the calls that were started; the others were not run.
    """
    kept = {call.call.id for call in but}
    return [
        settlement(step.started.step, call.call, running if call.started else NOT_RUN)
        for call in step.unsettled
        if call.call.id not in kept
    ]


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that says most: one of ours, else any."""
    found = list(_each(errors))
    return next((error for error in found if isinstance(error, PerdureError)), found[0])


def _each(errors: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _each(cast("BaseExceptionGroup[BaseException]", error))
        else:
            yield error
