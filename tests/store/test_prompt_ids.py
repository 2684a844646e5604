"""Prompt and session ids that should never have come: the log stays what its projections say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from perdure.clock import SystemClock
from perdure.errors import PromptConflict, SessionNotFound
from perdure.history import events as ev
from perdure.store.contract import PromptRow
from perdure.store.sqlite import open_sqlite

pytestmark = pytest.mark.anyio

CREATED = ev.SessionCreated(directory="/project", project="/project", model="a/one", marker="word")
ADMITTED = ev.PromptAdmitted(prompt="p1", text="hello")
PROMOTED = ev.PromptPromoted("p1")
WITHDRAWN = ev.PromptWithdrawn("p1")
HALF_A_CHARACTER = "abc\udcff"


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
async def test_one_write_changes_a_prompt_once(tmp_path: Path, events: Sequence[ev.Event]) -> None:
    async with await open_sqlite(tmp_path / "store.db", clock=SystemClock()) as store:
        await store.create("s1", [CREATED])
        with pytest.raises(PromptConflict, match="p1 would change twice in one write"):
            await store.append("s1", events)
        assert await store.version("s1") == 1
        assert await store.prompt("p1") is None
        assert await store.check() == []


async def test_one_write_may_admit_and_promote_a_prompt(tmp_path: Path) -> None:
    async with await open_sqlite(tmp_path / "store.db", clock=SystemClock()) as store:
        other = ev.PromptAdmitted(prompt="p2", text="later")
        await store.create("s1", [CREATED, ADMITTED, other, PROMOTED])
        assert await store.prompt("p1") == PromptRow("p1", "s1", 2, "promoted")
        assert (await store.session("s1")).pending == 1
        assert await store.check() == []


async def test_an_id_with_half_a_character_is_not_there(tmp_path: Path) -> None:
    async with await open_sqlite(tmp_path / "store.db", clock=SystemClock()) as store:
        await store.create("abc", [CREATED])
        for call in (
            store.session(HALF_A_CHARACTER),
            store.version(HALF_A_CHARACTER),
            store.events(HALF_A_CHARACTER),
            store.resolve(HALF_A_CHARACTER),
        ):
            with pytest.raises(SessionNotFound, match=r"there is no session 'abc\\udcff'"):
                await call
        assert await store.prompt(HALF_A_CHARACTER) is None
