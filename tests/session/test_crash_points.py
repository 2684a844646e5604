"""For every durable write: the process dies just before or just after it, and nothing is lost.

Each act is played once to learn its crash points. Then, for each point, a process is ended there
and another one started, which goes on to the end. By default Chat Completions takes all points and
each other protocol some of them; with PERDURE_CRASH_POINTS=all each takes all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import anyio
import msgspec
import pytest

from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.history.content import ToolCall
from perdure.store.sqlite import open_sqlite
from perdure.testing import (
    CRASHED,
    ReceivedRequest,
    Reply,
    ScriptedProvider,
    call,
    calls,
    check_store,
    cut,
    error,
    isolated_environment,
    say,
    serve_in_thread,
    stall,
)
from perdure.testing.provider import ProtocolName
from tests.session.crash_points_worker import ACTS, PointJob
from tests.session.support import KEY, of_type

ROOT = Path(__file__).parents[2]
PROTOCOLS: tuple[ProtocolName, ...] = ("openai-chat", "anthropic", "openai-responses", "gemini")
SAMPLED = 8
ALL = os.environ.get("PERDURE_CRASH_POINTS") == "all"
PROMPTS = {
    "answers": ("plain", "told"),
    "attempts": ("retried",),
    "interruption": ("held", "after"),
    "calls": ("calls",),
    "idempotent": ("again",),
    "task": ("delegated",),
    "inbox": ("busy", "queued", "withdrawn", "steered"),
    "switch": ("one", "two"),
    "move": ("one", "two"),
    "compaction": ("one", "two"),
    "fork": ("one", "copied"),
    "revert": ("one", "two", "three"),
}
"""The prompts of each act; those of the inbox are sent while a call runs."""
PART = "part"
"""What the call of the task asks for, in a session of its own."""
ALL_PROMPTS = sorted({PART, *(prompt for prompts in PROMPTS.values() for prompt in prompts)})


SETTLED = {"completed", "crashed", "interrupted"}


class Workers:
    """Processes that play acts, as many at once as there are processors."""

    def __init__(self, count: int, stack: ExitStack) -> None:
        self.count = count
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for _ in range(count):
            self._free.put(stack.enter_context(_worker()))

    def play(self, job: PointJob) -> int:
        """Play one act in a process of its own; return its exit status."""
        worker = self._free.get()
        try:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(msgspec.json.encode(job) + b"\n")
            worker.stdin.flush()
            return int(worker.stdout.readline())
        finally:
            self._free.put(worker)


@contextmanager
def _worker() -> Generator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.session.crash_points_worker"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as worker:
        try:
            yield worker
        finally:
            worker.kill()


@pytest.fixture(scope="module")
def workers() -> Generator[Workers]:
    with ExitStack() as stack:
        yield Workers(min(4, os.cpu_count() or 1), stack)


@dataclass
class Model:
    """A model that answers by the latest prompt in its request, whichever process asks."""

    asked: list[str] = field(default_factory=list[str])
    hangs: bool = True

    def __call__(self, request: ReceivedRequest, number: int) -> Reply:
        text = request.body.decode()
        if "The conversation is about to be shortened" in text:
            return say("They talked.")
        prompt = max(ALL_PROMPTS, key=lambda name: text.rfind(f"PROMPT-{name}."))
        self.asked.append(prompt)
        rest = text[text.rfind(f"PROMPT-{prompt}.") :]
        if any(words in rest for words in ("is done", "outcome unknown", "not run", "the task")):
            return say(f"Done with {prompt}.")
        match prompt:
            case "calls":
                return calls(("effect", {"name": "first"}), ("effect", {"name": "second"}))
            case "again" | "busy":
                return call(prompt, {"name": prompt})
            case "delegated":
                return call("task", {"description": "A part", "prompt": f"PROMPT-{PART}."})
            case "part":
                return call("effect", {"name": PART})
            case "held" if self.hangs:
                return stall(say("One two three four"), after=2)
            case "retried" if self.asked.count(prompt) == 1:
                return error(529)
            case "retried" if self.asked.count(prompt) == 2:
                return cut(say("One two three four"), after=2)
            case _:
                return say(f"An answer to {prompt}.")


class Stage:
    """One act on a database of its own: it may be played, killed and played again."""

    def __init__(
        self,
        root: Path,
        model: Model,
        provider: ScriptedProvider,
        job: PointJob,
        workers: Workers,
    ) -> None:
        for name in ("project", "elsewhere"):
            (root / name).mkdir(parents=True)
        (root / "fact.txt").write_text("old")
        self.root = root
        self.provider = provider
        self._model = model
        self._workers = workers
        self._job = job

    def play(self, at: str = "") -> int:
        """Play the act, up to a point; return the exit status."""
        try:
            return self._workers.play(msgspec.structs.replace(self._job, at=at))
        finally:
            self._model.hangs = False

    def points(self) -> list[str]:
        """Return the points that the last process passed."""
        return self._lines("points.txt")

    def effects(self) -> list[list[str]]:
        """Return name and key of each effect that took place."""
        return [line.split() for line in self._lines("effects.txt")]

    def logs(self) -> list[list[ev.Record]]:
        """Return the log of each session."""
        return anyio.run(self._logs)

    async def _logs(self) -> list[list[ev.Record]]:
        async with await open_sqlite(self.root / "sessions.db", clock=SystemClock()) as store:
            return [[*await store.events(row.id)] for row in await store.sessions()]

    def complaints(self) -> list[str]:
        """Return everything that is wrong with what is there now."""
        logs = self.logs()
        return [
            *anyio.run(self._checked),
            *(f"refused: {each.message}" for each in self.provider.refused),
            *self._about_prompts(logs),
            *self._about_effects([record for log in logs for record in log]),
        ]

    async def _checked(self) -> list[str]:
        async with await open_sqlite(self.root / "sessions.db", clock=SystemClock()) as store:
            return await check_store(store)

    def _about_prompts(self, logs: Sequence[Sequence[ev.Record]]) -> Iterable[str]:
        promoted = {each.prompt for log in logs for each in of_type(log, ev.PromptPromoted)}
        withdrawn = {each.prompt for log in logs for each in of_type(log, ev.PromptWithdrawn)}
        sent = {*PROMPTS[self._job.act], *self._lines("acknowledged.txt")}
        for prompt in sent - promoted - withdrawn:
            yield f"prompt {prompt} is lost"
        for prompt in {*self._lines("withdrawn.txt")} - withdrawn:
            yield f"the withdrawal of prompt {prompt} is lost"
        for prompt in PROMPTS:
            seen = [
                each.body.count(f"PROMPT-{prompt}.".encode()) for each in self.provider.requests
            ]
            if max(seen, default=0) > 1:
                yield f"prompt {prompt} is in one request {max(seen)} times"
            if (prompt in promoted) != any(seen):
                yield f"prompt {prompt} is promoted or asked, and not both"
        for log in logs:
            outcomes = [each.outcome for each in of_type(log, ev.StepFinished)]
            if outcomes[-1:] != ["completed"] or set(outcomes) - SETTLED:
                yield f"the steps ended as {outcomes}"

    def _about_effects(self, records: Sequence[ev.Record]) -> Iterable[str]:
        names = [name for name, _ in self.effects()]
        outcomes = _outcomes(records)
        for name, outcome in outcomes.items():
            if outcome == "completed" and name not in names:
                yield f"{name} is completed and had no effect"
            if outcome == "not_run" and name in names:
                yield f"{name} is settled as not run and had an effect"
        for name in set(names):
            keys = [key for other, key in self.effects() if other == name]
            if len(set(keys)) > 1 or (len(keys) > 1 and name != "again"):
                yield f"{name} had its effect {len(keys)} times, with the keys {keys}"

    def _lines(self, file: str) -> list[str]:
        path = self.root / file
        return path.read_text().splitlines() if path.exists() else []


def _outcomes(records: Iterable[ev.Record]) -> dict[str, str]:
    """Return how the call with each effect was settled last."""
    names: dict[str, str] = {}
    outcomes: dict[str, str] = {}
    for record in records:
        match record.data:
            case ev.AssistantMessage(parts=parts):
                for part in parts:
                    if isinstance(part, ToolCall) and part.name != "task":
                        names[part.id] = msgspec.json.decode(part.arguments)["name"]
            case ev.ToolSettled(call=id_, outcome=outcome) if id_ in names:
                outcomes[names[id_]] = outcome
            case _:
                pass
    return outcomes


def _job(act: str, root: Path, provider: ScriptedProvider, protocol: ProtocolName) -> PointJob:
    config = provider.config(protocol, api_key_env=KEY)
    config["providers"]["scripted"]["models"]["model-2"] = {}
    return PointJob(act, str(root), config, isolated_environment(root) | {KEY: "scripted-key"})


Staged = Callable[[str, ProtocolName], AbstractContextManager[Stage]]
"""Sets up an act for a protocol."""


@pytest.fixture
def staged(tmp_path: Path, workers: Workers) -> Staged:
    numbers = count()

    @contextmanager
    def stage(act: str, protocol: ProtocolName) -> Generator[Stage]:
        root, model = tmp_path / str(next(numbers)), Model()
        with serve_in_thread(model) as provider:
            yield Stage(root, model, provider, _job(act, root, provider, protocol), workers)

    return stage


def _kill_and_go_on(staged: Staged, act: str, protocol: ProtocolName, *points: str) -> str:
    """Return what is wrong after processes were ended at these points and another one went on."""
    with staged(act, protocol) as stage:
        for at in points:
            if (status := stage.play(at)) != CRASHED:
                return f"{at}: not reached, exit status {status}\n"
        if (status := stage.play()) != 0:
            return f"{points}: the next process ended with {status}\n"
        return "".join(f"{points}: {words}\n" for words in stage.complaints())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("act", ACTS)
def test_a_process_that_dies_at_any_durable_write_loses_and_doubles_nothing(
    staged: Staged, workers: Workers, act: str, protocol: ProtocolName
) -> None:
    with staged(act, protocol) as stage:
        assert stage.play() == 0
        assert stage.complaints() == []
        points = stage.points()
    if protocol != PROTOCOLS[0] and not ALL:
        points = points[PROTOCOLS.index(protocol) :: SAMPLED]
    with ThreadPoolExecutor(workers.count) as pool:
        found = pool.map(partial(_kill_and_go_on, staged, act, protocol), points)
        assert "".join(found) == ""


@pytest.mark.parametrize(
    ("act", "first"),
    [
        ("calls", "effect second#1:after"),
        ("idempotent", "effect again#1:before"),
        ("task", "effect part#1:after"),
    ],
)
def test_a_process_that_dies_anywhere_in_its_recovery_loses_and_doubles_nothing(
    staged: Staged, workers: Workers, act: str, first: str
) -> None:
    with staged(act, "openai-chat") as stage:
        assert stage.play(first) == CRASHED
        assert stage.play() == 0
        points = stage.points()
    assert "append:recovery.started#1:after" in points
    with ThreadPoolExecutor(workers.count) as pool:
        found = pool.map(partial(_kill_and_go_on, staged, act, "openai-chat", first), points)
        assert "".join(found) == ""


@pytest.mark.parametrize(
    ("at", "in_task"),
    [
        ("create#2:after", "completed"),
        ("effect part#1:after", "unknown"),
        ("append:assistant.message+step.finished and release#1:after", "completed"),
    ],
)
def test_a_task_goes_on_after_a_crash_and_its_result_comes_once(
    staged: Staged, at: str, in_task: str
) -> None:
    with staged("task", "openai-chat") as stage:
        assert stage.play(at) == CRASHED
        assert stage.play() == 0
        assert stage.complaints() == []
        giver, task = sorted(
            stage.logs(), key=lambda log: of_type(log, ev.SessionCreated)[0].parent
        )
        assert _outcomes(task) == {"part": in_task}
        assert len(of_type(task, ev.PromptPromoted)) == 1
        (settled,) = of_type(giver, ev.ToolSettled)
        assert settled.outcome == "completed"
        assert "the task was session" in settled.output


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_call_that_had_ended_keeps_its_result_and_one_that_ran_reads_outcome_unknown(
    staged: Staged, protocol: ProtocolName
) -> None:
    with staged("calls", protocol) as stage:
        assert stage.play("append:tool.settled#1:after") == CRASHED
        assert stage.play() == 0
        assert stage.complaints() == []
        (log,) = stage.logs()
        assert _outcomes(log) == {"first": "completed", "second": "unknown"}
        told = stage.provider.requests[-1].body
    assert b"first is done" in told
    assert b"outcome unknown; it may have run" in told
    assert b"second is done" not in told


ELSEWHERE = {
    "compaction.failed",
    "drain.interrupted",
    "entry.removed",
    "instructions.discovered",
    "interrupt.asked",
    "note",
    "prompt.delivery_changed",
    "recovery.started",
}
"""What no act writes when nothing goes wrong."""


def test_the_acts_go_through_every_kind_of_write(staged: Staged) -> None:
    passed: set[str] = set()
    for act in ACTS:
        with staged(act, "openai-chat") as stage:
            assert stage.play() == 0
            passed |= {point.partition("#")[0] for point in stage.points()}
    assert {"create", "restore", "claim", "release"} < passed
    written = "+".join(name.partition(":")[2].removesuffix(" and release") for name in passed)
    # These two are in the write that begins a session.
    known = {*written.split("+"), "session.created", "session.forked"}
    assert ev.EVENTS.keys() - ELSEWHERE - known == set()
