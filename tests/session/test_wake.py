"""Going on without a new prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Runtime
from perdure.history.items import AssistantItem
from perdure.testing import ScriptedProvider, say

pytestmark = pytest.mark.anyio


async def test_a_wake_answers_what_waits(tmp_path: Path) -> None:
    async with (
        ScriptedProvider([say("Yes.")]) as model,
        Runtime.open(tmp_path / "s.db", config=model.config()) as runtime,
    ):
        session = await runtime.create_session(directory=tmp_path)
        await session.prompt("Are you there?", wake=False)
        session.wake()
        await session.wait()
        assert isinstance((await session.messages())[-1], AssistantItem)


async def test_a_wake_with_nothing_to_do_changes_nothing(tmp_path: Path) -> None:
    async with (
        ScriptedProvider([]) as model,
        Runtime.open(tmp_path / "s.db", config=model.config()) as runtime,
    ):
        session = await runtime.create_session(directory=tmp_path)
        before = await session.row()
        session.wake()
        await session.wait()
        assert (await session.row()).last_seq == before.last_seq
        assert model.requests == []


async def test_the_model_of_a_new_session_can_be_asked_for_without_one(tmp_path: Path) -> None:
    async with (
        ScriptedProvider([]) as model,
        Runtime.open(tmp_path / "s.db", config=model.config()) as runtime,
    ):
        assert await runtime.choose_model(tmp_path) == "scripted/model-1"
        assert await runtime.choose_model(tmp_path, "scripted/other") == "scripted/other"
        assert await runtime.sessions() == []
