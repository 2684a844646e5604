"""A whole log that was kept elsewhere: all of it or nothing, with its times."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest

from perdure.context.snapshot import SourceSnapshot
from perdure.errors import ConcurrencyError, PromptConflict, SessionNotFound, UsageError
from perdure.history import events as ev
from perdure.store.contract import PromptRow, SessionRow, Store
from perdure.testing.clock import FakeClock
from perdure.testing.conformance.events import CREATED, admitted, begin, epoch, told, types

EVENTS: Sequence[ev.Event] = (
    CREATED,
    ev.SessionRenamed("A title"),
    admitted("p1"),
    admitted("p2"),
    admitted("p3"),
    ev.PromptPromoted("p1"),
    epoch(a="1", b="2"),
    ev.ModelSwitched("b/two"),
    ev.SessionMoved(directory="/other", project="/other"),
    ev.PromptWithdrawn("p2"),
    told(b=None, c="3"),
    ev.StepFinished(step=1, outcome="failed"),
)
LOG = [ev.Record(seq, 1000 + 7 * seq, event) for seq, event in enumerate(EVENTS, 1)]


class Restoring:
    """`restore`: a session that begins with its whole history."""

    async def test_a_restored_log_comes_back_with_its_times(
        self, store: Store, clock: FakeClock
    ) -> None:
        await store.restore("s1", LOG)
        assert list(await store.events("s1")) == LOG
        (record,) = await store.append("s1", [ev.Note("goes on")])
        assert record.seq == len(LOG) + 1
        assert record.time == round(clock.now().timestamp() * 1000)

    async def test_a_restored_session_is_what_its_log_says(self, store: Store) -> None:
        await store.restore("s1", LOG)
        assert await store.session("s1") == SessionRow(
            id="s1",
            title="A title",
            directory="/other",
            model="b/two",
            outcome="failed",
            pending=1,
            created=1007,
            updated=1084,
            last_seq=12,
            control_seq=10,
            token=0,
            owner="",
        )
        assert await store.prompt("p1") == PromptRow("p1", "s1", 3, "promoted")
        assert await store.prompt("p2") == PromptRow("p2", "s1", 4, "withdrawn")
        assert await store.prompt("p3") == PromptRow("p3", "s1", 5, "pending")
        assert await store.snapshot("s1") == {
            "test/a": SourceSnapshot("1"),
            "test/c": SourceSnapshot("3"),
        }
        assert await store.check() == []

    async def test_a_restored_session_can_be_drained_and_deleted(self, store: Store) -> None:
        await store.restore("s1", LOG)
        lease = await store.claim("s1", "one")
        assert lease is not None
        await store.append("s1", [ev.PromptPromoted("p3")], release=lease)
        await store.delete("s1")
        assert await store.prompt("p3") is None
        await store.restore("s1", LOG)
        assert (await store.session("s1")).pending == 1

    async def test_no_drain_of_a_restored_session_was_asked_to_stop_elsewhere(
        self, store: Store
    ) -> None:
        asked = ev.Record(len(LOG) + 1, LOG[-1].time, ev.InterruptAsked(drain=7))
        await store.restore("s1", [*LOG, asked])
        lease = await store.claim("s1", "one")
        assert lease is not None
        assert lease.token > 7

    async def test_a_session_was_updated_at_the_latest_of_its_times(self, store: Store) -> None:
        earlier = ev.Record(len(LOG) + 1, 1, ev.Note("when the clock had been set back"))
        await store.restore("s1", [*LOG, earlier])
        assert (await store.session("s1")).updated == LOG[-1].time
        assert await store.check() == []

    async def test_a_log_is_not_restored_over_a_session(self, store: Store) -> None:
        await begin(store, "s1", ev.Note("here before"))
        with pytest.raises(ConcurrencyError, match="s1 exists already"):
            await store.restore("s1", LOG)
        assert await types(store) == ["session.created", "note"]
        assert await store.prompt("p1") is None
        assert await store.check() == []

    async def test_a_log_whose_prompt_is_known_elsewhere_is_not_restored(
        self, store: Store
    ) -> None:
        await begin(store, "s1", admitted("p3"))
        with pytest.raises(PromptConflict, match="p3 is already pending in session s1"):
            await store.restore("s2", LOG)
        with pytest.raises(SessionNotFound):
            await store.session("s2")
        assert await store.prompt("p1") is None
        assert await store.check() == []

    @pytest.mark.parametrize(
        ("records", "words"),
        [
            ([], "would begin with nothing"),
            ([ev.Record(1, 5, ev.Note("x"))], "would begin with note"),
            (LOG[1:], "would begin with session.renamed"),
            ([LOG[0], *LOG[2:]], "event 3 in the place of 2"),
            ([LOG[0], LOG[2], LOG[1]], "event 3 in the place of 2"),
            ([LOG[0], *LOG[:2]], "event 1 in the place of 2"),
            ([ev.Record(0, 5, CREATED)], "event 0 in the place of 1"),
        ],
        ids=["empty", "another-beginning", "no-first", "gap", "order", "doubled", "from-zero"],
    )
    async def test_what_is_no_whole_log_is_not_restored(
        self, store: Store, records: Sequence[ev.Record], words: str
    ) -> None:
        with pytest.raises(UsageError, match=words):
            await store.restore("s1", records)
        assert await store.sessions() == []

    @pytest.mark.parametrize("events", [[], [ev.Note("x")]], ids=["empty", "another-beginning"])
    async def test_a_session_begins_with_its_creation(
        self, store: Store, events: Sequence[ev.Event]
    ) -> None:
        with pytest.raises(UsageError, match="session s1 would begin with"):
            await store.create("s1", events)
        assert await store.sessions() == []

    async def test_of_many_restores_of_one_id_one_succeeds(
        self, store: Store, opener: Callable[[], Awaitable[Store]]
    ) -> None:
        other = await opener()
        landed: list[str] = []

        async def restore(into: Store, note: str) -> None:
            try:
                await into.restore("s1", [*LOG, ev.Record(13, 2000, ev.Note(note))])
                landed.append(note)
            except ConcurrencyError:
                pass

        async with anyio.create_task_group() as tasks:
            for name in ("a", "b", "c"):
                tasks.start_soon(restore, store, name)
                tasks.start_soon(restore, other, name * 2)
        assert [record.data for record in await store.events("s1", after=12)] == [ev.Note(*landed)]
        assert await store.check() == []
        await other.close()
