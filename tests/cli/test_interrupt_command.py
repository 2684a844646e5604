"""`perdure interrupt`, and why `perdure sessions list` says that a session stands still."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import anyio

from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.store.sqlite import open_sqlite
from perdure.testing import call, hold, say
from tests.cli.conftest import Here
from tests.cli.support import Shell, finished, one_line, shell, until

KEPT = "the prompt is kept: the next run of this session answers it first"


SLOW = """
import asyncio
from pathlib import Path
from perdure import Source

times = 0

async def load():
    global times
    times += 1
    if times == 2:
        Path("REACHED").touch()
        await asyncio.sleep(600)
    return "up"

def plugin(scope):
    scope.source(Source(key="slow/light", type=str, load=load, baseline=str, timeout=600.0,
        update=lambda before, now: now))
"""


def endless() -> object:
    return hold(threading.Event(), say("never"))


def admit(s: Shell, session: str, event: ev.PromptAdmitted) -> None:
    """Write a prompt as a process would that ends right after it."""

    async def write() -> None:
        async with await open_sqlite(s.store, clock=SystemClock()) as store:
            await store.append(session, [event])

    anyio.run(write)


def test_a_run_is_interrupted_from_another_terminal(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [endless(), say("Fine.")]) as s:
        with s.start("run", "hi") as run:
            s.provider.wait_until_received(1)
            stopped = here("interrupt", s.the_session()[:8])
            ended = finished(run)
        listed = s.listed()
        again = here("run", "-c", "again")
    assert (stopped.code, stopped.err) == (0, "")
    assert stopped.out == f"session {listed['id']} was interrupted\n"
    assert ended.code == 130
    assert "interrupted by `perdure interrupt` or another program" in ended.err
    assert KEPT not in ended.err
    assert (listed["status"], listed["reason"]) == ("interrupted", "its work was interrupted")
    assert again.out == "Fine.\n"


def test_a_run_that_waits_for_its_turn_takes_it_when_the_other_is_interrupted(
    tmp_path: Path, here: Here
) -> None:
    with shell(tmp_path, [endless(), say("Second.")]) as s:
        with s.start("run", "first") as first:
            s.provider.wait_until_received(1)
            with s.start("run", "-c", "second") as second:
                s.until_waiting()
                assert here("interrupt", s.the_session()).code == 0
                assert finished(first).code == 130
                ended = finished(second)
    assert (ended.code, ended.out) == (0, "Second.\n")


def test_a_run_whose_prompt_had_not_begun_says_that_it_is_kept(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("1"), endless(), say("Mine."), say("More.")]) as s:
        here("run", "hi")
        # Another one's prompt goes first, in the drain of this run.
        admit(s, s.the_session(), ev.PromptAdmitted("p1", "theirs", "steer"))
        with s.start("run", "-c", "mine") as run:
            s.provider.wait_until_received(2)
            stopped = here("interrupt", s.the_session())
            ended = finished(run)
        listed = s.listed()
        more = here("run", "-c", "more")
    assert stopped.out.endswith("was interrupted; prompts that wait: 1\n")
    assert (ended.code, ended.out) == (130, "")
    assert KEPT in ended.err
    assert "Traceback" not in ended.err
    assert listed["status"] == "waiting"
    assert more.out == "More.\n"
    assert b"mine" in s.provider.requests[2].body


def test_a_run_that_is_interrupted_between_two_steps_says_so(tmp_path: Path, here: Here) -> None:
    reached, plugin = tmp_path / "reached", tmp_path / "slow.py"
    plugin.write_text(SLOW.replace("REACHED", str(reached)))
    config = {"plugins": {"paths": [str(plugin)]}}
    with shell(tmp_path, [call("list", {"path": "."})], config=config) as s:
        with s.start("run", "look") as run:
            until(reached.exists)
            assert here("interrupt", s.the_session()).code == 0
            ended = finished(run)
    assert ended.code == 130
    assert "interrupted by `perdure interrupt`" in ended.err
    assert "step limit" not in ended.err


def test_an_idle_session_has_nothing_to_interrupt(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("1")]) as s:
        here("run", "hi")
        before = here("events", s.the_session()).out
        ended = here("interrupt", s.the_session())
        assert here("events", s.the_session()).out == before
    assert (ended.code, ended.err) == (0, "")
    assert (
        ended.out == f"nobody works on session {s.the_session()}; there is nothing to interrupt\n"
    )


def test_an_unknown_session_cannot_be_interrupted(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path):
        assert "no session" in one_line(here("interrupt", "nosuchid"), 2)


def test_a_running_session_is_listed_with_its_process_and_a_killed_one_with_what_to_do(
    tmp_path: Path, here: Here
) -> None:
    with shell(tmp_path, [endless(), say("Fine."), say("More.")]) as s:
        with s.start("run", "hi") as run:
            s.provider.wait_until_received(1)
            (running,) = json.loads(here("sessions", "list", "--json").out)
            run.kill()
            run.wait()
        page = here("sessions", "list").out
        head = here("sessions", "show", running["id"]).out
        here("run", "-s", running["id"], "go on")
        (idle,) = json.loads(here("sessions", "list", "--json").out)
    why = f"its process died; `perdure run -s {running['id']} PROMPT` goes on"
    assert (running["status"], running["reason"]) == ("running", f"by process {run.pid}")
    assert f"{running['id'][:6]}  interrupted: {why}\n" in page
    assert f"interrupted: {why}" in head
    assert (idle["status"], idle["reason"]) == ("idle", "")


def test_a_stopped_process_is_asked_and_named(tmp_path: Path) -> None:
    with shell(tmp_path, [endless()]) as s, s.start("run", "hi") as run:
        s.provider.wait_until_received(1)
        run.send_signal(19)
        stopped = s.run("interrupt", s.the_session())
        assert stopped.code == 0
        assert f"has not yet; process {run.pid} stops as soon as it can" in stopped.out
        run.send_signal(18)
        assert finished(run).code == 130
