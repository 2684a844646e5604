"""Who drains a session: one owner at a time, fenced by its token."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from perdure.errors import (
    LeaseLost,
    StaleBoundary,
)
from perdure.history import events as ev
from perdure.store.contract import Guard, Lease, Store
from perdure.testing.clock import FakeClock
from perdure.testing.conformance.events import begin, begin_task, types


class Leases:
    """Claims, fencing tokens and the writes under them."""

    async def test_a_write_with_an_old_token_is_refused(self, store: Store) -> None:
        await begin(store)
        first = await store.claim("s1", "one")
        assert first is not None
        await store.release(first)
        second = await store.claim("s1", "two")
        assert second is not None
        assert second.token > first.token
        with pytest.raises(LeaseLost, match="session s1 is no longer run under the lease"):
            await store.append("s1", [ev.Note("late")], guard=Guard(token=first.token))
        await store.append("s1", [ev.Note("mine")], guard=Guard(token=second.token))
        assert await types(store) == ["session.created", "note"]

    async def test_a_session_that_is_drained_is_not_deleted(self, store: Store) -> None:
        await begin(store)
        lease = await store.claim("s1", "somebody")
        with pytest.raises(LeaseLost, match="session s1 is being run by"):
            await store.delete("s1")
        assert lease is not None
        await store.release(lease)
        await store.delete("s1")

    async def test_a_session_is_not_deleted_while_its_task_is_drained(self, store: Store) -> None:
        await begin(store)
        await begin_task(store, "s2", "s1")
        lease = await store.claim("s2", "somebody")
        with pytest.raises(LeaseLost, match="session s2 is being run by"):
            await store.delete("s1")
        assert len(await store.sessions()) == 2
        assert lease is not None
        await store.release(lease)
        assert sorted(await store.delete("s1")) == ["s1", "s2"]

    async def test_one_owner_drains_at_a_time(self, store: Store) -> None:
        await begin(store)
        lease = await store.claim("s1", "one")
        assert lease == Lease("s1", "one", 1)
        assert await store.claim("s1", "two") is None
        assert await store.claim("s1", "one") is None
        assert (await store.session("s1")).owner == "one"

    async def test_of_many_claims_at_once_one_succeeds(self, store: Store) -> None:
        await begin(store)
        leases: list[Lease | None] = []

        async def claim(name: str) -> None:
            leases.append(await store.claim("s1", name))

        async with anyio.create_task_group() as tasks:
            for name in range(20):
                tasks.start_soon(claim, f"owner {name}")
        assert len([lease for lease in leases if lease is not None]) == 1

    async def test_a_lease_is_given_up_with_the_last_write(self, store: Store) -> None:
        await begin(store)
        lease = await store.claim("s1", "one")
        assert lease is not None
        guard = Guard(token=lease.token)
        await store.append("s1", [ev.Note("last")], guard=guard, release=lease)
        assert (await store.session("s1")).owner == ""
        with pytest.raises(LeaseLost):
            await store.append("s1", [ev.Note("later")], guard=guard)
        assert await store.claim("s1", "two") is not None

    async def test_a_refused_last_write_keeps_the_lease(self, store: Store) -> None:
        await begin(store)
        lease = await store.claim("s1", "one")
        assert lease is not None
        with pytest.raises(StaleBoundary):
            await store.append("s1", [ev.Note("x")], guard=Guard(exactly=0), release=lease)
        assert (await store.session("s1")).owner == "one"
        assert await store.claim("s1", "two") is None

    async def test_giving_up_a_lost_lease_changes_nothing(self, store: Store) -> None:
        await begin(store)
        first = await store.claim("s1", "one")
        assert first is not None
        await store.release(first)
        second = await store.claim("s1", "two")
        await store.release(first)
        await store.append("s1", [ev.Note("x")], release=first)
        assert (await store.session("s1")).owner == "two"
        assert second is not None
        await store.append("s1", [ev.Note("y")], guard=Guard(token=second.token))

    async def test_an_empty_append_only_gives_up_the_lease(
        self, store: Store, clock: FakeClock
    ) -> None:
        await begin(store)
        lease = await store.claim("s1", "one")
        clock.advance(60)
        before = await store.session("s1")
        assert await store.append("s1", [], release=lease) == []
        after = await store.session("s1")
        assert (after.owner, after.updated, after.last_seq) == ("", before.updated, before.last_seq)

    async def test_a_cancelled_claim_gives_its_lease_back(self, store: Store) -> None:
        await begin(store)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.claim, "s1", "cancelled")
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert await store.claim("s1", "two") is not None
