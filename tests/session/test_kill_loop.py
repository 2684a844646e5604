"""Processes are killed and stopped at random on one database; every history stays whole.

PERDURE_KILL_ROUNDS makes it longer, PERDURE_KILL_SEED repeats the choices of a run (the moments
themselves are those of the machine).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from perdure import Runtime
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.session.delegation import task_session
from perdure.store.sqlite import open_sqlite
from perdure.testing import (
    ReceivedRequest,
    Reply,
    ScriptedProvider,
    call,
    calls,
    check_store,
    error,
    isolated_environment,
    say,
    serve_in_thread,
    stall,
)
from perdure.testing.provider import ProtocolName
from tests import pictures
from tests.session.kill_loop_worker import LoopJob, Sent
from tests.session.support import KEY, of_type
from tests.tools.processes import is_alive, wait_until_gone

ROOT = Path(__file__).parents[2]
PROTOCOLS: tuple[ProtocolName, ...] = ("openai-chat", "anthropic")
ROUNDS = int(os.environ.get("PERDURE_KILL_ROUNDS", "12")) // len(PROTOCOLS)
SEED = int(os.environ.get("PERDURE_KILL_SEED", random.SystemRandom().randrange(1 << 32)))
LEASE = 0.5
PATIENCE = 120.0


class Scene:
    """A database with three sessions, and the processes that work on it."""

    def __init__(self, root: Path, provider: ScriptedProvider, protocol: ProtocolName) -> None:
        (root / "project").mkdir()
        (root / "project/dot.png").write_bytes(pictures.png())
        self.root = root
        self.provider = provider
        self.alive: list[int] = []
        self._worker = subprocess.Popen(
            [sys.executable, "-m", "tests.session.kill_loop_worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._job = LoopJob(
            root=str(root),
            config=provider.config(protocol, api_key_env=KEY, images=True),
            environ=isolated_environment(root) | {KEY: "scripted-key"},
            lease=LEASE,
        )
        self.sessions = anyio.run(self._begin)

    async def _begin(self) -> list[str]:
        async with Runtime.open(
            self.root / "sessions.db", config=self._job.config, environ=self._job.environ
        ) as runtime:
            directory = self.root / "project"
            return [(await runtime.create_session(directory=directory)).id for _ in range(3)]

    def start(self, **job: Any) -> int:
        """Start a process and return its id."""
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        line = msgspec.json.encode(msgspec.structs.replace(self._job, **job))
        self._worker.stdin.write(line + b"\n")
        self._worker.stdin.flush()
        process = int(self._worker.stdout.readline())
        self.alive.append(process)
        return process

    def kill(self, process: int) -> None:
        """Kill a process as the system does."""
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        wait_until_gone([process])
        self.alive.remove(process)

    def finish(self, *sent: Sent) -> None:
        """Let one more process do all that is left, and answer these prompts."""
        wait_until_gone([self.start(sent=sent, to_the_end=True)], PATIENCE)

    def close(self) -> None:
        """End every process."""
        for process in [*self.alive]:
            self.kill(process)
        self._worker.kill()
        self._worker.communicate()

    def lines(self, file: str) -> list[str]:
        """Return what the processes wrote down."""
        path = self.root / file
        return path.read_text().splitlines() if path.exists() else []

    def complaints(self) -> list[str]:
        """Return everything that is wrong with what is there now."""
        return [*anyio.run(self._complaints), *(r.message for r in self.provider.refused)]

    async def _complaints(self) -> list[str]:
        path = self.root / "sessions.db"
        async with await open_sqlite(path, clock=SystemClock()) as store:
            found = await check_store(store)
            for prompt in self.lines("acknowledged.txt"):
                row = await store.prompt(prompt)
                if row is None or row.state != "promoted":
                    found.append(f"prompt {prompt} was acknowledged and is {row}")
            logs = {row.id: await store.events(row.id) for row in await store.sessions()}
            for session, records in logs.items():
                found += self._about_effects(session, records)
            return [*found, *_about_tasks(logs)]

    def _about_effects(self, session: str, records: Any) -> Iterator[str]:
        effects = [line for line in self.lines("effects.txt") if line.startswith(f"{session}:")]
        started = {f"{session}:{e.step}:{e.call}": e.name for e in of_type(records, ev.ToolStarted)}
        for key in set(effects):
            if key not in started:
                yield f"the effect {key} took place before its call was durable"
            elif effects.count(key) > 1 and started[key] != "again":
                yield f"the effect {key} took place {effects.count(key)} times"
        for event in of_type(records, ev.ToolSettled):
            key = f"{session}:{event.step}:{event.call}"
            acts = started.get(key) != "task"
            if event.outcome == "completed" and acts and key not in effects:
                yield f"the call {key} is completed and had no effect"


def _about_tasks(logs: Mapping[str, Sequence[ev.Record]]) -> Iterator[str]:
    """Yield sessions that work on a task of no call, or whose task has begun twice."""
    given = {
        task_session(session, event.step, event.call): (session, event.call)
        for session, records in logs.items()
        for event in of_type(records, ev.ToolStarted)
        if event.name == "task"
    }
    for session, records in logs.items():
        (created,) = of_type(records, ev.SessionCreated)
        if created.parent and given.get(session) != (created.parent, created.call):
            yield f"session {session} works on a task that no call gave"
        if created.parent and len(of_type(records, ev.PromptPromoted)) > 1:
            yield f"the task of session {session} was begun twice"
    for session, (giver, call_) in given.items():
        settled = [each for each in of_type(logs[giver], ev.ToolSettled) if each.call == call_]
        if [each.outcome for each in settled] == ["completed"] and session not in logs:
            yield f"the call {giver}:{call_} is completed and its task never began"


def _titles(request: ReceivedRequest, number: int) -> Reply:
    """Answer some requests for a title late, and some with none."""
    return [say("A title"), stall(say("A late title"), seconds=0.3), error(500)][number % 3]


def _model(request: ReceivedRequest, number: int) -> Reply:
    """Call tools in every second answer, but never behind results."""
    last = request.json["messages"][-1]
    if last["role"] == "tool" or "tool_result" in str(last):
        return say("I see.")
    effect = call("effect", {"seconds": 0.03})
    if number % 3 == 0 and b'"task"' in request.body:
        task = call("task", {"description": "A part", "prompt": "Do a part."})
        return calls(task, effect, task)
    match number % 4:
        case 0:
            return calls(effect, effect, call("again", {"seconds": 0.01}))
        case 1:
            return stall(say("One two three four."), after=2, seconds=0.05)
        case 2:
            return call("again", {"seconds": 0.05})
        case _:
            return say("Yes.")


@contextmanager
def scene(root: Path, protocol: ProtocolName, model: Any = _model) -> Generator[Scene]:
    with serve_in_thread(model, titles=_titles) as provider:
        opened = Scene(root, provider, protocol)
        try:
            yield opened
        finally:
            opened.close()


def _one_round(s: Scene, chance: random.Random, ids: Iterator[int]) -> None:
    """Start some processes with prompts; stop some, kill the others, and continue the stopped."""
    for _ in range(chance.randint(1, max(1, 4 - len(s.alive)))):
        sent = [
            Sent(
                session=chance.choice(s.sessions),
                prompt=f"p{next(ids)}",
                delivery=chance.choice(["steer", "queue"]),
                pause=chance.uniform(0, 0.05),
                images=("dot.png",) * chance.randint(0, 1),
            )
            for _ in range(chance.randint(1, 4))
        ]
        s.start(sent=sent)
    time.sleep(chance.uniform(0.02, 0.6))
    stopped = [process for process in s.alive if chance.random() < 0.25]
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    for process in [each for each in s.alive if each not in stopped and chance.random() < 0.8]:
        s.kill(process)
    if stopped:
        # Each takes over what the stopped ones held, when their leases are over.
        s.start(sent=[Sent(session, f"p{next(ids)}") for session in s.sessions])
        time.sleep(LEASE * 2)
    for process in stopped:
        os.kill(process, signal.SIGCONT)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_processes_that_are_killed_and_stopped_at_random_leave_every_history_whole(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    print(f"PERDURE_KILL_SEED={SEED}")
    chance, ids = random.Random(f"{SEED} {protocol}"), count(1)
    with scene(tmp_path, protocol) as s:
        for _ in range(ROUNDS):
            _one_round(s, chance, ids)
        for process in [*s.alive]:
            s.kill(process)
        s.finish()
        assert s.complaints() == [], f"PERDURE_KILL_SEED={SEED}"
        assert s.lines("acknowledged.txt")


def _gated(request: ReceivedRequest, number: int) -> Reply:
    return call("effect", {"gated": True}) if number == 0 else say("I see.")


@pytest.mark.parametrize("fenced", [True, False])
def test_the_checker_finds_what_a_stopped_process_writes_where_there_is_no_fence(
    tmp_path: Path, *, fenced: bool
) -> None:
    with scene(tmp_path, "openai-chat", _gated) as s:
        sent = [Sent(s.sessions[0], "p1")]
        stopped = s.start(sent=sent, fenced=fenced, to_the_end=True)
        _wait_for(s, "effects.txt")
        os.kill(stopped, signal.SIGSTOP)
        s.finish(Sent(s.sessions[0], "p2"))
        (s.root / "gate").touch()
        os.kill(stopped, signal.SIGCONT)
        wait_until_gone([stopped], PATIENCE)
        found = s.complaints()
    if fenced:
        assert found == []
    else:
        assert [words for words in found if "tool.settled is of step 1" in words]


def _wait_for(s: Scene, file: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not s.lines(file):
        assert time.monotonic() < deadline
        assert is_alive(s.alive[0])
        time.sleep(0.01)
