"""What a batch of events changes in the projections: a pure function that every store executes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from perdure.context.snapshot import SourceSnapshot
from perdure.errors import PromptConflict
from perdure.history import events as ev

Settled = Literal["promoted", "withdrawn"]


class RowChanges:
    """What one batch of events changes, independent of the database.

    `columns`: new values of the session's row (title, directory, model, outcome, parent).
    `admitted`: new prompt id to the index, within the batch, of the event that admits it.
    `prompts`: prompt id to its new state. `snapshot`: key to its encoded entry, None where the row
    goes away, after all older rows went if `clear_snapshot`. `control`: the index, within the
    batch, of the last event that a sampled boundary must not miss; None where there is none.
    """

    __slots__ = ("admitted", "clear_snapshot", "columns", "control", "prompts", "snapshot")

    def __init__(self) -> None:
        self.columns: dict[str, Any] = {}
        self.admitted: dict[str, int] = {}
        self.prompts: dict[str, Settled] = {}
        self.snapshot: dict[str, bytes | None] = {}
        self.clear_snapshot = False
        self.control: int | None = None

    @property
    def pending(self) -> int:
        """By how much the number of pending prompts changes."""
        return len(self.admitted) - len(self.prompts)


_CONTROL = (
    ev.ModelSwitched,
    ev.SessionMoved,
    ev.EntrySet,
    ev.EntryRemoved,
    ev.CompactionAsked,
    ev.PromptWithdrawn,
    ev.PromptDeliveryChanged,
    ev.InterruptAsked,
)


def project(events: Sequence[ev.Event]) -> RowChanges:
    """Return what the events change, in order; later ones win.

    Raises PromptConflict where a prompt is admitted or settled twice, or settled before it came:
    one change of each kind is all that rows can tell.
    """
    changes = RowChanges()
    for index, event in enumerate(events):
        if isinstance(event, _CONTROL):
            changes.control = index
        if isinstance(event, ev.PromptAdmitted):
            _admit(changes, event.prompt, index)
        project_one = _PROJECTORS.get(type(event))
        if project_one is not None:
            project_one(changes, event)
    return changes


def _created(changes: RowChanges, event: ev.SessionCreated) -> None:
    changes.columns.update(
        title=event.title, directory=event.directory, model=event.model, parent=event.parent
    )


def _renamed(changes: RowChanges, event: ev.SessionRenamed) -> None:
    changes.columns["title"] = event.title


def _switched(changes: RowChanges, event: ev.ModelSwitched) -> None:
    changes.columns["model"] = event.model


def _moved(changes: RowChanges, event: ev.SessionMoved) -> None:
    changes.columns["directory"] = event.directory


def _admit(changes: RowChanges, prompt: str, index: int) -> None:
    if prompt in changes.admitted or prompt in changes.prompts:
        raise _changes_twice(prompt)
    changes.admitted[prompt] = index


def _promoted(changes: RowChanges, event: ev.PromptPromoted) -> None:
    _settle(changes, event.prompt, "promoted")


def _withdrawn(changes: RowChanges, event: ev.PromptWithdrawn) -> None:
    _settle(changes, event.prompt, "withdrawn")


def _settle(changes: RowChanges, prompt: str, state: Settled) -> None:
    if prompt in changes.prompts:
        raise _changes_twice(prompt)
    changes.prompts[prompt] = state


def _changes_twice(prompt: str) -> PromptConflict:
    return PromptConflict(
        f"prompt {prompt} would change twice in one write; nothing was written. "
        "Admit and settle it once, in this order"
    )


def _epoch(changes: RowChanges, event: ev.EpochStarted) -> None:
    changes.clear_snapshot = True
    changes.snapshot = {key: _entry(entry) for key, entry in event.snapshot.items()}


def _reverted(changes: RowChanges, event: ev.SessionReverted) -> None:
    changes.clear_snapshot = True
    changes.snapshot = {key: _entry(entry) for key, entry in event.snapshot.items()}
    changes.columns["outcome"] = "reverted"


def _told(changes: RowChanges, event: ev.SystemMessage) -> None:
    for key, entry in event.changed.items():
        changes.snapshot[key] = None if entry is None else _entry(entry)


def _step_started(changes: RowChanges, _: ev.StepStarted) -> None:
    changes.columns["outcome"] = "open"


def _finished(changes: RowChanges, event: ev.StepFinished) -> None:
    changes.columns["outcome"] = event.outcome


def _interrupted(changes: RowChanges, _: ev.DrainInterrupted) -> None:
    changes.columns["outcome"] = "interrupted"


def _entry(entry: SourceSnapshot) -> bytes:
    return msgspec.json.encode(entry)


_PROJECTORS: dict[type[ev.Event], Callable[[RowChanges, Any], None]] = {
    ev.SessionCreated: _created,
    ev.SessionRenamed: _renamed,
    ev.ModelSwitched: _switched,
    ev.SessionMoved: _moved,
    ev.PromptPromoted: _promoted,
    ev.PromptWithdrawn: _withdrawn,
    ev.EpochStarted: _epoch,
    ev.SessionReverted: _reverted,
    ev.SystemMessage: _told,
    ev.StepStarted: _step_started,
    ev.StepFinished: _finished,
    ev.DrainInterrupted: _interrupted,
}
