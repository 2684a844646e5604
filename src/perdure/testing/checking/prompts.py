"""Prompts: admitted once, then promoted in their order or withdrawn, and never both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from perdure.history import events as ev
from perdure.history.content import ToolCall


def prompts(records: Sequence[ev.Record]) -> Iterator[tuple[int, str]]:
    """Yield admissions, promotions and withdrawals that come twice or without what is before."""
    states: dict[str, str] = {}
    for record in records:
        match record.data:
            case ev.PromptAdmitted(prompt=prompt):
                if prompt in states:
                    yield record.seq, f"prompt {prompt} is admitted a second time"
                states.setdefault(prompt, "pending")
            case ev.PromptPromoted(prompt=prompt):
                yield from _settle(record.seq, prompt, states, "promoted")
            case ev.PromptWithdrawn(prompt=prompt):
                yield from _settle(record.seq, prompt, states, "withdrawn")
            case ev.PromptDeliveryChanged(prompt=prompt) if states.get(prompt) != "pending":
                yield record.seq, f"prompt {prompt} changes its delivery and is not pending"
            case _:
                pass


def _settle(seq: int, prompt: str, states: dict[str, str], state: str) -> Iterator[tuple[int, str]]:
    before = states.get(prompt, "never admitted")
    if before != "pending":
        yield seq, f"prompt {prompt} is {state} and was {before}"
    states[prompt] = state


_FROM_OUTSIDE = (
    ev.SessionCreated,
    ev.SessionRenamed,
    ev.ModelSwitched,
    ev.SessionMoved,
    ev.SessionForked,
    ev.InterruptAsked,
    ev.EntrySet,
    ev.EntryRemoved,
    ev.CompactionAsked,
    ev.PromptAdmitted,
    ev.PromptDeliveryChanged,
    ev.PromptWithdrawn,
)
"""What anybody may write while a drain works, which the drain then learns of a little later."""

_OF_BOUNDARY = (ev.Note, ev.EpochStarted, ev.SystemMessage)
"""What a drain writes together with the promotions, and so with what it knew before them."""


@dataclass
class _Inbox:
    """The inbox as the log tells it, and what the next boundary must do with it.

    `seen` is the last event that a drain wrote: whoever wrote it knew all that came before.
    `unread` says that the history calls for a step, `again` that the next step is one done once
    more, `noted` that the model was told of its last step.
    """

    pending: dict[str, ev.PromptAdmitted] = field(default_factory=dict[str, ev.PromptAdmitted])
    admitted: dict[str, int] = field(default_factory=dict[str, int])
    calls: set[str] = field(default_factory=set[str])
    seen: int = 0
    unread: bool = False
    again: bool = False
    noted: bool = False

    def follow(self, record: ev.Record) -> None:
        """Take in any event but a promotion."""
        match record.data:
            case ev.PromptAdmitted() as event:
                self.pending[event.prompt] = event
                self.admitted[event.prompt] = record.seq
            case ev.PromptDeliveryChanged(prompt=prompt, delivery=delivery):
                if before := self.pending.get(prompt):
                    self.pending[prompt] = ev.PromptAdmitted(
                        prompt, before.text, delivery, before.holder
                    )
            case ev.PromptWithdrawn(prompt=prompt):
                self.pending.pop(prompt, None)
            case _:
                self._follow_step(record.data)
        if not isinstance(record.data, (*_FROM_OUTSIDE, *_OF_BOUNDARY)):
            self.seen = record.seq

    def _follow_step(self, event: ev.Event) -> None:
        match event:
            case ev.AssistantMessage(parts=parts):
                self.calls = {part.id for part in parts if isinstance(part, ToolCall)}
                self.unread = False
            case ev.ToolSettled(call=call) if call in self.calls:
                self.calls.discard(call)
                self.unread = self.unread or not self.calls
            case ev.StepFinished(outcome=outcome):
                self.unread = self.unread and outcome not in {"failed", "interrupted", "declined"}
                self.again = self.unread and outcome == "overflowed"
            case ev.DrainInterrupted():
                self.unread = self.again = False
            case ev.Note():
                self.noted = True
            case ev.SessionForked() | ev.SessionReverted():
                self.unread = self.again = False
                self.calls = set()
            case _:
                pass

    def promote(self, chosen: Sequence[str]) -> Iterator[str]:
        """Say what is wrong with promoting these prompts now, and promote them."""
        if self.again and chosen:
            yield f"prompt {chosen[0]} is promoted into a step that is done once more"
        known = [prompt for prompt in chosen if prompt in self.pending]
        if not self.again:
            yield from self._overlooked(chosen)
        for prompt in known:
            if self.pending[prompt].delivery == "queue":
                yield from self._queued(prompt, chosen)
        if known != sorted(known, key=self.admitted.__getitem__):
            yield f"prompts {', '.join(known)} are promoted in another order than they came"
        for prompt in known:
            self.pending.pop(prompt, None)  # it may be there twice
        if chosen:
            self.unread, self.noted = True, False
        self.again = False

    def _overlooked(self, chosen: Sequence[str]) -> Iterator[str]:
        for prompt, event in self.pending.items():
            came_in_time = self.admitted[prompt] <= self.seen
            if event.delivery == "steer" and came_in_time and prompt not in chosen:
                yield f"prompt {prompt} steers and is left out of the boundary"

    def _queued(self, prompt: str, chosen: Sequence[str]) -> Iterator[str]:
        if len(chosen) > 1:
            yield f"prompt {prompt} is queued and is not promoted alone"
        if self.unread and not self.noted:
            yield f"prompt {prompt} is queued and is promoted while there is other work"
        for other, event in self.pending.items():
            if other == prompt:
                break
            if event.delivery == "queue" and not event.holder and other not in chosen:
                yield f"prompt {prompt} is promoted before prompt {other}, which came first"


def promotions(records: Sequence[ev.Record]) -> Iterator[tuple[int, str]]:
    """Yield promotions that are out of turn, and prompts that a boundary left out."""
    inbox, chosen, begun = _Inbox(), list[str](), 0
    for record in records:
        match record.data:
            case ev.PromptPromoted(prompt=prompt):
                begun = begun or record.seq
                chosen.append(prompt)
            case ev.StepStarted():
                yield from ((begun or record.seq, words) for words in inbox.promote(chosen))
                chosen, begun = [], 0
                inbox.follow(record)
            case ev.SessionForked():
                # A copy may end within a boundary.
                for prompt in chosen:
                    inbox.pending.pop(prompt, None)
                chosen, begun = [], 0
                inbox.follow(record)
            case _:
                inbox.follow(record)
