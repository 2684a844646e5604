"""One database opened again, or twice at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest

from perdure.errors import LeaseLost, StoreError
from perdure.history import events as ev
from perdure.store.contract import Guard, PromptRow, Store
from perdure.testing.conformance.events import admitted, begin, epoch, types

Opener = Callable[[], Awaitable[Store]]


class Opening:
    """What outlives a store object, and what two of them on one database owe each other."""

    async def test_what_was_written_is_there_after_opening_again(self, opener: Opener) -> None:
        first = await opener()
        await begin(first, "s1", admitted("p1"), epoch(a="1"))
        row, records = await first.session("s1"), await first.events("s1")
        told = await first.snapshot("s1")
        await first.close()
        again = await opener()
        assert (await again.session("s1"), await again.events("s1")) == (row, records)
        assert await again.prompt("p1") == PromptRow("p1", "s1", 2, "pending")
        assert await again.snapshot("s1") == told
        assert await again.check() == []
        await again.close()

    async def test_a_closed_store_refuses_and_may_be_closed_again(self, store: Store) -> None:
        await begin(store)
        await store.close()
        await store.close()
        for call in (store.append("s1", []), store.events("s1"), store.session("s1")):
            with pytest.raises(StoreError):
                await call

    async def test_closing_finishes_what_was_handed_over(
        self, store: Store, opener: Opener
    ) -> None:
        await begin(store)
        async with anyio.create_task_group() as tasks:
            for number in range(30):
                tasks.start_soon(store.append, "s1", [ev.Note(str(number))])
            await anyio.lowlevel.checkpoint()
            await store.close()
        again = await opener()
        assert await again.version("s1") == 31
        await again.close()

    async def test_closing_gives_up_what_is_held(self, store: Store, opener: Opener) -> None:
        await begin(store)
        assert await store.claim("s1", "one") is not None
        await store.close()
        again = await opener()
        assert (await again.session("s1")).owner == ""
        assert await again.claim("s1", "two") is not None
        await again.close()

    async def test_what_one_store_wrote_another_sees_at_once(
        self, store: Store, opener: Opener
    ) -> None:
        other = await opener()
        await begin(store)
        await other.append("s1", [ev.Note("from the other")])
        assert await store.version("s1") == 2
        assert await types(store) == await types(other) == ["session.created", "note"]
        await other.close()

    async def test_two_stores_on_one_database_respect_each_others_leases(
        self, store: Store, opener: Opener
    ) -> None:
        other = await opener()
        await begin(store)
        lease = await store.claim("s1", "one")
        assert lease is not None
        assert await other.claim("s1", "two") is None
        await store.release(lease)
        taken = await other.claim("s1", "two")
        assert taken is not None
        assert taken.token > lease.token
        with pytest.raises(LeaseLost):
            await store.append("s1", [ev.Note("late")], guard=Guard(token=lease.token))
        await other.close()
