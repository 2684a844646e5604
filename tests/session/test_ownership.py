"""Several processes on one session: turns, takeovers, and the instant in which a drain ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import anyio
import msgspec
import pytest

from perdure import Runtime, Session
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.store.sqlite import open_sqlite
from perdure.testing import (
    ReceivedRequest,
    Reply,
    ScriptedProvider,
    call,
    error,
    hold,
    isolated_environment,
    say,
    serve_in_thread,
)
from tests.session.owner_worker import OwnerJob
from tests.session.support import KEY, Bench, ask, bench, log_of, of_type, up_to
from tests.store.store_support import raw

ROOT = Path(__file__).resolve().parents[2]

anyio_test = pytest.mark.anyio


class Household:
    """One database, and processes that work on it at once."""

    def __init__(self, root: Path, provider: ScriptedProvider) -> None:
        (root / "project").mkdir()
        self.root = root
        self.provider = provider
        self.job = OwnerJob(
            name="",
            store=str(root / "sessions.db"),
            directory=str(root / "project"),
            config=provider.config("openai-chat", api_key_env=KEY),
            environ=isolated_environment(root) | {KEY: "scripted-key"},
            effects=str(root / "effects.txt"),
        )

    @contextmanager
    def process(self, name: str, **changes: Any) -> Generator[subprocess.Popen[str]]:
        """Start a process, which waits for a line; what is left at the end is killed."""
        file = self.root / f"{name}.json"
        file.write_bytes(
            msgspec.json.encode(msgspec.structs.replace(self.job, name=name, **changes))
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.session.owner_worker", str(file)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
            process.communicate()

    def together(self, names: Sequence[str], **changes: Any) -> None:
        """Let processes work at once; each must end well and complain about nothing."""
        with ExitStack() as stack:
            processes = [stack.enter_context(self.process(name, **changes)) for name in names]
            for process in processes:
                start(process)
            for process in processes:
                _, complaints = process.communicate(timeout=60)
                assert (process.returncode, complaints) == (0, "")

    def begin(self) -> str:
        """Begin a session and return its id."""

        async def create(runtime: Runtime) -> str:
            return (await runtime.create_session(directory=self.job.directory)).id

        return self.inside(create)

    def log(self, session: str) -> list[ev.Record]:
        """Read the log of a session."""

        async def read(runtime: Runtime) -> list[ev.Record]:
            return await log_of(await runtime.session(session))

        return self.inside(read)

    def inside(self, do: Callable[[Runtime], Any]) -> Any:
        """Do something with a runtime of this process."""

        async def run() -> Any:
            async with Runtime.open(
                self.job.store, config=self.job.config, environ=self.job.environ
            ) as runtime:
                return await do(runtime)

        return anyio.run(run)


def start(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@contextmanager
def household(root: Path, script: Any) -> Generator[Household]:
    with serve_in_thread(script) as provider:
        yield Household(root, provider)
        assert not provider.refused


def agree(request: ReceivedRequest, number: int) -> Reply:
    return say("ok")


@pytest.mark.parametrize(("count", "delivery"), [(2, "queue"), (4, "steer")])
def test_processes_that_prompt_one_session_take_turns_and_lose_none(
    tmp_path: Path, count: int, delivery: ev.Delivery
) -> None:
    names = [f"process-{number}" for number in range(count)]
    with household(tmp_path, agree) as h:
        session = h.begin()
        h.together(names, session=session, prompts=5, delivery=delivery)
        records = h.log(session)
    text = {e.prompt: e.text for e in of_type(records, ev.PromptAdmitted)}
    answered = [text[e.prompt] for e in of_type(records, ev.PromptPromoted)]
    for name in names:
        mine = [each for each in answered if each.startswith(name)]
        assert mine == [f"{name} {number}" for number in range(5)]
    assert len(answered) == 5 * count
    assert_steps_do_not_interleave(records)


def assert_steps_do_not_interleave(records: Sequence[ev.Record]) -> None:
    """Check that each step is settled before the next one begins."""
    of_step = (ev.StepStarted, ev.AssistantMessage, ev.StepFinished)
    steps = [record.data for record in records if isinstance(record.data, of_step)]
    numbers = [number for number in range(1, len(steps) // 3 + 1) for _ in range(3)]
    assert [event.step for event in steps] == numbers
    assert [type(event) for event in steps] == [*of_step] * (len(steps) // 3)


def test_sixty_four_sessions_at_once_from_two_processes_meet_no_lock(tmp_path: Path) -> None:
    async def outcomes(runtime: Runtime) -> list[tuple[str, int]]:
        return [(row.outcome, row.pending) for row in await runtime.sessions()]

    with household(tmp_path, agree) as h:
        h.together(["one", "two"], sessions=32, prompts=2)
        assert h.inside(outcomes) == [("completed", 0)] * 64


def test_a_process_that_was_stopped_past_its_lease_commits_nothing_and_has_no_effect(
    tmp_path: Path,
) -> None:
    gate = threading.Event()
    late = hold(gate, call("effect", {"name": "late"}))
    script = [late, call("effect", {"name": "mine"}), say("Done."), say("More.")]
    with household(tmp_path, script) as h:
        session = h.begin()
        with h.process("sleeper", session=session, lease=0.6) as sleeper:
            start(sleeper)
            h.provider.wait_until_received(1)
            sleeper.send_signal(signal.SIGSTOP)
            h.together(["other"], session=session)
            before = h.log(session)
            gate.set()
            sleeper.send_signal(signal.SIGCONT)
            _, said = sleeper.communicate(timeout=60)
        assert sleeper.returncode == 0
        assert "another process took over" in said
        assert h.log(session) == before
    assert Path(h.job.effects).read_text() == "other mine\n"
    outcomes = [event.outcome for event in of_type(before, ev.StepFinished)]
    assert outcomes == ["crashed", "completed", "completed", "completed"]


def test_a_call_of_a_process_that_lost_its_session_is_stopped(tmp_path: Path) -> None:
    script = [call("effect", {"name": "slow", "seconds": 600}), say("I see."), say("More.")]
    with household(tmp_path, script) as h:
        session = h.begin()
        with h.process("sleeper", session=session, lease=0.6) as sleeper:
            start(sleeper)
            assert sleeper.stdout is not None
            assert sleeper.stdout.readline() == "working\n"
            sleeper.send_signal(signal.SIGSTOP)
            h.together(["other"], session=session)
            before = h.log(session)
            sleeper.send_signal(signal.SIGCONT)
            _, said = sleeper.communicate(timeout=60)
        assert sleeper.returncode == 0
        assert "another process took over" in said
        assert h.log(session) == before
    assert [event.outcome for event in of_type(before, ev.ToolSettled)] == ["unknown"]


class _Paused:
    """A store that stops the drains of one runtime before or after their n-th call of it."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.at(0, "before")

    def at(self, call: int, side: Literal["before", "after"]) -> None:
        """Stop at that call from now on, counted from 1."""
        self._left = call
        self._side = side
        self.reached = anyio.Event()
        self.go = anyio.Event()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def called(*args: Any, **how: Any) -> Any:
            # Readers and listeners use the store, too, but do not decide when a drain ends.
            in_drain = (anyio.get_current_task().name or "").startswith("drain ")
            self._left -= in_drain
            here = in_drain and self._left == 0
            if here and self._side == "before":
                await self._pause()
            result = await method(*args, **how)
            if here and self._side == "after":
                await self._pause()
            return result

        return called

    async def _pause(self) -> None:
        self.reached.set()
        await self.go.wait()


async def _until_reached(store: _Paused, session: Session) -> bool:
    """Wait until the drain has stopped; return False where it ended before."""
    async with anyio.create_task_group() as group:

        async def ended() -> None:
            await session.wait()
            group.cancel_scope.cancel()

        group.start_soon(ended)
        await store.reached.wait()
        group.cancel_scope.cancel()
    return store.reached.is_set()


@anyio_test
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("first", ["answered", "failed"])
@pytest.mark.parametrize("who", ["the same runtime", "another runtime"])
async def test_a_prompt_is_answered_whenever_it_comes_while_a_drain_runs_and_ends(
    tmp_path: Path, side: Literal["before", "after"], first: str, who: str
) -> None:
    def reply(request: ReceivedRequest, number: int) -> Reply:
        only_first = "second" not in str(request.json["messages"])
        return error(401) if first == "failed" and only_first else say("ok")

    async with bench(tmp_path, reply) as b:
        b.prefix_may_break = "many sessions"
        store = _Paused(await open_sqlite(b.store, clock=SystemClock()))
        async with b.runtime() as other:
            b.store = cast("Path", store)
            async with b.runtime() as runtime:
                points = 0
                while await _admitted_at(b, store, points + 1, side, runtime, other, who):
                    points += 1
        await store.close()
    assert points >= 6


async def _admitted_at(
    b: Bench,
    store: _Paused,
    point: int,
    side: Literal["before", "after"],
    runtime: Runtime,
    other: Runtime,
    who: str,
) -> bool:
    """Admit a prompt at one point of a drain, and check that it is answered."""
    session = await b.session(runtime)
    store.at(point, side)
    await session.prompt("first")
    if not await _until_reached(store, session):
        return False
    asking = session if who == "the same runtime" else await other.session(session.id)
    await asking.prompt("second", delivery="queue")
    store.go.set()
    with anyio.fail_after(60):
        await asking.wait()
        await session.wait()
    state = await session.state()
    assert (point, list(state.pending)) == (point, [])
    assert state.outcome == "completed"
    return True


@anyio_test
async def test_a_prompt_that_lands_just_before_a_drain_ends_needs_nobody_else(
    tmp_path: Path,
) -> None:
    """The process that admits it may be gone at once: the drain that still runs answers it."""
    async with bench(tmp_path, agree) as b:
        b.prefix_may_break = "many sessions"
        plain = await open_sqlite(b.store, clock=SystemClock())
        store = _Paused(await open_sqlite(b.store, clock=SystemClock()))
        b.store = cast("Path", store)
        held: list[bool] = []
        async with b.runtime() as runtime:
            while True:
                session = await b.session(runtime)
                store.at(len(held) + 1, "before")
                await session.prompt("first")
                if not await _until_reached(store, session):
                    break
                owned = bool((await plain.session(session.id)).owner)
                await plain.append(session.id, [ev.PromptAdmitted(f"p{len(held)}", "x", "queue")])
                held.append(owned)
                store.go.set()
                with anyio.fail_after(60):
                    await session.wait()
                if owned:
                    assert not (await session.state()).pending
        await store.close()
        await plain.close()
    assert held.count(True) >= 4


@anyio_test
async def test_a_start_wakes_what_was_left_and_nothing_else(tmp_path: Path) -> None:
    script = [hold(anyio.Event(), say("1")), say("2"), say("3"), say("4"), say("5")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "many sessions"
        async with b.runtime() as other:
            running, held, idle, waiting = [await b.session(other) for _ in range(4)]
            await running.prompt("Hello")
            await b.provider.received(1)
            owner = next(row.owner for row in await other.sessions() if row.owner)
            async with await open_sqlite(b.store, clock=SystemClock()) as store:
                await store.append(held.id, [ev.PromptAdmitted("p1", "x", "queue", owner)])
                await store.append(waiting.id, [ev.PromptAdmitted("p2", "x", "queue")])
                open_step = await store.events(running.id)
                left = ev.SessionCreated(str(b.project), str(b.project), "scripted/model-1", "word")
                await store.create("left", [left, ev.PromptAdmitted("p3", "x")])
                await store.append("left", [ev.PromptPromoted("p3")])
                await store.append("left", [e.data for e in open_step if _is_of_step(e.data)])
            async with b.runtime() as runtime:
                assert sorted(await runtime.recover()) == sorted([waiting.id, "left"])
                for session in (waiting.id, "left"):
                    await (await runtime.session(session)).wait()
                assert await runtime.recover() == []
                rows = {row.id: row for row in await runtime.sessions()}
            assert (rows[waiting.id].outcome, rows["left"].outcome) == ("completed", "completed")
            assert (rows[held.id].pending, rows[idle.id].last_seq) == (1, 1)


async def _left_open(b: Bench) -> None:
    """Leave a session with an open step in a new store."""
    async with b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "Hello")
        records = await log_of(session)
    await b.crash({"left": up_to(records, ev.StepStarted)})


OUT_OF_SIGHT = "elsewhere|7|7|id"


@anyio_test
async def test_a_start_takes_over_from_a_process_out_of_sight_when_its_lease_is_over(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [say("1"), say("1")]) as b:
        await _left_open(b)
        with raw(b.store) as connection:
            connection.execute("INSERT INTO holder VALUES (7, 'elsewhere', 7, 7, 0.05, 0)")
            connection.execute("UPDATE session SET owner = ?, holder = 7", (OUT_OF_SIGHT,))
        async with b.runtime() as runtime:
            assert await runtime.recover() == ["left"]
            session = await runtime.session("left")
            with anyio.fail_after(60):
                await session.wait()
            outcomes = [each.outcome for each in of_type(await log_of(session), ev.StepFinished)]
        assert outcomes == ["crashed", "completed"]


@anyio_test
async def test_a_start_leaves_a_process_out_of_sight_to_its_work(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1")]) as b:
        await _left_open(b)
        async with await open_sqlite(b.store, clock=SystemClock()) as store:
            lease = await store.claim("left", OUT_OF_SIGHT)
            assert lease is not None
            with raw(b.store) as connection:
                connection.execute("UPDATE holder SET host = 'elsewhere'")
            async with b.runtime() as runtime:
                assert await runtime.recover() == ["left"]
                await store.append("left", [ev.StepFinished(1, "interrupted")], release=lease)
                session = await runtime.session("left")
                with anyio.fail_after(60):
                    await session.wait()
                assert (await session.state()).outcome == "interrupted"
        assert len(b.provider.requests) == 1


def _is_of_step(event: ev.Event) -> bool:
    return isinstance(event, ev.EpochStarted | ev.StepStarted)
