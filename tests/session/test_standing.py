"""What a session is doing, and why it stands still."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from perdure import PermissionAnswer, PermissionRequest, Runtime
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.session.owner import described
from perdure.session.standing import Standing
from perdure.store.database import Database
from perdure.store.sqlite import open_sqlite
from perdure.testing import call, error, hold, say
from tests.session.support import Bench, ask, bench

pytestmark = pytest.mark.anyio


async def standing(runtime: Runtime) -> Standing:
    """Return how the only session stands."""
    (row,) = await runtime.sessions()
    return await runtime.standing(row)


async def append(b: Bench, session: str, *events: ev.Event) -> None:
    """Write as a process would that ends right after it."""
    async with await open_sqlite(b.store, clock=SystemClock()) as store:
        await store.append(session, events)


async def waiting(b: Bench, holder: str = "", **options: Any) -> Standing:
    """Return how a session stands that has a prompt and nobody who answers it."""
    async with b.runtime() as runtime:
        session = await b.session(runtime)
        await append(b, session.id, ev.PromptAdmitted("p1", "Hello", "queue", holder))
    async with b.runtime(**options) as runtime:
        return await standing(runtime)


async def test_a_session_that_was_answered_is_idle_and_has_no_reason(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        assert await standing(runtime) == Standing("idle")
        await ask(session, "Hello")
        assert await standing(runtime) == Standing("idle")


async def test_a_running_session_names_its_process_and_what_waits(tmp_path: Path) -> None:
    async with bench(tmp_path, [hold(anyio.Event(), say("1"))]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await session.prompt("Hello")
        await b.provider.received(1)
        here = "by this process"
        assert await standing(runtime) == Standing("running", here)
        await session.prompt("More", delivery="queue")
        assert await standing(runtime) == Standing("running", f"{here}, and 1 prompt waits")


def test_an_owner_is_named_in_words() -> None:
    assert described("boot/space|12|34|id") == "a process of another machine or container"
    assert described("somebody") == "another program"


async def test_a_prompt_that_nobody_works_on_waits(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        found = await waiting(b)
    assert found.status == "waiting"
    assert found.reason.startswith("1 prompt waits and nobody works on it; `perdure run -s ")


async def test_a_prompt_that_a_living_process_keeps_waits_for_it(tmp_path: Path) -> None:
    async with bench(tmp_path, [hold(anyio.Event(), say("1"))]) as b, b.runtime() as holder:
        other = await b.session(holder)
        await other.prompt("Hello")
        await b.provider.received(1)
        owner = next(row.owner for row in await holder.sessions() if row.owner)
        b.store = tmp_path / "other.db"
        found = await waiting(b, owner)
    assert found == Standing("waiting", "1 prompt waits for this process")


async def test_a_step_that_nobody_settled_is_interrupted_by_the_end_of_its_process(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [hold(anyio.Event(), say("1"))]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("Hello")
            await b.provider.received(1)
            records = await b.log(session.id)
        await b.crash({session.id: records})
        async with b.runtime() as runtime:
            found = await standing(runtime)
    assert found.status == "interrupted"
    assert found.reason == f"its process died; `perdure run -s {session.id} PROMPT` goes on"


async def test_a_failed_session_tells_the_error_of_its_last_step(tmp_path: Path) -> None:
    async with bench(tmp_path, [error(401)]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "Hello")
        near = await standing(runtime)
        for number in range(60):
            await session.set_entry("n", number)
        far = await standing(runtime)
        assert far == Standing("failed", f"`perdure events {session.id}` tells why")
    assert near.status == "failed"
    assert "401" in near.reason


async def test_a_crash_loop_blocks(tmp_path: Path) -> None:
    async with bench(tmp_path, [hold(anyio.Event(), say("1"))]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("Hello")
            await b.provider.received(1)
        failure = ev.Failure("CrashLoop", "ten steps in a row")
        await append(b, session.id, ev.StepFinished(1, "failed", failure))
        async with b.runtime() as runtime:
            assert await standing(runtime) == Standing("blocked", "ten steps in a row")


async def test_an_interrupt_and_a_declined_call_are_told_apart(tmp_path: Path) -> None:
    async def no(request: PermissionRequest) -> PermissionAnswer:
        return PermissionAnswer(False)

    script = [hold(anyio.Event(), say("1")), call("shell", {"command": "true"})]
    async with bench(tmp_path, script) as b, b.runtime(ask=no) as runtime:
        session = await b.session(runtime)
        await session.prompt("Hello")
        await b.provider.received(1)
        await session.interrupt()
        assert await standing(runtime) == Standing("interrupted", "its work was interrupted")
        await ask(session, "Dare")
        assert await standing(runtime) == Standing("interrupted", "a tool call was declined")


async def test_work_in_a_directory_that_is_gone_is_blocked(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        assert (await waiting(b)).status == "waiting"
        shutil.rmtree(b.project)
        async with b.runtime() as runtime:
            found = await standing(runtime)
    assert found.status == "blocked"
    assert str(b.project) in found.reason


async def test_work_for_a_provider_that_is_not_configured_is_blocked(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        scripted = b.config["providers"]["scripted"]
        await waiting(b)
        b.config = {"model": "other/x", "providers": {"other": scripted}}
        async with b.runtime() as runtime:
            found = await standing(runtime)
    assert found.status == "blocked"
    assert "scripted" in found.reason


async def test_work_behind_a_damaged_log_is_blocked_and_recovery_goes_round_it(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [say("ok")]) as b:
        await waiting(b)
        with closing(Database(b.store, busy_timeout=5).connect()) as database:
            database.execute(
                "UPDATE event SET data = '{' WHERE place = (SELECT min(place) FROM event)"
            )
        async with b.runtime() as runtime:
            found = await standing(runtime)
            sound = await b.session(runtime)
            await append(b, sound.id, ev.PromptAdmitted("p2", "Hello"))
            assert await runtime.recover() == [sound.id]
            await sound.wait()
    assert found.status == "blocked"
    assert "event 1 of session" in found.reason
    assert "is damaged" in found.reason


class _Counted:
    """A store that counts how often somebody reads a log."""

    def __init__(self, store: Any) -> None:
        self.reads = 0
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def events(self, session: str, **how: Any) -> Any:
        self.reads += 1
        return await self._store.events(session, **how)


async def test_looking_at_idle_sessions_reads_no_log(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        store = _Counted(await open_sqlite(b.store, clock=SystemClock()))
        b.store = cast("Path", store)
        async with b.runtime() as runtime:
            for _ in range(5):
                await b.session(runtime)
            before = store.reads
            for row in await runtime.sessions():
                assert await runtime.standing(row) == Standing("idle")
            assert store.reads == before
        await store.close()
