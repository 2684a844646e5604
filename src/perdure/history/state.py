"""The state of a session: the fold of its log, and nothing else.

Everything that the runtime decides, it decides from here. Folding the same records always gives
the same state, so a restart, a recovery and a look at an earlier point need no other memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from perdure.context.snapshot import SourceSnapshot
from perdure.errors import StoreDamaged
from perdure.history import events as ev
from perdure.history.content import Form, Image, ToolCall, ToolDefinition, Usage
from perdure.history.items import (
    AssistantItem,
    Frame,
    Item,
    NoteItem,
    ResultItem,
    SummaryItem,
    SystemItem,
    UserItem,
)

MOVED = "session moved"
"""The reason of an epoch that a move made due."""

COMPACTED = "history compacted"
"""The reason of an epoch that a summary made due."""

LEFT = "left"
"""The holder of a Prompt whose runtime was closed: none that runs."""


class Pending(msgspec.Struct, frozen=True):
    """A Prompt in the inbox."""

    prompt: str
    text: str
    delivery: ev.Delivery
    holder: str
    seq: int
    images: tuple[Image, ...] = ()


class Epoch(msgspec.Struct, frozen=True):
    """The Context Epoch in force. `seq` is that of its start."""

    number: int
    seq: int
    model: str
    baseline: str
    tools: tuple[ToolDefinition, ...]
    lowering: int
    reasons: tuple[str, ...]


class Call(msgspec.Struct):
    """A tool call of the open step. `result` is set once it is settled."""

    call: ToolCall
    started: bool = False
    result: ResultItem | None = None


class OpenStep(msgspec.Struct):
    """A Step that has no settlement yet. `answered` says that its answer is durable.

    `recoveries` counts how often somebody began to settle what a crash had left of it.
    """

    started: ev.StepStarted
    seq: int
    calls: dict[str, Call]
    answered: bool = False
    recoveries: int = 0

    @property
    def unsettled(self) -> list[Call]:
        """The calls that have no result yet, in call order."""
        return [call for call in self.calls.values() if call.result is None]


class SessionState:
    """What a session is after the records applied so far.

    `items` is the projected history: what the next Step sees. `pending` is the inbox in order of
    admission. `due` lists why the epoch in force must end. `unread` says that input or results
    stand in the history that no answer has followed and no failure has ended. `usage` is that of
    the last answer, None where the history it counted is no longer the one that is sent.
    `rebuilt` is the seq at which items were last taken out of the projection. `cache` is the key
    under which providers cache its prefix. `task` is the call whose task it began with, empty where
    there is none. `crashes` counts the Steps in a row that a crash ended, `crashed_summaries` the
    compactions since the last promotion. `named` says that the title is more than what the session
    began with: somebody gave it.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.last_seq = 0
        self.updated = 0
        self.directory = ""
        self.project = ""
        self.model = ""
        self.marker = ""
        self.cache = session
        self.title = ""
        self.named = False
        self.instructions = ""
        self.task = ""
        self.entries: dict[str, Any] = {}
        self.discovered: tuple[str, ...] = ()
        self.pending: dict[str, Pending] = {}
        self.items: list[Item] = []
        self.epoch: Epoch | None = None
        self.snapshot: dict[str, SourceSnapshot] = {}
        self.due: tuple[str, ...] = ()
        self.step: OpenStep | None = None
        self.steps = 0
        self.steps_of_prompt = 0
        self.crashes = 0
        self.crashed_summaries = 0
        self.outcome = ""
        self.unread = False
        self.last_request: tuple[int, str] | None = None
        self.last_step: ev.StepStarted | None = None
        self.usage: Usage | None = None
        self.asked_to_compact = False
        self.compacting = False
        self.rebuilt = 0
        self._forms: dict[tuple[str, int], Form] = {}

    def apply(self, record: ev.Record) -> None:
        """Fold one durable record; it must be the next one, and no revert: see `takes_back`."""
        self._follow(record)
        fold = _FOLDS.get(type(record.data))
        if fold is not None:
            fold(self, record.data)

    def _follow(self, record: ev.Record) -> None:
        if record.seq != self.last_seq + 1:
            raise StoreDamaged(
                f"session {self.session}: event {record.seq} does not follow {self.last_seq}; "
                "run `perdure doctor`"
            )
        self.last_seq = record.seq
        self.updated = record.time

    def apply_all(self, records: Iterable[ev.Record]) -> None:
        """Fold several durable records in order."""
        for record in records:
            self.apply(record)

    def items_for(self, model: str) -> list[Item]:
        """Return the items with System Messages in the forms that the model's answers have bound.

        Only where an epoch outlives a model switch do two models bind forms in it.
        """
        if not self._forms or self.last_step is None or self.last_step.model == model:
            return self.items
        return [self._formed(item, model) for item in self.items]

    def _formed(self, item: Item, model: str) -> Item:
        if not isinstance(item, SystemItem):
            return item
        return msgspec.structs.replace(item, form=self._forms.get((model, item.seq)))

    def bind_forms(self, model: str, forms: Iterable[Form]) -> None:
        """Fix the forms of the System Messages that no answer of the model had bound before."""
        free = [
            item.seq
            for item in self.items
            if isinstance(item, SystemItem) and (model, item.seq) not in self._forms
        ]
        for seq, form in zip(free, forms, strict=False):
            self._forms[model, seq] = form
        if free:
            self.items[:] = [self._formed(item, model) for item in self.items]

    def keep_items(self, items: list[Item]) -> None:
        """Take items out of the projection; what was lowered of the old ones is of no use."""
        self.items = items
        self.rebuilt = self.last_seq

    def begin_epoch(self, epoch: Epoch, snapshot: dict[str, SourceSnapshot]) -> None:
        """Put a new epoch in force; what System Messages said before is part of its Baseline."""
        self.epoch = epoch
        self.snapshot = snapshot
        self.due = ()
        self.last_request = None
        self.last_step = None
        self._forms = {}
        self.keep_items([item for item in self.items if not isinstance(item, SystemItem)])

    def preview(self, events: Iterable[ev.Event]) -> SessionState:
        """Return what the state would be after further events; this one stays as it is."""
        ahead = self.copied()
        for event in events:
            ahead.apply(ev.Record(ahead.last_seq + 1, self.updated, event))
        return ahead

    def copied(self) -> SessionState:
        """Return a state that further records of this one do not change."""
        other = copy.copy(self)
        other.items = list(self.items)
        other.pending = dict(self.pending)
        other.snapshot = dict(self.snapshot)
        other.entries = dict(self.entries)
        other._forms = dict(self._forms)
        return other

    def revert(self, record: ev.Record, then: SessionState) -> None:
        """Fold a revert to the point where the state was `then`.

        What is history is again as it was. What is a setting, and the inbox, stays as it is now;
        so does the count of steps, since their numbers never come twice.
        """
        self._follow(record)
        moved = then.directory != self.directory
        self.epoch = then.epoch
        self.snapshot = dict(then.snapshot)
        self.due = (*then.due, MOVED) if moved and then.epoch else then.due
        self.discovered = () if moved else then.discovered
        self.step = None
        self.steps_of_prompt = then.steps_of_prompt
        self.crashes = self.crashed_summaries = 0
        self.outcome = "reverted"
        self.unread = False
        self.last_request = then.last_request
        self.last_step = then.last_step
        self.usage = then.usage
        self.asked_to_compact = self.compacting = False
        self._forms = dict(then._forms)
        self.keep_items(list(then.items))

    def frame(self, model: str) -> Frame:
        """Return the fixed beginning of that model's requests in the epoch in force."""
        epoch = self.epoch
        if epoch is None:
            raise RuntimeError("a session without an epoch has no requests")
        return Frame(
            session=self.cache,
            epoch=epoch.number,
            model=model,
            marker=self.marker,
            baseline=epoch.baseline,
            tools=epoch.tools,
            lowering=epoch.lowering,
        )


class Folding:
    """The fold of a whole log, record by record from its start.

    It keeps the states that the log's reverts go back to, and no others. `state` is that after the
    records so far; it is changed by the next one.
    """

    def __init__(self, session: str, records: Iterable[ev.Record]) -> None:
        self.state = SessionState(session)
        self._targets = {
            each.data.to for each in records if isinstance(each.data, ev.SessionReverted)
        }
        self._earlier: dict[int, SessionState] = {}

    def earlier(self, event: ev.SessionReverted) -> SessionState:
        """Return the state that a revert goes back to; StoreDamaged where it is not before it."""
        if event.to not in self._earlier:
            raise StoreDamaged(
                f"session {self.state.session}: a revert to {event.to} does not follow it; "
                "run `perdure doctor`"
            )
        return self._earlier[event.to]

    def apply(self, record: ev.Record) -> None:
        """Fold the next record."""
        if isinstance(record.data, ev.SessionReverted):
            self.state.revert(record, self.earlier(record.data))
        else:
            self.state.apply(record)
        if record.seq in self._targets:
            self._earlier[record.seq] = self.state.copied()


def fold(session: str, records: Sequence[ev.Record]) -> SessionState:
    """Return the state after all these records: a log from its start."""
    folding = Folding(session, records)
    for record in records:
        folding.apply(record)
    return folding.state


def takes_back(records: Iterable[ev.Record]) -> bool:
    """Say whether a revert is among the records, so that only a fold of the whole log takes it in.

    A state holds nothing of what it was before.
    """
    return any(isinstance(record.data, ev.SessionReverted) for record in records)


def _created(state: SessionState, event: ev.SessionCreated) -> None:
    state.directory = event.directory
    state.project = event.project
    state.model = event.model
    state.marker = event.marker
    state.cache = event.cache or state.session
    state.title = event.title
    state.named = bool(event.parent)  # a task has the name that it was given
    state.instructions = event.instructions
    state.task = event.call


def _renamed(state: SessionState, event: ev.SessionRenamed) -> None:
    state.title = event.title
    state.named = True


def _switched(state: SessionState, event: ev.ModelSwitched) -> None:
    state.model = event.model


def _moved(state: SessionState, event: ev.SessionMoved) -> None:
    state.directory = event.directory
    state.project = event.project
    state.discovered = ()
    state.due = (*state.due, MOVED)


def _forked(state: SessionState, _event: ev.SessionForked) -> None:
    state.unread = False  # a copy starts nothing by itself
    state.named = state.named or bool(state.title)


def _not_alone(_state: SessionState, event: ev.SessionReverted) -> None:
    raise RuntimeError(f"the revert to {event.to} can only be folded with the whole log")


def _entry_set(state: SessionState, event: ev.EntrySet) -> None:
    state.entries[event.name] = event.value


def _entry_removed(state: SessionState, event: ev.EntryRemoved) -> None:
    state.entries.pop(event.name, None)


def _discovered(state: SessionState, event: ev.InstructionsDiscovered) -> None:
    if event.directory == state.directory:
        new = (path for path in event.paths if path not in state.discovered)
        state.discovered = (*state.discovered, *new)


def _compaction_asked(state: SessionState, _event: ev.CompactionAsked) -> None:
    state.asked_to_compact = True


def _compaction_started(state: SessionState, _event: ev.CompactionStarted) -> None:
    state.compacting = True
    state.asked_to_compact = False


def _compacted(state: SessionState, event: ev.CompactionFinished) -> None:
    state.compacting = False
    seqs = [item.seq for item in state.items]
    cut = seqs.index(event.kept_from) if event.kept_from in seqs else len(seqs)
    # System Messages stay until the new epoch folds them in: it may be blocked for long.
    told = [item for item in state.items[:cut] if isinstance(item, SystemItem)]
    summary = SummaryItem(state.last_seq, event.summary)
    tail = [_without_home(item) for item in state.items[cut:]]
    state.keep_items([summary, *told, *tail])
    state.due = (*state.due, COMPACTED)
    state.usage = None


def _without_home(item: Item) -> Item:
    # Sealed reasoning is bound to all that stood before it, and the epoch may be blocked from
    # ending: providers refuse a request that still carries it.
    return msgspec.structs.replace(item, epoch=0) if isinstance(item, AssistantItem) else item


def _compaction_failed(state: SessionState, event: ev.CompactionFailed) -> None:
    state.compacting = False
    state.crashed_summaries += event.failure.error == "Crashed"


def _admitted(state: SessionState, event: ev.PromptAdmitted) -> None:
    state.pending[event.prompt] = Pending(
        event.prompt, event.text, event.delivery, event.holder, state.last_seq, event.images
    )


def _pending(state: SessionState, prompt: str) -> Pending:
    found = state.pending.get(prompt)
    if found is None:
        raise StoreDamaged(
            f"session {state.session}: event {state.last_seq} is about prompt {prompt}, which is "
            "not pending"
        )
    return found


def _redelivered(state: SessionState, event: ev.PromptDeliveryChanged) -> None:
    prompt = _pending(state, event.prompt)
    holder = LEFT if event.left and prompt.holder else prompt.holder
    state.pending[event.prompt] = msgspec.structs.replace(
        prompt, delivery=event.delivery, holder=holder
    )


def _withdrawn(state: SessionState, event: ev.PromptWithdrawn) -> None:
    state.pending.pop(event.prompt, None)


def _promoted(state: SessionState, event: ev.PromptPromoted) -> None:
    prompt = _pending(state, event.prompt)
    del state.pending[event.prompt]
    state.items.append(UserItem(state.last_seq, prompt.prompt, prompt.text, prompt.images))
    state.unread = True
    state.steps_of_prompt = 0
    state.crashes = state.crashed_summaries = 0


def _epoch_started(state: SessionState, event: ev.EpochStarted) -> None:
    epoch = Epoch(
        number=event.epoch,
        seq=state.last_seq,
        model=event.model,
        baseline=event.baseline,
        tools=event.tools,
        lowering=event.lowering,
        reasons=event.reasons,
    )
    state.begin_epoch(epoch, dict(event.snapshot))


def _told(state: SessionState, event: ev.SystemMessage) -> None:
    state.items.append(SystemItem(state.last_seq, event.text))
    for key, entry in event.changed.items():
        if entry is None:
            state.snapshot.pop(key, None)
        else:
            state.snapshot[key] = entry


def _note(state: SessionState, event: ev.Note) -> None:
    state.items.append(NoteItem(state.last_seq, event.text))


def _step_started(state: SessionState, event: ev.StepStarted) -> None:
    state.step = OpenStep(event, state.last_seq, {})
    state.steps = event.step
    state.steps_of_prompt += 1
    state.last_request = (event.blocks, event.digest)
    state.last_step = event


def _answered(state: SessionState, event: ev.AssistantMessage) -> None:
    step = state.step
    if step is None:
        raise StoreDamaged(f"session {state.session}: an answer without a step")
    if step.started.forms:
        state.bind_forms(step.started.model, step.started.forms)
    state.usage = event.usage
    calls = [part for part in event.parts if isinstance(part, ToolCall)]
    step.calls = {call.id: Call(call) for call in calls}
    step.answered = True
    item = AssistantItem(
        state.last_seq,
        event.step,
        event.parts,
        step.started.epoch,
        step.started.model,
        event.response,
    )
    state.items.append(item)
    state.unread = False


def _tool_started(state: SessionState, event: ev.ToolStarted) -> None:
    if state.step is not None and event.call in state.step.calls:
        state.step.calls[event.call].started = True


def _tool_settled(state: SessionState, event: ev.ToolSettled) -> None:
    step = state.step
    if step is None or event.call not in step.calls:
        raise StoreDamaged(f"session {state.session}: a result for the unknown call {event.call}")
    settled = step.calls[event.call]
    settled.result = ResultItem(
        state.last_seq,
        event.call,
        settled.call.name,
        event.output,
        event.outcome,
        event.images,
    )
    if not step.unsettled:
        # Results settle in any order; the history keeps the order of the calls.
        state.items.extend(call.result for call in step.calls.values() if call.result)
        state.unread = True


def _recovering(state: SessionState, event: ev.RecoveryStarted) -> None:
    if state.step is not None:
        state.step.recoveries = event.attempt


def _interrupted(state: SessionState, _event: ev.DrainInterrupted) -> None:
    state.crashes = 0
    state.outcome = "interrupted"
    state.unread = False


def _step_finished(state: SessionState, event: ev.StepFinished) -> None:
    state.step = None
    state.crashes = state.crashes + 1 if event.outcome == "crashed" else 0
    state.outcome = event.outcome
    if event.outcome in {"failed", "interrupted", "declined"}:
        state.unread = False
    if event.outcome == "overflowed":
        state.steps_of_prompt -= 1  # the step that does it once more is the same one of the limit


_FOLDS: dict[type[ev.Event], Callable[[SessionState, Any], None]] = {
    ev.SessionCreated: _created,
    ev.SessionRenamed: _renamed,
    ev.ModelSwitched: _switched,
    ev.SessionMoved: _moved,
    ev.SessionForked: _forked,
    ev.SessionReverted: _not_alone,
    ev.EntrySet: _entry_set,
    ev.EntryRemoved: _entry_removed,
    ev.InstructionsDiscovered: _discovered,
    ev.CompactionAsked: _compaction_asked,
    ev.CompactionStarted: _compaction_started,
    ev.CompactionFinished: _compacted,
    ev.CompactionFailed: _compaction_failed,
    ev.PromptAdmitted: _admitted,
    ev.PromptDeliveryChanged: _redelivered,
    ev.PromptWithdrawn: _withdrawn,
    ev.PromptPromoted: _promoted,
    ev.EpochStarted: _epoch_started,
    ev.SystemMessage: _told,
    ev.Note: _note,
    ev.StepStarted: _step_started,
    ev.AssistantMessage: _answered,
    ev.ToolStarted: _tool_started,
    ev.ToolSettled: _tool_settled,
    ev.RecoveryStarted: _recovering,
    ev.StepFinished: _step_finished,
    ev.DrainInterrupted: _interrupted,
}
