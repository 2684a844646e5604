"""The story of the demo."""

from __future__ import annotations

import datetime

import anyio

from perdure.demo.stage import Stage
from perdure.history import events as ev

_NEXT_DAY = datetime.date(2026, 3, 7)


async def play(stage: Stage, thinking: anyio.Event) -> None:
    """Play all scenes; `thinking` lets the model go on that waits for the world to change."""
    async with stage.worker("begins a session") as worker:
        await stage.ask(worker, "Water boils at 100 degrees, but boils(100) is False. Why?")
        await stage.edit_instructions("Note every fix in CHANGES.md, under today's date.")
        async for event in stage.asked(worker, "Fix it."):
            if isinstance(event, ev.StepStarted) and not thinking.is_set():
                await stage.turn_clock(_NEXT_DAY, ", while the model thinks")
                thinking.set()
        async for event in stage.asked(worker, "Release it."):
            if isinstance(event, ev.ToolStarted):
                await stage.kill_after_effect(worker)
    await stage.delete_instructions()
    async with stage.worker("goes on where that one was") as worker:
        await stage.ask(worker, "I lost you there. Is 1.1 out?")
