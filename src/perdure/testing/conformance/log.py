"""The log and what is read of it: order, cursors, rows, guards."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from perdure.clock import milliseconds
from perdure.context.snapshot import SourceSnapshot
from perdure.errors import (
    AmbiguousId,
    ConcurrencyError,
    SessionNotFound,
    StaleBoundary,
)
from perdure.history import events as ev
from perdure.store.contract import Guard, SessionRow, Store
from perdure.testing.clock import FakeClock
from perdure.testing.conformance.events import (
    CREATED,
    admitted,
    begin,
    begin_task,
    epoch,
    told,
    types,
)


class Log:
    """One session's events, and the rows that follow them."""

    async def test_a_new_session_has_its_first_events_and_a_row(
        self, store: Store, clock: FakeClock
    ) -> None:
        records = await store.create("s1", [CREATED, ev.SessionRenamed("A title")])
        now = milliseconds(clock.now())
        assert [(record.seq, record.time, record.type) for record in records] == [
            (1, now, "session.created"),
            (2, now, "session.renamed"),
        ]
        assert await store.session("s1") == SessionRow(
            id="s1",
            title="A title",
            directory="/project",
            model="a/one",
            outcome="",
            pending=0,
            created=now,
            updated=now,
            last_seq=2,
            control_seq=0,
            token=0,
            owner="",
        )

    async def test_a_row_names_the_session_that_gave_the_task(self, store: Store) -> None:
        await begin(store)
        await begin_task(store, "s2", "s1")
        await begin_task(store, "s3", "elsewhere")
        await store.append("s2", [ev.Note("2")])
        assert {row.id: row.parent for row in await store.sessions()} == {
            "s1": "",
            "s2": "s1",
            "s3": "elsewhere",
        }
        assert (await store.session("s2")).parent == "s1"

    async def test_an_id_that_is_taken_begins_no_second_session(self, store: Store) -> None:
        await begin(store)
        with pytest.raises(ConcurrencyError, match="s1 exists already"):
            await begin(store)
        assert await types(store) == ["session.created"]

    async def test_events_come_back_as_they_were_appended(self, store: Store) -> None:
        await begin(store)
        events = [admitted("p1", "grüß\0 dich"), ev.EntrySet("x", {"a": [None, 1.5]}), ev.Note("")]
        appended = await store.append("s1", events)
        assert [record.data for record in appended] == events
        assert list(await store.events("s1", after=1)) == list(appended)

    @pytest.mark.parametrize(
        ("after", "limit", "expected"),
        [
            (0, None, [1, 2, 3, 4]),
            (2, None, [3, 4]),
            (1, 2, [2, 3]),
            (3, 9, [4]),
            (0, 0, []),
            (4, None, []),
            (9, 5, []),
            (-3, 1, [1]),
        ],
    )
    async def test_a_reader_gets_what_lies_after_its_cursor(
        self, store: Store, after: int, limit: int | None, expected: list[int]
    ) -> None:
        await begin(store, "s1", ev.Note("2"), ev.Note("3"), ev.Note("4"))
        await begin(store, "s2", ev.Note("another session's"))
        assert [r.seq for r in await store.events("s1", after=after, limit=limit)] == expected

    async def test_a_session_that_is_not_there_is_named(self, store: Store) -> None:
        calls = (
            store.append("gone", [ev.Note("x")]),
            store.events("gone"),
            store.session("gone"),
            store.version("gone"),
            store.snapshot("gone"),
            store.claim("gone", "me"),
            store.delete("gone"),
            store.resolve("gone"),
            store.resolve(""),
        )
        for call in calls:
            with pytest.raises(SessionNotFound, match=r"there is no session '(gone)?'"):
                await call

    async def test_the_row_follows_the_events(self, store: Store, clock: FakeClock) -> None:
        await begin(store)
        clock.advance(5)
        await store.append(
            "s1",
            [
                ev.SessionMoved(directory="/other", project="/other"),
                ev.ModelSwitched("b/two"),
                ev.SessionRenamed("Title"),
                admitted("p1"),
                ev.StepFinished(step=1, outcome="failed"),
            ],
        )
        row = await store.session("s1")
        assert (row.directory, row.model, row.title) == ("/other", "b/two", "Title")
        assert (row.outcome, row.pending, row.last_seq, row.control_seq) == ("failed", 1, 6, 3)
        assert (row.created, row.updated) == (milliseconds(clock.now()) - 5000, row.created + 5000)
        assert await store.version("s1") == 6

    async def test_the_session_updated_last_comes_first(
        self, store: Store, clock: FakeClock
    ) -> None:
        for session in ("s1", "s2", "s3"):
            await begin(store, session)
            clock.advance(1)
        await store.append("s2", [ev.Note("x")])
        assert [row.id for row in await store.sessions()] == ["s2", "s3", "s1"]

    async def test_a_unique_prefix_finds_its_session(self, store: Store) -> None:
        for session in ("abc", "abd", "b", "b1", "%"):
            await begin(store, session)
        assert await store.resolve("abd") == "abd"
        assert await store.resolve("b") == "b"
        assert await store.resolve("b1") == "b1"
        assert await store.resolve("%") == "%"
        with pytest.raises(AmbiguousId, match=r"'a' begins several session ids \(abc, abd\)"):
            await store.resolve("a")

    async def test_the_snapshot_advances_with_its_messages(self, store: Store) -> None:
        await begin(store, "s1", epoch(a="1", b="2"), told(b="3", c="4"))
        await store.append("s1", [told(a=None)])
        assert await store.snapshot("s1") == {
            "test/b": SourceSnapshot("3"),
            "test/c": SourceSnapshot("4"),
        }

    async def test_an_epoch_replaces_the_whole_snapshot(self, store: Store) -> None:
        await begin(store, "s1", epoch(a="1", b="2"))
        await store.append("s1", [told(c="9"), epoch(b="2", d="5"), told(d=None, e="6")])
        assert await store.snapshot("s1") == {
            "test/b": SourceSnapshot("2"),
            "test/e": SourceSnapshot("6"),
        }

    async def test_a_boundary_that_missed_a_control_event_is_refused(self, store: Store) -> None:
        await begin(store, "s1", ev.Note("2"))
        await store.append("s1", [ev.EntrySet("x", 1), ev.Note("4")])
        with pytest.raises(StaleBoundary, match="event 3, which landed after it was read at 2"):
            await store.append("s1", [ev.Note("late")], guard=Guard(sampled=2))
        await store.append("s1", [ev.Note("5")], guard=Guard(sampled=3))

    async def test_a_write_for_exactly_one_moment_is_refused_at_another(self, store: Store) -> None:
        await begin(store, "s1", ev.Note("2"))
        with pytest.raises(StaleBoundary, match="event 2, which landed after it was read at 1"):
            await store.append("s1", [ev.Note("late")], guard=Guard(exactly=1))
        await store.append("s1", [ev.Note("3")], guard=Guard(exactly=2))

    async def test_of_two_writes_for_one_moment_one_lands(self, store: Store) -> None:
        await begin(store)
        landed: list[str] = []

        async def write(name: str) -> None:
            try:
                await store.append("s1", [ev.Note(name)], guard=Guard(exactly=1))
                landed.append(name)
            except StaleBoundary:
                pass

        async with anyio.create_task_group() as tasks:
            for name in ("a", "b", "c"):
                tasks.start_soon(write, name)
        assert len(landed) == 1
        assert await store.version("s1") == 2

    async def test_many_writers_leave_no_gap_and_lose_nothing(self, store: Store) -> None:
        await begin(store)
        seqs: list[int | None] = []

        async def write(name: int) -> None:
            for number in range(10):
                events = [ev.Note(f"{name}.{number}"), ev.Note(f"{name}.{number}+")]
                seqs.extend(record.seq for record in await store.append("s1", events))

        async with anyio.create_task_group() as tasks:
            for name in range(20):
                tasks.start_soon(write, name)
        assert sorted(seq or 0 for seq in seqs) == list(range(2, 402))
        assert len(await store.events("s1")) == 401

    async def test_a_cancelled_caller_does_not_take_its_write_back(self, store: Store) -> None:
        await begin(store)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.append, "s1", [ev.Note("handed over")])
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        await store.append("s1", [ev.Note("next")])
        assert [r.data for r in await store.events("s1", after=1)] == [
            ev.Note("handed over"),
            ev.Note("next"),
        ]

    async def test_a_session_is_deleted_with_the_tasks_that_it_gave(self, store: Store) -> None:
        await begin(store)
        await begin_task(store, "s2", "s1", admitted("p2"))
        await begin_task(store, "s3", "s4", admitted("p3"))
        await begin_task(store, "s4", "s4")
        assert sorted(await store.delete("s1")) == ["s1", "s2"]
        assert sorted(row.id for row in await store.sessions()) == ["s3", "s4"]
        assert await store.prompt("p2") is None
        assert await store.delete("s3") == ["s3"]
        assert await store.delete("s4") == ["s4"]
        assert await store.check() == []

    async def test_a_deleted_session_leaves_nothing_behind(self, store: Store) -> None:
        await begin(store, "s1", admitted("p1"), epoch(a="1"))
        await begin(store, "s2", admitted("p2"), epoch(a="2"))
        await store.delete("s1")
        assert [row.id for row in await store.sessions()] == ["s2"]
        assert await store.prompt("p1") is None
        assert await store.check() == []
        await begin(store, "s1", admitted("p1"))
        assert await types(store) == ["session.created", "prompt.admitted"]
        assert await store.snapshot("s1") == {}
