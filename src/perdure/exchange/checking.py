"""Does a log make sense, and can nothing in it do harm where it is read?

The store and the runtime write logs that pass; one that comes from elsewhere may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from perdure.context.keys import check_key
from perdure.errors import ImageRefused, PerdureError, StoreDamaged
from perdure.exchange.lines import portable
from perdure.history import events as ev
from perdure.history.content import Image, ToolCall
from perdure.history.state import Folding, OpenStep, SessionState
from perdure.images import images_of
from perdure.sources import check_entry

_LATEST = 253_370_764_800_000
"""The beginning of the year 9999 in milliseconds: no time zone leads out of what a date can be."""

_LARGEST_NUMBER = 2**53
_DEEPEST = 200
_LONGEST_PATH = 4096
_FREE = {"value", "opaque"}
"""Fields that hold the JSON data of somebody else, numbers of any size included."""

_ERROR_NAME = re.compile(r"[A-Z][A-Za-z0-9]{0,99}")


class Fault(msgspec.Struct, frozen=True):
    """The first event of a log that cannot be right, and why."""

    seq: int
    reason: str


class _Wrong(Exception):
    """Why an event cannot be right."""


def find_fault(session: str, records: Sequence[ev.Record]) -> Fault | None:
    """Return the first fault of a session's whole log; None where it has none."""
    log = _Log(session, records)
    for record in records:
        try:
            log.follow(record)
        except (_Wrong, PerdureError) as error:
            return Fault(record.seq, str(error))
    return None if records else Fault(0, "it holds no event")


class _Log:
    """Folds a log, and looks at each event before it counts."""

    def __init__(self, session: str, records: Iterable[ev.Record]) -> None:
        self._folding = Folding(session, records)
        self._prompts: set[str] = set()

    def follow(self, record: ev.Record) -> None:
        """Take in the next event; raise _Wrong, or what the fold raises, where it cannot be."""
        event = record.data
        _require_its_place(record)
        _require_bounds(event)
        if isinstance(event, ev.PromptAdmitted):
            self._require_new(event.prompt)
        check = _CHECKS.get(type(event))
        if check is not None:
            check(self._folding.state, event)
        if isinstance(event, ev.SessionReverted):
            self._require_a_way_back(event)
        self._folding.apply(record)

    def _require_a_way_back(self, event: ev.SessionReverted) -> None:
        try:
            then = self._folding.earlier(event)
        except StoreDamaged:
            raise _Wrong(f"it goes back to event {event.to}, which is not before it") from None
        if then.step is not None:
            raise _Wrong(f"it goes back into step {then.steps}, which is not over there")
        if then.snapshot != event.snapshot:
            raise _Wrong(f"its Context Snapshot is not that of event {event.to}")

    def _require_new(self, prompt: str) -> None:
        if prompt in self._prompts:
            raise _Wrong("a prompt of that id was admitted before")
        self._prompts.add(prompt)


def _require_its_place(record: ev.Record) -> None:
    begins = isinstance(record.data, ev.SessionCreated)
    if begins != (record.seq == 1):
        raise _Wrong("session.created is the first event of a log, and no other")
    if not 0 <= record.time < _LATEST:
        raise _Wrong("its time is no date between 1970 and 9998")
    if portable(record.data) != record.data:
        raise _Wrong("it names a process of another machine")


def _require_bounds(event: ev.Event) -> None:
    """Walk through all that an event holds; what is nested too deep would end whoever reads it."""
    waiting: list[tuple[Any, int]] = [(event, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > _DEEPEST:
            raise _Wrong(f"its data are nested more than {_DEEPEST} levels deep")
        waiting.extend((each, depth + 1) for each in _inside(value))


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, msgspec.Struct):
        return list(_fields(value))
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    return cast("Iterable[Any]", value) if isinstance(value, list | tuple) else ()


def _fields(value: msgspec.Struct) -> Iterator[Any]:
    if isinstance(value, ev.Failure) and not _ERROR_NAME.fullmatch(value.error):
        raise _Wrong("its failure has no name of an error")
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if type(field) is int and name not in _FREE and not 0 <= field <= _LARGEST_NUMBER:
            raise _Wrong(f"{name} is out of range")
        yield field


def _paths(_: SessionState, event: ev.SessionCreated | ev.SessionMoved) -> None:
    _require_paths(event.directory, event.project)


def _discovered(_: SessionState, event: ev.InstructionsDiscovered) -> None:
    _require_paths(event.directory, *event.paths)


def _require_paths(*paths: str) -> None:
    for path in paths:
        if not path.startswith("/") or "\0" in path or len(path.encode()) > _LONGEST_PATH:
            raise _Wrong("it holds a path that is not absolute, or cannot be one")


def _entry(_: SessionState, event: ev.EntrySet) -> None:
    check_entry(event.name, event.value)


def _admitted(_: SessionState, event: ev.PromptAdmitted) -> None:
    _require_images(event.images)


def _require_images(images: Sequence[Image]) -> None:
    """Refuse what no provider takes: it would make every request of the session fail."""
    try:
        made = images_of(images, Path("/"))
    except ImageRefused as error:
        raise _Wrong(f"its images cannot be taken: {error}") from None
    for each, given in zip(made, images, strict=True):
        if each != given:
            raise _Wrong(f"it holds an image that is another one than it says: {each.described}")


def _pending(state: SessionState, event: ev.PromptWithdrawn) -> None:
    if event.prompt not in state.pending:
        raise _Wrong("it is about a prompt that is not pending")


def _epoch(state: SessionState, event: ev.EpochStarted) -> None:
    if state.step is not None:
        raise _Wrong(f"an epoch begins inside step {state.steps}")
    _require_keys(event.snapshot)


def _told(_: SessionState, event: ev.SystemMessage) -> None:
    _require_keys(event.changed)


def _reverted(_: SessionState, event: ev.SessionReverted) -> None:
    _require_keys(event.snapshot)


def _require_keys(keys: Iterable[str]) -> None:
    for key in keys:
        check_key(key)


def _step(state: SessionState, event: ev.StepStarted) -> None:
    _between_steps(state, event)
    if event.step != state.steps + 1:
        raise _Wrong(f"step {event.step} follows step {state.steps}")
    if state.epoch is None or event.epoch != state.epoch.number:
        raise _Wrong(f"its epoch, {event.epoch}, is not in force")


def _in_step(state: SessionState, event: Any) -> OpenStep:
    if state.step is None or event.step != state.steps:
        raise _Wrong(f"step {event.step} is not open")
    return state.step


def _answer(state: SessionState, event: ev.AssistantMessage) -> None:
    if _in_step(state, event).answered:
        raise _Wrong(f"step {event.step} has its answer already")
    ids = [part.id for part in event.parts if isinstance(part, ToolCall)]
    if len(ids) != len(set(ids)):
        raise _Wrong("two of its calls have one id")


def _started(state: SessionState, event: ev.ToolStarted) -> None:
    if event.call not in _in_step(state, event).calls:
        raise _Wrong("the answer has no such call")


def _settled(state: SessionState, event: ev.ToolSettled) -> None:
    call = _in_step(state, event).calls.get(event.call)
    if call is None or call.result is not None:
        raise _Wrong("the answer has no such call, or it has its result already")
    if event.images and event.outcome != "completed":
        raise _Wrong("a call that did not complete has images")
    _require_images(event.images)


def _finished(state: SessionState, event: ev.StepFinished) -> None:
    if _in_step(state, event).unsettled:
        raise _Wrong(f"a call of step {event.step} has no result")


def _between_steps(state: SessionState, _: ev.StepStarted | ev.DrainInterrupted) -> None:
    if state.step is not None:
        raise _Wrong(f"step {state.steps} is still open")


_CHECKS: dict[type[ev.Event], Callable[[SessionState, Any], Any]] = {
    ev.SessionCreated: _paths,
    ev.SessionMoved: _paths,
    ev.SessionReverted: _reverted,
    ev.EntrySet: _entry,
    ev.InstructionsDiscovered: _discovered,
    ev.PromptAdmitted: _admitted,
    ev.PromptWithdrawn: _pending,
    ev.EpochStarted: _epoch,
    ev.SystemMessage: _told,
    ev.StepStarted: _step,
    ev.AttemptFailed: _in_step,
    ev.AssistantMessage: _answer,
    ev.ToolStarted: _started,
    ev.ToolSettled: _settled,
    ev.RecoveryStarted: _in_step,
    ev.StepFinished: _finished,
    ev.DrainInterrupted: _between_steps,
}
