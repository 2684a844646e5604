"""Steps: one at a time, each with its attempts, its answer, its calls, and one settlement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from perdure.history import events as ev
from perdure.history.content import ToolCall

_OUTSIDE_OF_STEPS = (
    ev.PromptPromoted,
    ev.EpochStarted,
    ev.SystemMessage,
    ev.Note,
    ev.SessionReverted,
    ev.SessionForked,
    ev.DrainInterrupted,
)


@dataclass
class _Call:
    """A call of the open step.

    `may_start` is so at first, and once more in each recovery of the step.
    """

    started: bool = False
    may_start: bool = True
    outcome: str = ""


@dataclass
class _Step:
    """A step that has no settlement yet."""

    number: int
    answered: bool = False
    attempts: int = 0
    over: bool = False
    recoveries: int = 0
    compacted: bool = False
    calls: dict[str, _Call] = field(default_factory=dict[str, _Call])

    @property
    def unsettled(self) -> list[str]:
        return [name for name, call in self.calls.items() if not call.outcome]

    def attempt(self, event: ev.AttemptFailed) -> Iterator[str]:
        if self.answered or self.over:
            yield f"attempt {event.attempt} of step {self.number} comes after its last one"
        if event.attempt != self.attempts + 1:
            yield f"attempt {event.attempt} of step {self.number} follows attempt {self.attempts}"
        self.attempts = event.attempt
        self.over = event.wait is None

    def answer(self, event: ev.AssistantMessage) -> Iterator[str]:
        if self.answered:
            yield f"step {self.number} is answered a second time"
        elif self.over:
            yield f"step {self.number} is answered after its last attempt"
        elif event.attempt != self.attempts + 1:
            yield f"step {self.number} is answered by attempt {event.attempt} of {self.attempts}"
        if self.recoveries:
            yield f"step {self.number} is answered while it is recovered"
        self.answered = True
        self.calls = {part.id: _Call() for part in event.parts if isinstance(part, ToolCall)}

    def start(self, event: ev.ToolStarted) -> Iterator[str]:
        call = self.calls.get(event.call)
        if call is None:
            yield f"call {event.call} starts before its assistant message"
            return
        if call.outcome:
            yield f"call {event.call} starts and is settled already"
        elif not call.may_start:
            yield f"call {event.call} starts a second time"
        call.started, call.may_start = True, False

    def settle(self, event: ev.ToolSettled) -> Iterator[str]:
        call = self.calls.get(event.call)
        if call is None:
            yield f"call {event.call} is settled and there is no such call"
            return
        if call.outcome:
            yield f"call {event.call} is settled a second time"
        if event.outcome in {"completed", "unknown", "interrupted"} and not call.started:
            yield f"call {event.call} is settled as {event.outcome} and was never started"
        if event.outcome in {"not_run", "declined"} and call.started:
            yield f"call {event.call} is settled as {event.outcome} and was started"
        call.outcome = event.outcome

    def recover(self, event: ev.RecoveryStarted) -> Iterator[str]:
        if event.attempt != self.recoveries + 1:
            yield f"recovery {event.attempt} of step {self.number} follows {self.recoveries}"
        self.recoveries = event.attempt
        for call in self.calls.values():
            call.may_start = call.started

    def finish(self, event: ev.StepFinished) -> Iterator[str]:
        if self.unsettled:
            calls = ", ".join(self.unsettled)
            yield f"step {self.number} is settled before its calls: {calls}"
        if unfit := self._unfit(event):
            yield f"step {self.number} is settled as {event.outcome} and {unfit}"

    def _unfit(self, event: ev.StepFinished) -> str:
        match event.outcome:
            case "completed" if not self.answered:
                return "was not answered"
            case "completed" | "declined" if self.recoveries:
                return "was recovered"
            case "declined" if all(call.outcome != "declined" for call in self.calls.values()):
                return "no call of it was"
            case "failed" if event.failure is None:
                return "no failure is told"
            case "overflowed" if not self.compacted or self.answered:
                return "nothing was made shorter for it"
            case _:
                return ""


class _Steps:
    """Goes through a log with the step that is open."""

    def __init__(self) -> None:
        self._open: _Step | None = None
        self._last = 0

    def follow(self, event: ev.Event) -> Iterator[str]:
        """Take in one event, and say what is wrong with it."""
        match event:
            case ev.StepStarted(step=number):
                if self._open is not None:
                    yield f"step {number} starts and step {self._open.number} has no settlement"
                if number != self._last + 1:
                    yield f"step {number} starts after step {self._last}"
                self._open, self._last = _Step(number), number
            case ev.CompactionFinished() if self._open is not None:
                self._open.compacted = True
            case (
                ev.AttemptFailed()
                | ev.AssistantMessage()
                | ev.ToolStarted()
                | ev.ToolSettled()
                | ev.RecoveryStarted()
                | ev.StepFinished()
            ):
                yield from self._within(event)
            case _ if self._open is not None and isinstance(event, _OUTSIDE_OF_STEPS):
                yield f"{event.type} while step {self._open.number} has no settlement"
            case _:
                pass

    def _within(self, event: _Within) -> Iterator[str]:
        step = self._open
        if step is None or step.number != event.step:
            now = "none" if step is None else f"step {step.number}"
            yield f"{event.type} is of step {event.step} and the open one is {now}"
            return
        match event:
            case ev.AttemptFailed():
                yield from step.attempt(event)
            case ev.AssistantMessage():
                yield from step.answer(event)
            case ev.ToolStarted():
                yield from step.start(event)
            case ev.ToolSettled():
                yield from step.settle(event)
            case ev.RecoveryStarted():
                yield from step.recover(event)
            case ev.StepFinished():
                yield from step.finish(event)
                self._open = None


_Within = (
    ev.AttemptFailed
    | ev.AssistantMessage
    | ev.ToolStarted
    | ev.ToolSettled
    | ev.RecoveryStarted
    | ev.StepFinished
)


def steps(records: Sequence[ev.Record]) -> Iterator[tuple[int, str]]:
    """Yield whatever is wrong with a step, its attempts, its answer, its calls, its settlement."""
    walk = _Steps()
    for record in records:
        yield from ((record.seq, words) for words in walk.follow(record.data))


def recoveries(records: Sequence[ev.Record]) -> Iterator[tuple[int, str]]:
    """Yield steps that were settled as crashed though nobody had begun to recover them.

    A revert settles what it takes back without that.
    """
    begun = False
    for record, following in zip_longest(records, records[1:]):
        match record.data:
            case ev.StepStarted():
                begun = False
            case ev.RecoveryStarted():
                begun = True
            case ev.StepFinished(step=step, outcome="crashed") if not begun:
                if not following or not isinstance(following.data, ev.SessionReverted):
                    yield record.seq, f"step {step} is settled as crashed without a recovery"
            case _:
                pass
