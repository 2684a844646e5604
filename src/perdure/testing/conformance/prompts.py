"""Prompt ids: admitted once, settled once, in one session only."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perdure.errors import (
    PromptConflict,
    SessionNotFound,
)
from perdure.history import events as ev
from perdure.store.contract import PromptRow, Store
from perdure.testing.conformance.events import admitted, begin, types

ADMITTED = admitted("p1")
PROMOTED = ev.PromptPromoted("p1")
WITHDRAWN = ev.PromptWithdrawn("p1")
HALF_A_CHARACTER = "abc\udcff"


class Prompts:
    """What the store knows of every Prompt id."""

    async def test_a_prompt_is_admitted_once_in_all_sessions(self, store: Store) -> None:
        await begin(store, "s1", admitted("p1"))
        await begin(store, "s2")
        for session in ("s1", "s2"):
            with pytest.raises(PromptConflict, match="p1 is already pending in session s1"):
                await store.append(session, [ev.Note("before"), admitted("p1", "another text")])
        assert await types(store, "s2") == ["session.created"]
        assert await store.prompt("p1") == PromptRow("p1", "s1", 2, "pending")
        assert await store.prompt("p2") is None

    @pytest.mark.parametrize(
        ("settle", "state"),
        [(ev.PromptPromoted("p1"), "promoted"), (ev.PromptWithdrawn("p1"), "withdrawn")],
    )
    async def test_a_prompt_leaves_the_inbox_once(
        self, store: Store, settle: ev.Event, state: str
    ) -> None:
        await begin(store, "s1", admitted("p1"), admitted("p2"))
        await store.append("s1", [settle])
        for again in (ev.PromptPromoted("p1"), ev.PromptWithdrawn("p1")):
            with pytest.raises(PromptConflict, match=f"p1 is already {state}"):
                await store.append("s1", [again])
        row = await store.prompt("p1")
        assert row is not None
        assert row.state == state
        assert (await store.session("s1")).pending == 1

    async def test_a_session_cannot_settle_the_prompt_of_another(self, store: Store) -> None:
        await begin(store, "s1", admitted("p1"))
        await begin(store, "s2")
        with pytest.raises(PromptConflict, match="pending in session s1"):
            await store.append("s2", [ev.PromptPromoted("p1")])
        with pytest.raises(PromptConflict, match="there is no prompt p9"):
            await store.append("s2", [ev.PromptPromoted("p9")])

    @pytest.mark.parametrize(
        "events",
        [
            (ADMITTED, ADMITTED),
            (ADMITTED, PROMOTED, PROMOTED),
            (ADMITTED, PROMOTED, WITHDRAWN),
            (ADMITTED, PROMOTED, ADMITTED),
            (PROMOTED, ADMITTED),
        ],
    )
    async def test_one_write_changes_a_prompt_once(
        self, store: Store, events: Sequence[ev.Event]
    ) -> None:
        await begin(store)
        with pytest.raises(PromptConflict, match="p1 would change twice in one write"):
            await store.append("s1", events)
        assert await store.version("s1") == 1
        assert await store.prompt("p1") is None
        assert await store.check() == []

    async def test_one_write_may_admit_and_promote_a_prompt(self, store: Store) -> None:
        await begin(store, "s1", ADMITTED, admitted("p2"), PROMOTED)
        assert await store.prompt("p1") == PromptRow("p1", "s1", 2, "promoted")
        assert (await store.session("s1")).pending == 1
        assert await store.check() == []

    async def test_an_id_with_half_a_character_is_not_there(self, store: Store) -> None:
        await begin(store, "abc")
        for call in (
            store.session(HALF_A_CHARACTER),
            store.version(HALF_A_CHARACTER),
            store.events(HALF_A_CHARACTER),
            store.resolve(HALF_A_CHARACTER),
        ):
            with pytest.raises(SessionNotFound, match=r"there is no session 'abc\\udcff'"):
                await call
        assert await store.prompt(HALF_A_CHARACTER) is None
