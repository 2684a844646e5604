"""Recovery is counted: a session that ends its process each time is not tried for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
import pytest

from perdure import Runtime, Tool, ToolContext
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.store.sqlite import open_sqlite
from perdure.testing import (
    ReceivedRequest,
    Reply,
    ScriptedProvider,
    call,
    hold,
    isolated_environment,
    say,
    serve_in_thread,
)
from tests.session.crash_worker import DIED, CrashJob
from tests.session.support import KEY, Bench, ask, bench, log_of, of_type, up_to
from tests.session.worker import EffectArguments

WORKER = Path(__file__).with_name("crash_worker.py")


class Program:
    """A program that its supervisor starts again whenever it dies."""

    def __init__(self, root: Path, provider: ScriptedProvider) -> None:
        (root / "project").mkdir()
        self.root = root
        self.job = CrashJob(
            store=str(root / "sessions.db"),
            directory=str(root / "project"),
            config=provider.config("openai-chat", api_key_env=KEY),
            environ=isolated_environment(root) | {KEY: "scripted-key"},
            effects=str(root / "effects.txt"),
            ended_by="nothing",
        )

    def run(self, ended_by: Literal["tool", "request", "nothing"], **changes: Any) -> list[int]:
        """Start it until it ends well; return the exit status of each start."""
        job = msgspec.structs.replace(self.job, ended_by=ended_by, **changes)
        file = self.root / "job.json"
        file.write_bytes(msgspec.json.encode(job))
        done = subprocess.run(
            [sys.executable, "-m", "tests.session.crash_worker", str(file)],
            cwd=WORKER.parents[2],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stderr == ""
        return [int(line) for line in done.stdout.split()]

    def effects(self) -> list[str]:
        """Return the keys of the calls whose effects took place."""
        return Path(self.job.effects).read_text().split()

    def log(self, prompt: str = "") -> list[ev.Record]:
        """Return the log of the only session, having sent it a prompt."""

        async def read() -> list[ev.Record]:
            async with Runtime.open(
                self.job.store, config=self.job.config, environ=self.job.environ
            ) as runtime:
                (row,) = await runtime.sessions()
                session = await runtime.session(row.id)
                if prompt:
                    await ask(session, prompt)
                return await log_of(session)

        return anyio.run(read)


@contextmanager
def program(root: Path, script: Any) -> Generator[Program]:
    with serve_in_thread(script) as provider:
        yield Program(root, provider)
        assert not provider.refused


def outcomes(records: Sequence[ev.Record]) -> list[str]:
    return [event.outcome for event in of_type(records, ev.StepFinished)]


def test_an_idempotent_call_that_ends_its_process_is_run_again_three_times(tmp_path: Path) -> None:
    script = [call("effect", {"name": "x"}), say("I see.")]
    with program(tmp_path, script) as p:
        assert p.run("tool", idempotent=True) == [DIED] * 4 + [0]
        records = p.log()
    assert len(p.effects()) == 4
    assert len(set(p.effects())) == 1
    assert [e.attempt for e in of_type(records, ev.RecoveryStarted)] == [1, 2, 3, 4]
    assert [e.outcome for e in of_type(records, ev.ToolSettled)] == ["unknown"]
    assert outcomes(records) == ["crashed", "completed"]


def test_a_call_that_ends_its_process_whenever_the_model_makes_it_fails_at_last(
    tmp_path: Path,
) -> None:
    def insist(request: ReceivedRequest, number: int) -> Reply:
        return call("effect", {"name": "x"}) if number < 10 else say("Fine.")

    with program(tmp_path, insist) as p:
        assert p.run("tool") == [DIED] * 10 + [0]
        assert len(set(p.effects())) == len(p.effects()) == 10
        records = p.log("Another try")
    assert outcomes(records) == ["crashed"] * 9 + ["failed", "completed"]
    (failure,) = [e.failure for e in of_type(records, ev.StepFinished) if e.failure]
    assert failure.error == "CrashLoop"
    assert "10 steps in a row" in failure.message


def test_a_request_that_ends_its_process_each_time_fails_at_last(tmp_path: Path) -> None:
    never = threading.Event()

    def answer(request: ReceivedRequest, number: int) -> Reply:
        said_again = "Again" in str(request.json["messages"])
        return say("Fine.") if said_again else hold(never, say("never"))

    with program(tmp_path, answer) as p:
        assert p.run("request") == [DIED] * 10 + [0]
        assert p.run("nothing") == [0]
        assert outcomes(p.log()) == ["crashed"] * 9 + ["failed"]
        assert outcomes(p.log("Again"))[-1] == "completed"


def _counting(runs: list[str]) -> Tool[EffectArguments]:
    async def effect(arguments: EffectArguments, context: ToolContext) -> str:
        runs.append(context.idempotency_key)
        return "done"

    return Tool(
        name="effect",
        description="Have an effect.",
        arguments=EffectArguments,
        run=effect,
        idempotent=True,
    )


async def _left_at(b: Bench, kind: type[ev.Event], *behind: ev.Event) -> str:
    """Work, and put what was in the log at the first event of that kind into a new database."""
    async with b.runtime(tools=[_counting([])]) as runtime:
        session = await b.session(runtime)
        await ask(session, "Do it.")
        records = await log_of(session)
    begun = up_to(records, kind)
    last = begun[-1]
    more = [ev.Record(last.seq + n, last.time, event) for n, event in enumerate(behind, 1)]
    await b.crash({session.id: [*begun, *more]})
    return session.id


@pytest.mark.anyio
async def test_a_recovery_that_died_leaves_the_same_history_as_one_that_did_not(
    tmp_path: Path,
) -> None:
    def always(request: ReceivedRequest, number: int) -> Reply:
        last = request.json["messages"][-1]["role"]
        return say("ok") if last == "tool" else call("effect", {"name": "x"}, id="call-1")

    histories: list[list[ev.Event]] = []
    async with bench(tmp_path, always) as b:
        b.prefix_may_break = "the same work in two sessions"
        for died in (0, 1, 2):
            b.store = tmp_path / "first.db"
            attempts = [ev.RecoveryStarted(1, n) for n in range(1, died + 1)]
            left = await _left_at(b, ev.ToolStarted, *attempts)
            async with b.runtime(tools=[_counting([])]) as runtime:
                assert await runtime.recover() == [left]
                session = await runtime.session(left)
                await session.wait()
                records = await log_of(session)
            made = [e.attempt for e in of_type(records, ev.RecoveryStarted)]
            assert made == list(range(1, died + 2))
            began = next(r.seq for r in records if isinstance(r.data, ev.ToolStarted))
            rest = [
                r.data
                for r in records
                if r.seq > began and not isinstance(r.data, ev.RecoveryStarted | ev.StepStarted)
            ]
            histories.append([e for e in rest if not isinstance(e, ev.SystemMessage)])
    assert histories[0] == histories[1] == histories[2]


@pytest.mark.anyio
async def test_a_recovery_of_what_is_settled_changes_no_byte(tmp_path: Path) -> None:
    script = [call("effect", {"name": "x"}), say("first"), say("ok")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "the same work in two sessions"
        left = await _left_at(b, ev.ToolStarted)
        async with b.runtime(tools=[_counting([])]) as runtime:
            assert await runtime.recover() == [left]
            session = await runtime.session(left)
            await session.wait()
            before = await log_of(session)
        for _ in range(2):
            async with b.runtime(tools=[_counting([])]) as runtime:
                assert await runtime.recover() == []
                session = await runtime.session(left)
                await session.wait()
                assert await log_of(session) == before


@pytest.mark.anyio
async def test_a_summary_that_ends_its_process_each_time_is_left_out_at_last(
    tmp_path: Path,
) -> None:
    script = [say("long " * 1500), say("first"), say("second"), say("summary"), say("third")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "summaries, and the same work in two sessions"
        b.config["providers"]["scripted"]["models"]["model-1"] = {"context_window": 8000}
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "one " * 1500)
            records = await log_of(session)
        crash = [ev.CompactionStarted("automatic"), ev.PromptAdmitted("p1", "two", "queue")]
        for died in (3, 1):
            left = b.root / f"left-{died}.db"
            async with await open_sqlite(left, clock=SystemClock()) as store:
                await store.restore(session.id, records)
                settled = ev.CompactionFailed(ev.Failure("Crashed", "the process ended"))
                for _ in range(died - 1):
                    await store.append(session.id, [crash[0], settled])
                await store.append(session.id, crash)
            b.store = left
            async with b.runtime() as runtime:
                again = await runtime.session(session.id)
                await runtime.recover()
                await again.wait()
                went_on = await log_of(again)
            failed = [e.failure.error for e in of_type(went_on, ev.CompactionFailed)]
            assert failed == ["Crashed"] * died
            assert len(of_type(went_on, ev.CompactionFinished)) == (0 if died == 3 else 1)
            assert outcomes(went_on)[-1] == "completed"


@pytest.mark.anyio
async def test_a_fourth_recovery_runs_no_idempotent_call(tmp_path: Path) -> None:
    script = [call("effect", {"name": "x"}), say("first"), say("ok")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "the same work in two sessions"
        died = [ev.RecoveryStarted(1, n) for n in (1, 2, 3)]
        left = await _left_at(b, ev.ToolStarted, *died)
        runs: list[str] = []
        async with b.runtime(tools=[_counting(runs)]) as runtime:
            await runtime.recover()
            session = await runtime.session(left)
            await session.wait()
            records = await log_of(session)
    assert runs == []
    assert [e.outcome for e in of_type(records, ev.ToolSettled)] == ["unknown"]
