"""What the scenes of the demo are played on: the world, the workers, the screen."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import anyio

from perdure import Runtime
from perdure.demo.facts import Facts
from perdure.demo.findings import Change, Evidence
from perdure.demo.narrator import Narrator
from perdure.demo.process import Worker, start_worker
from perdure.demo.screen import Screen
from perdure.demo.world import World
from perdure.errors import PerdureError
from perdure.history import events as ev
from perdure.instructions.keys import key_of
from perdure.testing import ScriptedProvider

_PATIENCE = 20.0
"""Seconds to wait for the release command to have its effect."""


class Stage:
    """Plays what a scene asks for, shows it, and gathers the evidence.

    `pace` is how many seconds a visitor gets to read a short line; 0 where nobody watches.
    """

    def __init__(self, world: World, screen: Screen, *, pace: float) -> None:
        self.world = world
        self.session = ""
        self._screen = screen
        self._narrator = Narrator(screen)
        self._pace = pace
        self._facts: Facts | None = None
        self._seq = 0
        self._step = 0
        self._changes: dict[int, list[Change]] = defaultdict(list)
        self._rebuilt: dict[int, str] = {}
        self._killed = False

    @asynccontextmanager
    async def worker(self, what: str) -> AsyncGenerator[Worker, None]:
        """Start a process that works on the session, until the context is left."""
        async with start_worker(self.world, self.session, self._seq) as worker:
            self.session = worker.session
            self._screen.title(f"process {worker.pid} {what}")
            yield worker

    async def ask(self, worker: Worker, prompt: str) -> None:
        """Give the session a prompt and show all that comes of it."""
        async with aclosing(self.asked(worker, prompt)) as events:
            async for _ in events:
                pass

    async def asked(self, worker: Worker, prompt: str) -> AsyncGenerator[ev.Event, None]:
        """Do the same; yield each event when it was shown, so that a scene can step in."""
        async with aclosing(worker.prompt(prompt)) as records:
            async for record in records:
                await self._see(record)
                yield record.data

    async def edit_instructions(self, text: str) -> None:
        """Add a line to AGENTS.md."""
        self.world.add_instruction(text)
        change = Change("AGENTS.md edited", key_of(self.world.instructions))
        await self._change(change, f"adds a line to AGENTS.md: {text}")

    async def delete_instructions(self) -> None:
        """Delete AGENTS.md."""
        self.world.instructions.unlink()
        change = Change("AGENTS.md deleted", key_of(self.world.instructions))
        await self._change(change, "deletes AGENTS.md, while no process is there to see it")

    async def turn_clock(self, day: datetime.date, when: str = "") -> None:
        """Let the date change."""
        self.world.clock.turn_to(day)
        change = Change(f"now {day.isoformat()}", "perdure/date")
        await self._change(change, f"turns the clock to {day.isoformat()}{when}")

    async def kill_after_effect(self, worker: Worker) -> None:
        """Wait until the release command has had its effect, then kill its process."""
        with anyio.move_on_after(_PATIENCE):
            while not self.world.releases_made():  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.01)
        if not self.world.releases_made():
            raise PerdureError(f"the release command had no effect within {_PATIENCE:g} s")
        self._killed = await worker.kill()
        did = f"kill -9 {worker.pid}, while the call runs: releases.txt has its line already"
        await self._change(Change("kill -9 in a call"), did)

    async def evidence(self, provider: ScriptedProvider) -> Evidence:
        """Return what was received, written and done; the log is read from the database."""
        return Evidence(
            session=self.session,
            log=await self._log(),
            requests=provider.requests,
            refused=len(provider.refused),
            changes=self._changes,
            rebuilt=self._rebuilt,
            killed=self._killed,
            releases=self.world.releases_made(),
        )

    async def _log(self) -> list[ev.Record]:
        async with Runtime.open(self.world.store, environ=self.world.environment) as runtime:
            session = await runtime.session(self.session)
            async with aclosing(session.events(until_idle=True)) as records:
                return [record async for record in records if isinstance(record, ev.Record)]

    async def _see(self, record: ev.Record) -> None:
        self._seq = record.seq
        match record.data:
            case ev.SessionCreated(marker=marker):
                self._facts = Facts(self.world, marker)
            case ev.StepStarted(step=step) if self._facts:
                self._step = step
                self._rebuilt[step] = await self._facts.now()
            case _:
                pass
        await self._pause(self._narrator.show(record))

    async def _change(self, change: Change, did: str) -> None:
        self._changes[self._step + 1].append(change)
        self._screen.line("demo", did, "bold yellow")
        await self._pause(2)

    async def _pause(self, weight: float) -> None:
        if self._pace and weight:
            await anyio.sleep(self._pace * weight)
