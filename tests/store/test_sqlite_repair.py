"""Projections against the log: equal after any events, and made so again after damage."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.context.snapshot import SourceSnapshot
from perdure.errors import SessionNotFound, StoreDamaged
from perdure.history import events as ev
from perdure.history.projection import project
from perdure.store.schema import SEQ_BITS
from perdure.store.sqlite import SQLiteStore, open_sqlite
from tests.store.store_support import CREATED, SetClock, admitted, raw

pytestmark = pytest.mark.anyio

KEYS = st.sampled_from(["test/a", "test/b", "test/c"])
ENTRIES = st.builds(
    SourceSnapshot,
    st.recursive(st.none() | st.integers(-9, 9) | st.text(max_size=3), st.lists, max_leaves=3),
    st.none() | st.text(max_size=3),
)
EVENTS = st.one_of(
    st.builds(ev.SessionRenamed, st.text(max_size=4)),
    st.builds(ev.ModelSwitched, st.sampled_from(["a/one", "b/two"])),
    st.builds(ev.SessionMoved, st.sampled_from(["/x", "/y"]), st.just("/x")),
    st.builds(ev.EntrySet, st.just("e"), st.integers()),
    st.builds(ev.Note, st.text(max_size=600)),
    st.builds(ev.StepFinished, st.just(1), st.sampled_from(["completed", "failed"])),
    st.builds(
        ev.SystemMessage, st.just("told"), st.dictionaries(KEYS, ENTRIES | st.none(), max_size=3)
    ),
    st.builds(
        ev.EpochStarted,
        epoch=st.just(1),
        reasons=st.just(()),
        model=st.just("a/one"),
        baseline=st.just("text"),
        snapshot=st.dictionaries(KEYS, ENTRIES, max_size=3),
        tools=st.just(()),
        lowering=st.just(1),
    ),
)


@st.composite
def batches(draw: st.DrawFn) -> list[list[ev.Event]]:
    """Batches of events in which every prompt is admitted once and settled at most once."""
    result: list[list[ev.Event]] = []
    pending: list[str] = []
    count = 0
    for _ in range(draw(st.integers(1, 8))):
        batch: list[ev.Event] = []
        for choice in draw(st.lists(st.integers(0, 5), max_size=4)):
            if choice == 0:
                count += 1
                pending.append(f"p{count}")
                batch.append(admitted(pending[-1]))
            elif choice == 1 and pending:
                settled = pending.pop(draw(st.integers(0, len(pending) - 1)))
                batch.append(
                    draw(st.sampled_from([ev.PromptPromoted, ev.PromptWithdrawn]))(settled)
                )
            else:
                batch.append(draw(EVENTS))
        result.append(batch)
    return result


async def assert_projected(store: SQLiteStore, events: Sequence[ev.Event]) -> None:
    """Assert that what the store shows is what all the events fold into at once."""
    changes = project(events)
    row = await store.session("s1")
    names = ("title", "directory", "model", "outcome", "parent")
    shown = {name: getattr(row, name) for name in names}
    assert shown == {"outcome": "", **changes.columns}
    assert row.last_seq == len(events)
    assert row.control_seq == (0 if changes.control is None else changes.control + 1)
    assert row.pending == changes.pending
    for prompt, index in changes.admitted.items():
        found = await store.prompt(prompt)
        assert found is not None
        assert (found.seq, found.state) == (index + 1, changes.prompts.get(prompt, "pending"))
    snapshot = {}
    for event in events:
        if isinstance(event, ev.EpochStarted):
            snapshot = dict(event.snapshot)
        elif isinstance(event, ev.SystemMessage):
            snapshot |= event.changed
    assert await store.snapshot("s1") == {
        key: entry for key, entry in snapshot.items() if entry is not None
    }


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(given_batches=batches())
def test_projections_are_what_the_log_folds_into(given_batches: list[list[ev.Event]]) -> None:
    async def run(path: Path) -> None:
        async with await open_sqlite(path, clock=SetClock()) as store:
            await store.create("s1", [CREATED])
            events: list[ev.Event] = [CREATED]
            for batch in given_batches:
                await store.append("s1", batch)
                events += batch
            assert [record.data for record in await store.events("s1")] == events
            await assert_projected(store, events)
            assert await store.check() == []
            with raw(path) as connection:
                connection.execute("UPDATE session SET title = 'wrong', pending = 7, updated = 0")
                connection.execute("DELETE FROM prompt")
                connection.execute("DELETE FROM snapshot")
            assert await store.rebuild() != []
            await assert_projected(store, events)
            assert await store.check() == []

    with tempfile.TemporaryDirectory() as directory:
        anyio.run(run, Path(directory) / "store.db")


async def two_sessions(store: SQLiteStore) -> None:
    for number in (1, 2):
        events = [CREATED, ev.Note("two"), admitted(f"p{number}"), ev.Note("four")]
        await store.create(f"s{number}", events)


def damage(path: Path, statement: str) -> None:
    with raw(path) as connection:
        connection.execute(statement, {"third": (1 << SEQ_BITS) + 3, "last": (1 << SEQ_BITS) + 4})


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE event SET data = '{' WHERE place = :third", "event 3 of session s1 is damaged"),
        ("UPDATE event SET data = '[]' WHERE place = :third", "event 3 of session s1 is damaged"),
        (
            "UPDATE event SET data = CAST(x'7b22ff' AS TEXT) WHERE place = :third",
            "event 3 of session s1 is damaged",
        ),
        ("UPDATE event SET kind = 999 WHERE place = :third", "event 3 of session s1 is damaged"),
        ("DELETE FROM event WHERE place = :third", "event 3 of session s1 is missing"),
        ("DELETE FROM event WHERE place = :last", "event 4 of session s1 is missing"),
    ],
)
async def test_a_damaged_event_blocks_its_own_session_only(
    store: SQLiteStore, path: Path, statement: str, words: str
) -> None:
    await two_sessions(store)
    damage(path, statement)
    with pytest.raises(StoreDamaged, match=words):
        await store.events("s1")
    assert len(await store.events("s1", limit=2)) == 2
    assert len(await store.events("s2")) == 4
    await store.append("s2", [ev.Note("still works")])
    assert await store.check() != []


async def test_what_is_wrong_is_said_session_by_session(store: SQLiteStore, path: Path) -> None:
    await two_sessions(store)
    damage(path, "UPDATE event SET data = '{' WHERE place = :third")
    damage(path, "UPDATE session SET pending = 5 WHERE id = 's2'")
    damage(path, "UPDATE prompt SET state = 'promoted' WHERE id = 'p2'")
    damage(path, "INSERT INTO snapshot VALUES (2, 'test/a', '{}'), (77, 'test/a', '{}')")
    lines = await store.check()
    assert len(lines) == 5
    assert lines[0].startswith("event 3 of session s1 is damaged")
    assert lines[1].startswith("session s2: its row has pending 5, its log 1; run `perdure doctor")
    assert lines[2].startswith("session s2: prompt p2 is not pending as in its log")
    assert lines[3].startswith("session s2: its Context Snapshot is not that of its log")
    assert lines[4].startswith("1 rows of table snapshot belong to no session; run `perdure")


async def test_a_rebuild_repairs_all_that_the_log_can_tell(store: SQLiteStore, path: Path) -> None:
    await two_sessions(store)
    damage(path, "UPDATE event SET data = '{' WHERE place = :third")
    damage(path, "UPDATE session SET pending = 5, last_seq = 9 WHERE id = 's2'")
    damage(path, "INSERT INTO prompt VALUES ('p9', 2, 9, 'pending'), ('p8', 9, 9, 'pending')")
    assert await store.rebuild() == [
        "session s2: its row has pending 5, its log 1",
        "session s2: its row has last_seq 9, its log 4",
        "session s2: what came after event 4 of it may be lost",
        "session s2: it has 2 prompts, its log 1",
        "1 rows of table prompt belonged to no session",
    ]
    assert [line[:26] for line in await store.check()] == ["event 3 of session s1 is d"]
    assert len(await store.events("s2")) == 4


async def test_one_session_can_be_rebuilt_alone(store: SQLiteStore, path: Path) -> None:
    await two_sessions(store)
    damage(path, "UPDATE session SET title = 'wrong'")
    assert await store.rebuild("s2") == ["session s2: its row has title 'wrong', its log ''"]
    assert await store.rebuild("s2") == []
    assert (await store.session("s1")).title == "wrong"
    with pytest.raises(SessionNotFound):
        await store.rebuild("s3")


async def test_a_damaged_page_blocks_neither_the_check_nor_the_others(
    store: SQLiteStore, path: Path
) -> None:
    await two_sessions(store)
    await store.append("s1", [ev.Note("x" * 3000)])
    with raw(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        ((page,),) = connection.execute(
            "SELECT max(pageno) FROM dbstat WHERE name = 'event' AND pagetype = 'overflow'"
        ).fetchall()
        size = connection.pragma("page_size")
    await store.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    async with await open_sqlite(path, clock=SetClock()) as again:
        with pytest.raises(StoreDamaged):
            await again.events("s1")
        assert len(await again.events("s2")) == 4
        await again.append("s2", [ev.Note("still works")])
        assert any("s1" in line for line in await again.check())
