"""A program that is killed at a named crash point, and started again: `crash_points_worker.py`.

It reads one job a line from standard input, forks for each of them a process that has everything
imported already, and prints the exit status. Each act is written as a client that may be started
again would be: prompts have ids of its own, and what is done already is not done again.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec

from perdure import PromptConflict, Runtime, Session, Source, Tool, ToolContext
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.session.attempts import RetryPolicy
from perdure.store.sqlite import open_sqlite
from perdure.testing import CrashingStore
from tests.session.forking import forked, jobs

CHANGED_BY_SECOND_RECOVERY = 3


class PointJob(msgspec.Struct):
    """One process: which act it plays, on what, and the point `at` which it ends."""

    act: str
    root: str
    config: dict[str, Any]
    environ: dict[str, str]
    at: str = ""

    @property
    def path(self) -> Path:
        return Path(self.root)


class Effect(msgspec.Struct):
    """What to write down."""

    name: str


class Client:
    """Plays an act over a runtime; says in a file which prompts were acknowledged."""

    def __init__(self, job: PointJob, store: CrashingStore) -> None:
        self.job = job
        self.store = store
        self.runtime: Runtime
        self.session: Session

    async def play(self) -> None:
        """Go on where the last process ended, twice; then play the act."""
        if await self.store.sessions():
            async with self._opened():
                await self._recover()
        before = await self._logs()
        async with self._opened():
            await self._recover()
            if await self._logs() != before:
                os._exit(CHANGED_BY_SECOND_RECOVERY)
            self.session = await self._session()
            await ACTS[self.job.act](self)
            await self.idle()

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[None]:
        async with Runtime.open(
            self.store,
            config=self.job.config,
            environ=self.job.environ,
            tools=self._tools(),
            sources=[_fact(self.job.path / "fact.txt")],
            retry=RetryPolicy(base=0.001),
        ) as self.runtime:
            yield

    async def _recover(self) -> None:
        for session in await self.runtime.recover():
            await (await self.runtime.session(session)).wait()

    async def _logs(self) -> list[bytes]:
        rows = sorted(row.id for row in await self.store.sessions())
        records = [record for id_ in rows for record in await self.store.events(id_)]
        return [b"%d %d %b" % (each.seq, each.time, ev.encode(each.data)) for each in records]

    async def _session(self) -> Session:
        for row in await self.runtime.sessions():
            if row.title in {"main", "renamed"} and not await self._is_fork(row.id):
                return await self.runtime.session(row.id)
        return await self.runtime.create_session(
            directory=self.job.path / "project", title="main", instructions="Be brief."
        )

    async def _is_fork(self, session: str) -> bool:
        return any(
            isinstance(each.data, ev.SessionForked) for each in await self.store.events(session)
        )

    async def idle(self) -> None:
        """Wait until nothing is left to do in any session."""
        for row in await self.runtime.sessions():
            await (await self.runtime.session(row.id)).wait()

    async def admit(self, prompt: str, session: Session | None = None, **how: Any) -> None:
        """Send a prompt that has its own name as its id, and write down that it was taken."""
        await (session or self.session).prompt(f"PROMPT-{prompt}.", id=prompt, **how)
        self.note("acknowledged.txt", prompt)

    async def ask(self, prompt: str, session: Session | None = None) -> None:
        """Send a prompt and wait until it is answered."""
        await self.admit(prompt, session)
        await (session or self.session).wait()

    async def has(self, kind: type[ev.Event]) -> bool:
        """Say whether the session's log has an event of that kind."""
        events = await self.store.events(self.session.id)
        return any(isinstance(each.data, kind) for each in events)

    def note(self, file: str, line: str) -> None:
        with (self.job.path / file).open("a") as opened:
            opened.write(f"{line}\n")

    def _tools(self) -> list[Tool[Effect]]:
        def tool(name: str, idempotent: bool, then: Callable[[str], Awaitable[None]]) -> Any:
            async def run(arguments: Effect, context: ToolContext) -> str:
                await then(arguments.name)
                with self.store.points.around(f"effect {arguments.name}"):
                    self.note("effects.txt", f"{arguments.name} {context.idempotency_key}")
                return f"{arguments.name} is done"

            return Tool(
                name=name, description="Act.", arguments=Effect, run=run, idempotent=idempotent
            )

        return [
            tool("effect", False, self._in_turn),
            tool("again", True, self._in_turn),
            tool("busy", False, self._while_others_prompt),
        ]

    async def _in_turn(self, name: str) -> None:
        # The second call of a pair ends after the result of the first is durable.
        while name == "second" and not await self.has(ev.ToolSettled):
            await anyio.sleep(0.002)

    async def _while_others_prompt(self, _name: str) -> None:
        await inbox_fills(self)


def _fact(file: Path) -> Source[str]:
    return Source(
        key="test/fact",
        type=str,
        load=file.read_text,
        baseline=lambda fact: f"The fact is {fact}.",
        update=lambda _, fact: f"The fact is now {fact}.",
    )


async def answers(client: Client) -> None:
    await client.ask("plain")
    (client.job.path / "fact.txt").write_text("new")
    await client.session.set_entry("note", {"a": 1})
    await client.session.rename("renamed")
    await client.ask("told")


async def attempts(client: Client) -> None:
    await client.ask("retried")


async def interruption(client: Client) -> None:
    await client.admit("held")
    async for record in client.session.events(until_idle=True):
        if isinstance(record.data, ev.TextDelta):
            break
    await client.session.interrupt()
    await client.ask("after")


async def calls(client: Client) -> None:
    await client.ask("calls")


async def idempotent(client: Client) -> None:
    await client.ask("again")


async def task(client: Client) -> None:
    await client.ask("delegated")


async def inbox(client: Client) -> None:
    await client.ask("busy")
    if await client.store.prompt("steered") is None:
        await inbox_fills(client)


async def inbox_fills(client: Client) -> None:
    """Admit what comes while a call runs; the same again changes nothing."""
    session = (await client.runtime.sessions())[0].id
    client.session = await client.runtime.session(session)
    await client.admit("queued", delivery="queue")
    await client.admit("withdrawn", delivery="queue")
    with suppress(PromptConflict):  # an earlier process has done it
        await client.session.withdraw("withdrawn")
        client.note("withdrawn.txt", "withdrawn")
    await client.admit("steered")


async def switch(client: Client) -> None:
    await client.ask("one")
    await client.session.switch_model("scripted/model-2")
    await client.ask("two")


async def move(client: Client) -> None:
    await client.ask("one")
    await client.session.move(client.job.path / "elsewhere")
    await client.ask("two")


async def compaction(client: Client) -> None:
    await client.ask("one")
    if not await client.has(ev.CompactionFinished):
        await client.session.compact()
    await client.ask("two")


async def fork(client: Client) -> None:
    await client.ask("one")
    copies = [row.id for row in await client.runtime.sessions() if row.id != client.session.id]
    copy = await client.runtime.session(copies[0]) if copies else await client.session.fork()
    await client.ask("copied", copy)


async def revert(client: Client) -> None:
    await client.ask("one")
    await client.ask("two")
    if not await client.has(ev.SessionReverted):
        await client.session.revert("one")
    await client.ask("three")


ACTS: dict[str, Callable[[Client], Awaitable[None]]] = {
    act.__name__: act
    for act in (
        answers,
        attempts,
        interruption,
        calls,
        idempotent,
        task,
        inbox,
        switch,
        move,
        compaction,
        fork,
        revert,
    )
}


async def main(job: PointJob) -> None:
    os.chdir(job.root)
    opened = await open_sqlite(job.path / "sessions.db", clock=SystemClock())
    store = CrashingStore(opened, at=job.at or None)
    await Client(job, store).play()
    points = "".join(f"{point}\n" for point in store.points.passed)
    (job.path / "points.txt").write_text(points)
    await store.close()


if __name__ == "__main__":
    for each in jobs(PointJob):
        print(os.waitstatus_to_exitcode(os.waitpid(forked(main, each), 0)[1]), flush=True)
