"""A process is killed in the middle of its work; the next one goes on from the log."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import anyio
import msgspec
import pytest

from perdure import Runtime
from perdure.history import events as ev
from perdure.testing import (
    Reply,
    ScriptedProvider,
    assert_prefix_kept,
    calls,
    hold,
    isolated_environment,
    say,
    serve_in_thread,
)
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.session.support import KEY, log_of, of_type
from tests.session.worker import Job

NEVER = threading.Event()
WORKER = Path(__file__).with_name("worker.py")


class Scene:
    """A project, a store, a provider, and processes that come and go."""

    def __init__(self, root: Path, provider: ScriptedProvider, protocol: ProtocolName) -> None:
        self.root = root
        self.provider = provider
        self.effects = root / "effects.txt"
        project = root / "project"
        project.mkdir()
        self.job = Job(
            store=str(root / "sessions.db"),
            directory=str(project),
            config=provider.config(protocol, api_key_env=KEY),
            environ=isolated_environment(root) | {KEY: "scripted-key"},
            prompt="Do it.",
            effects=str(self.effects),
        )

    @contextmanager
    def process(self, **changes: object) -> Generator[subprocess.Popen[str]]:
        """Run a worker; it is killed at the end if it still runs."""
        for name, value in changes.items():
            setattr(self.job, name, value)
        job = self.root / "job.json"
        job.write_bytes(msgspec.json.encode(self.job))
        worker = subprocess.Popen(
            [sys.executable, str(WORKER), str(job)], stdout=subprocess.PIPE, text=True
        )
        try:
            yield worker
        finally:
            worker.kill()
            worker.wait()
            if worker.stdout:
                worker.stdout.close()

    def kill_at(self, line: str, **changes: object) -> str:
        """Run a worker until it prints a line, kill it, and return its session."""
        with self.process(**changes) as worker:
            session = read_until(worker.stdout, None)
            read_until(worker.stdout, line)
            worker.kill()
        return session

    def finish(self, session: str, prompt: str) -> None:
        """Run a worker on the session to its end."""
        with self.process(session=session, prompt=prompt) as worker:
            assert worker.wait(60) == 0

    def written(self) -> list[str]:
        """Return the names of the effects, in order."""
        if not self.effects.exists():
            return []
        return [line.split()[0] for line in self.effects.read_text().splitlines()]

    def log(self, session: str) -> list[ev.Record]:
        """Read the session's log."""

        async def read() -> list[ev.Record]:
            async with Runtime.open(
                self.job.store, config=self.job.config, environ=self.job.environ
            ) as runtime:
                return await log_of(await runtime.session(session))

        return anyio.run(read)


def read_until(stream: IO[str] | None, line: str | None) -> str:
    """Read lines up to the wanted one, or just one."""
    assert stream is not None
    for got in stream:
        if line is None or got.strip() == line:
            return got.strip()
    raise AssertionError(f"the process ended before it printed {line}")


@contextmanager
def scene(
    root: Path, script: list[Reply], protocol: ProtocolName = "openai-chat"
) -> Generator[Scene]:
    with serve_in_thread(script) as provider:
        yield Scene(root, provider, protocol)
        assert_prefix_kept(provider.requests)
        assert not provider.refused


def slow(name: str) -> tuple[str, dict[str, object]]:
    return ("effect", {"name": name, "seconds": 600})


def quick(name: str) -> tuple[str, dict[str, object]]:
    return ("effect", {"name": name})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_call_that_was_running_is_settled_as_unknown_and_not_run_again(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    script = [calls(slow("once")), say("I see."), say("Fine.")]
    with scene(tmp_path, script, protocol) as s:
        session = s.kill_at("tool.started")
        s.finish(session, "Go on.")
        settled = of_type(s.log(session), ev.ToolSettled)
        assert [event.outcome for event in settled] == ["unknown"]
        assert "outcome unknown; it may have run" in settled[0].output
        assert len(s.written()) <= 1
        assert b"outcome unknown; it may have run" in s.provider.requests[1].body


def test_a_finished_call_keeps_its_result_beside_one_that_was_running(tmp_path: Path) -> None:
    script = [calls(slow("slow"), quick("quick")), say("I see."), say("Fine.")]
    with scene(tmp_path, script) as s:
        session = s.kill_at("tool.settled")
        s.finish(session, "Go on.")
        settled = {event.call: event for event in of_type(s.log(session), ev.ToolSettled)}
        assert sorted(event.outcome for event in settled.values()) == ["completed", "unknown"]
        assert s.written().count("quick") == 1
        assert s.written().count("slow") <= 1
        tools = [m for m in s.provider.requests[1].json["messages"] if m["role"] == "tool"]
        assert "outcome unknown" in tools[0]["content"]
        assert "quick is done" in tools[1]["content"]


def test_an_idempotent_call_is_run_again(tmp_path: Path) -> None:
    script = [calls(slow("again")), say("I see."), say("Fine.")]
    with scene(tmp_path, script) as s:
        session = s.kill_at("tool.started", idempotent=True)
        with s.process(session=session, prompt="Go on.", idempotent=True) as worker:
            read_until(worker.stdout, None)
            anyio.run(_wait_for_lines, s.effects, 1)
            worker.kill()
        assert of_type(s.log(session), ev.ToolSettled) == []


async def _wait_for_lines(path: Path, count: int) -> None:
    with anyio.fail_after(60):
        while len(await anyio.Path(path).read_text() if path.exists() else "") == 0:
            await anyio.sleep(0.01)
        while len((await anyio.Path(path).read_text()).splitlines()) < count:
            await anyio.sleep(0.01)


def test_an_answer_that_was_on_its_way_is_asked_for_again(tmp_path: Path) -> None:
    script = [hold(NEVER, say("never heard")), say("Here it is."), say("Fine.")]
    with scene(tmp_path, script) as s:
        with s.process() as worker:
            session = read_until(worker.stdout, None)
            s.provider.wait_until_received(1)
            worker.kill()
        s.job.delivery = "queue"
        s.finish(session, "Go on.")
        outcomes = [event.outcome for event in of_type(s.log(session), ev.StepFinished)]
        assert outcomes == ["crashed", "completed", "completed"]
        assert s.provider.requests[1].body == s.provider.requests[0].body


def test_a_prompt_killed_before_its_step_is_answered_by_the_next_process(tmp_path: Path) -> None:
    with scene(tmp_path, [say("Here."), say("There.")]) as s:
        session = s.kill_at("prompt.admitted")
        s.finish(session, "Second.")
        promoted = of_type(s.log(session), ev.PromptPromoted)
        assert len(promoted) == 2


def test_processes_that_are_killed_after_a_recovery_leave_its_settlement_as_it_is(
    tmp_path: Path,
) -> None:
    script = [
        calls(slow("once")),
        hold(NEVER, say("never")),
        hold(NEVER, say("never")),
        say("I see."),
    ]
    with scene(tmp_path, script) as s:
        session = s.kill_at("tool.started")
        for number in (2, 3):
            with s.process(session=session, prompt="Go on.", prompt_id="same") as worker:
                read_until(worker.stdout, None)
                s.provider.wait_until_received(number)
                worker.kill()
        s.finish(session, "The end.")
        settled = of_type(s.log(session), ev.ToolSettled)
        assert [event.outcome for event in settled] == ["unknown"]
