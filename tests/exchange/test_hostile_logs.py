"""Files that are whole, and hold a log that cannot be: refused with the line of the event."""

from __future__ import annotations

import copy
import io
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import PerdureError, Runtime, Session
from perdure.cli.records import json_line
from perdure.cli.transcript import item_data, transcript_blocks
from perdure.errors import ImportRefused
from perdure.history import events as ev
from perdure.testing import isolated_environment
from tests.exchange.exchange_support import edited, event_line_of, lines_of
from tests.exchange.test_refused_files import refusal
from tests.session.support import log_of, of_type

pytestmark = pytest.mark.anyio

CHANGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a directory with a NUL": ("session.created", {"directory": "/a\0b"}, "a path that is not"),
    "a directory that is relative": ("session.created", {"directory": "../x"}, "a path that is"),
    "a project that is too long": ("session.created", {"project": "/" + "a" * 5000}, "a path"),
    "a holder": ("prompt.admitted", {"holder": "host:1:x"}, "a process of another machine"),
    "a field of another type": ("prompt.admitted", {"text": 7}, "a damaged prompt.admitted event"),
    "an unknown field": ("prompt.admitted", {"x": 1}, "the event is not as Perdure writes it"),
    "a default written out": ("prompt.admitted", {"delivery": "steer"}, "is not as Perdure writes"),
    "a prompt that never came": ("prompt.promoted", {"prompt": "x"}, "which is not pending"),
    "an entry without a name": ("entry.set", {"name": ""}, "an entry's name must be"),
    "an entry that is too large": ("entry.set", {"value": "x" * 9000}, "the limit is"),
    "a key that is none": ("system.message", {"changed": {"../x": None}}, "is not a key"),
    "another key of a Baseline": ("epoch.started", {"snapshot": {"a\0/b": {"value": 1}}}, "a key"),
    "a number below zero": ("epoch.started", {"lowering": -1}, "lowering is out of range"),
    "a number that is absurd": ("step.started", {"blocks": 2**60}, "blocks is out of range"),
    "a step out of order": ("step.started", {"step": 7}, "step 7 follows step 0"),
    "an epoch that is not in force": ("step.started", {"epoch": 2}, "epoch, 2, is not in force"),
    "an answer to no step": ("assistant.message", {"step": 9}, "step 9 is not open"),
    "a start of no call": ("tool.started", {"call": "x"}, "the answer has no such call"),
    "a result of no call": ("tool.settled", {"call": "x"}, "the answer has no such call"),
    "an end of no step": ("step.finished", {"step": 2**52}, "is not open"),
    "an error of no name": (
        "step.finished",
        {"failure": {"error": "__doc__", "message": ""}},
        "no name of an error",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_an_event_that_cannot_be_is_refused_with_its_line(
    root: Path, busy: bytes, name: str
) -> None:
    kind, change, words = CHANGES[name]

    def edit(lines: list[dict[str, Any]]) -> None:
        lines[event_line_of(lines, kind)]["data"].update(change)

    at = event_line_of(lines_of(busy), kind) + 1
    line = await refusal(root, edited(busy, edit))
    assert line.startswith(f", line {at}: ")
    assert words in line


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("prompt.admitted", "which is not pending"),
        ("epoch.started", "is not in force"),
        ("step.started", "step 1 is not open"),
        ("assistant.message", "the answer has no such call"),
        ("tool.settled", "a call of step 1 has no result"),
        ("step.finished", "step 1 is still open"),
        ("session.created", "session.created is the first event of a log"),
    ],
)
async def test_a_log_that_lacks_an_event_is_refused(
    root: Path, busy: bytes, kind: str, words: str
) -> None:
    def edit(lines: list[dict[str, Any]]) -> None:
        del lines[event_line_of(lines, kind)]
        numbered(lines)

    assert words in await refusal(root, edited(busy, edit))


async def test_a_drain_that_was_interrupted_between_steps_within_one_is_refused(
    root: Path, busy: bytes
) -> None:
    def edit(lines: list[dict[str, Any]]) -> None:
        at = event_line_of(lines, "step.finished")
        lines.insert(at, lines[at] | {"type": "drain.interrupted", "data": {}})
        numbered(lines)

    assert "step 1 is still open" in await refusal(root, edited(busy, edit))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("session.created", "session.created is the first event of a log"),
        ("prompt.admitted", "a prompt of that id was admitted before"),
        ("prompt.promoted", "which is not pending"),
        ("step.started", "step 1 is still open"),
        ("assistant.message", "step 1 has its answer already"),
        ("tool.settled", "or it has its result already"),
        ("step.finished", "step 1 is not open"),
    ],
)
async def test_a_log_that_has_an_event_twice_is_refused(
    root: Path, busy: bytes, kind: str, words: str
) -> None:
    def edit(lines: list[dict[str, Any]]) -> None:
        at = event_line_of(lines, kind)
        lines.insert(at, copy.deepcopy(lines[at]))
        numbered(lines)

    assert words in await refusal(root, edited(busy, edit))


@pytest.mark.parametrize("time", [-1, 10**15, 10**18])
async def test_a_time_that_is_no_date_is_refused(root: Path, busy: bytes, time: int) -> None:
    line = await refusal(root, edited(busy, lambda lines: lines[3].update(time=time)))
    assert "line 4: its time is no date between 1970 and 9998" in line


@pytest.mark.parametrize("to", [0, 500, 7])
async def test_a_revert_to_where_there_is_no_way_back_is_refused(
    root: Path, busy: bytes, to: int
) -> None:
    def edit(lines: list[dict[str, Any]]) -> None:
        end = next((at for at, line in enumerate(lines) if "output" in line), len(lines))
        data: dict[str, Any] = {"to": to, "snapshot": {}}
        lines.insert(end, {"seq": end, "type": "session.reverted", "time": 1, "data": data})

    assert ": it goes back " in await refusal(root, edited(busy, edit))


async def test_a_log_of_no_event_is_refused(root: Path, busy: bytes) -> None:
    line = await refusal(root, edited(busy, lambda lines: lines.__delitem__(slice(1, None))))
    assert "line 1: it holds no event" in line


async def test_an_event_of_tomorrow_is_refused_by_its_type(root: Path, busy: bytes) -> None:
    line = await refusal(root, edited(busy, lambda lines: lines[4].update(type="x.invented")))
    assert "line 5: an event of unknown type 'x.invented'" in line


async def test_data_nested_without_end_are_refused(root: Path, busy: bytes) -> None:
    lines = busy.splitlines(keepends=True)
    (at,) = (index for index, line in enumerate(lines) if b'"entry.set"' in line)
    begin, _, _ = lines[at].partition(b'"value":')
    for depth, words in ((300, "nested more than 200 levels deep"), (200_000, "it is not what")):
        deep = begin + b'"value":' + b"[" * depth + b"]" * depth + b"}}\n"
        line = await refusal(root, b"".join([*lines[:at], deep, *lines[at + 1 :]]))
        assert line.startswith(f", line {at + 1}: ")
        assert words in line


def numbered(lines: list[dict[str, Any]]) -> None:
    events = [line for line in lines if "seq" in line]
    for seq, line in enumerate(events, 1):
        line["seq"] = seq


class Reader:
    """A runtime that imports one hostile file after the other, and reads what it let in."""

    def __init__(self, root: Path, portal: BlockingPortal) -> None:
        self._root = root
        self._portal = portal
        environ = isolated_environment(root)
        self._open = Runtime.open(root / "sessions.db", config={}, environ=environ)
        self._cm = portal.wrap_async_context_manager(self._open)
        self.runtime = self._cm.__enter__()

    def close(self) -> None:
        self._cm.__exit__(None, None, None)

    def import_and_read(self, export: bytes) -> bool:
        return self._portal.call(self._import_and_read, export)

    async def _import_and_read(self, export: bytes) -> bool:
        try:
            session = await self.runtime.import_session(io.BytesIO(export))
        except ImportRefused:
            assert await self.runtime.sessions() == []
            return False
        assert b"".join([block async for block in session.exported()]) == export
        await self._read(session)
        await self.runtime.delete_session(session.id)
        return True

    async def _read(self, session: Session) -> None:
        (row,) = await self.runtime.sessions()
        records = await log_of(session)
        assert transcript_blocks(await session.messages(system=True))
        for item in await session.messages(system=True):
            item_data(item)
        for record in records:
            json_line(record)
        await session.context(at=len(records))
        await self.runtime.standing(row)
        for look in (session.state, session.context, session.request):
            with suppress(PerdureError):
                await look()
        for step in of_type(records, ev.StepStarted):
            with suppress(PerdureError):
                await session.request(step.step)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Generator[Reader]:
    with start_blocking_portal() as portal:
        reader = Reader(tmp_path_factory.mktemp("reader"), portal)
        yield reader
        reader.close()


TEXTS = ["", "\0", "../../etc", "/etc", "native"]
NASTY: list[Any] = [None, *TEXTS, -1, 0, 2**53, 10**30, 1.5, True, [], {}, [None]]


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to each value inside JSON data."""
    pairs: Any = value.items() if hasattr(value, "items") else enumerate(value)
    found: list[tuple[Any, ...]] = []
    for key, inner in pairs:
        found.append((*way, key))
        if isinstance(inner, dict | list):
            found += places(inner, (*way, key))
    return found


@given(data=st.data())
@settings(max_examples=80)
def test_what_is_let_in_can_be_read_and_all_else_is_refused(
    reader: Reader, busy: bytes, data: st.DataObject
) -> None:
    def edit(lines: list[dict[str, Any]]) -> None:
        event = data.draw(st.sampled_from([line["data"] for line in lines if "seq" in line]))
        way = data.draw(st.sampled_from(places(event) or [("x",)]))
        for key in way[:-1]:
            event = event[key]
        event[way[-1]] = data.draw(st.sampled_from(NASTY))

    reader.import_and_read(edited(busy, edit))


def test_the_reader_of_hostile_logs_lets_in_what_is_right(reader: Reader, busy: bytes) -> None:
    assert reader.import_and_read(busy)


async def test_a_request_in_an_unknown_protocol_is_an_error_with_its_name(
    root: Path, busy: bytes
) -> None:
    def edit(lines: list[dict[str, Any]]) -> None:
        lines[event_line_of(lines, "step.started")]["data"]["request"]["protocol"] = "smoke"

    root.mkdir()
    async with Runtime.open(root / "sessions.db", config={}, environ={}) as runtime:
        session = await runtime.import_session(io.BytesIO(edited(busy, edit)))
        with pytest.raises(PerdureError, match="'smoke'"):
            await session.request(1)
