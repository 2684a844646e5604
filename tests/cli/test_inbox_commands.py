"""`perdure prompt` and `perdure inbox`, and what a run does with prompts that others send."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure.testing import call, hold, say
from tests.cli.conftest import Here
from tests.cli.support import Shell, finished, one_line, shell


def waiting(here: Here, session: str) -> list[dict[str, Any]]:
    """Return what `perdure inbox --json` lists."""
    return json.loads(here("inbox", session, "--json").out)


def kinds(here: Here, session: str) -> list[str]:
    """Return the types of the events of a session."""
    return [json.loads(line)["type"] for line in here("events", session).out.splitlines()]


def begun(s: Shell, here: Here) -> str:
    """Begin a session with one answer; return its id."""
    assert here("run", "start").code == 0
    return s.the_session()


def test_a_prompt_is_admitted_and_nothing_is_run(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("zero")]) as s:
        session = begun(s, here)
        sent = here("prompt", session[:8], "Do this.")
        (listed,) = waiting(here, session)
        assert len(s.provider.requests) == 1
        assert s.status() == "waiting"
    assert (sent.code, sent.out) == (0, f"{listed['id']}\n")
    assert sent.err.startswith(f"nobody works on session {session}")
    assert "perdure run -s" in sent.err
    assert (listed["delivery"], listed["text"]) == ("steer", "Do this.")
    assert set(listed) == {"id", "delivery", "seq", "admitted", "text", "images"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z", listed["admitted"])


def test_a_run_answers_what_waits_and_prints_its_own_answer(tmp_path: Path, here: Here) -> None:
    script = [say("zero"), say("to the steering ones"), say("to the queued one"), say("mine")]
    with shell(tmp_path, script) as s:
        session = begun(s, here)
        here("prompt", session, "steer one")
        here("prompt", session, "--queue", "queued")
        here("prompt", "--steer", session, "steer two")
        ended = here("run", "-s", session, "my own")
        assert (ended.code, ended.out) == (0, "mine\n")
        assert waiting(here, session) == []
        bodies = [request.body for request in s.provider.requests]
    assert all(text in bodies[1] for text in (b"steer one", b"steer two"))
    assert b"queued" not in bodies[1]
    assert b"queued" in bodies[2]
    assert b"my own" not in bodies[2]


@pytest.mark.parametrize("delivery", ["steer", "queue"])
def test_a_run_in_another_process_takes_what_is_sent_to_it(
    tmp_path: Path, here: Here, delivery: str
) -> None:
    gate = threading.Event()
    script = [hold(gate, call("list", {"path": "."})), say("the answer"), say("to the queued one")]
    with shell(tmp_path, script if delivery == "queue" else script[:2]) as s:
        with s.start("run", "work") as run:
            s.provider.wait_until_received(1)
            session = s.the_session()
            sent = here("prompt", session, f"--{delivery}", "look here")
            gate.set()
            ended = finished(run)
        assert (ended.code, ended.out) == (0, "the answer\n")
        assert waiting(here, session) == []
        assert s.status() == "idle"
        taken = [b"look here" in request.body for request in s.provider.requests]
    assert f"process {run.pid} works on session {session}" in sent.err
    assert taken == ([False, True] if delivery == "steer" else [False, False, True])


def test_a_steer_that_comes_with_the_last_answer_is_answered_before_the_run_ends(
    tmp_path: Path, here: Here
) -> None:
    gate = threading.Event()
    with shell(tmp_path, [hold(gate, say("mine")), say("to the late one")]) as s:
        with s.start("run", "work") as run:
            s.provider.wait_until_received(1)
            here("prompt", s.the_session(), "late")
            gate.set()
            ended = finished(run)
        assert (ended.code, ended.out) == (0, "mine\n")
        assert s.status() == "idle"
        assert "to the late one" in here("sessions", "show", s.the_session()).out


def test_a_prompt_that_was_printed_outlives_the_command(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("zero"), say("kept"), say("mine")]) as s:
        session = begun(s, here)
        with s.start("prompt", session, "keep this") as prompt:
            assert prompt.stdout is not None
            sent = prompt.stdout.readline().strip()
            prompt.kill()
            prompt.wait()
        assert [each["id"] for each in waiting(here, session)] == [sent]
        assert here("run", "-s", session, "go on").out == "mine\n"
        assert b"keep this" in s.provider.requests[1].body


def test_an_own_id_is_admitted_once_whatever_became_of_it(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("zero"), say("one"), say("two")]) as s:
        session = begun(s, here)
        assert here("prompt", session, "--id", "mail-1", "first").out == "mail-1\n"
        assert s.run("prompt", "--id", "mail-1", session, "again").out == "mail-1\n"
        assert [each["text"] for each in waiting(here, session)] == ["first"]
        here("run", "-s", session, "go on")
        here("prompt", session, "--id", "mail-2", "second")
        here("inbox", session, "withdraw", "mail-2")
        for name in ("mail-1", "mail-2"):
            again = here("prompt", session, "--id", name, "again")
            assert (again.code, again.out) == (0, f"{name}\n")
            assert "no longer waits" in again.err
        assert waiting(here, session) == []
        assert kinds(here, session).count("prompt.admitted") == 4


def test_an_own_id_of_another_session_is_refused(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("zero"), say("one")]) as s:
        s.prefix_may_break = "two sessions"
        session = begun(s, here)
        here("prompt", session, "--id", "mail-1", "first")
        here("run", "another session")
        rows = json.loads(here("sessions", "list", "--json").out)
        (other,) = (row["id"] for row in rows if row["id"] != session)
        assert "another session" in one_line(here("prompt", other, "--id", "mail-1", "x"), 1)
        assert waiting(here, other) == []


def test_the_text_of_a_prompt_is_read_from_standard_input(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("zero")]) as s:
        session = begun(s, here)
        assert s.run("prompt", session, "-", input="from\nthe pipe").code == 0
        assert [each["text"] for each in waiting(here, session)] == ["from\nthe pipe"]
        assert "the prompt is empty" in one_line(s.run("prompt", session, "-", input=" "), 2)


def test_the_inbox_is_listed_with_the_next_prompt_first(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("zero")]) as s:
        session = begun(s, here)
        assert here("inbox", session).out == "no prompt waits\n"
        assert here("inbox", session, "--json").out == "[]\n"
        here("prompt", session, "--id", "mail-0001", "--queue", "\n later\nmore")
        here("prompt", session, "--id", "mail-0002", "now")
        page = here("inbox", session).out.splitlines()
    assert [line.split() for line in page] == [
        ["ID", "DELIVERY", "SENT", "PROMPT"],
        ["mail-0002", "steer", "just", "now", "now"],
        ["mail-0001", "queue", "just", "now", "later"],
    ]


def test_a_waiting_prompt_is_steered_queued_and_withdrawn(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("zero")]) as s:
        session = begun(s, here)
        here("prompt", session, "--id", "mail-1", "--queue", "text")
        steered = here("inbox", session, "steer", "mail")
        assert (steered.code, steered.out) == (0, "")
        assert steered.err.startswith("prompt mail-1: steer; nobody works on session")
        assert [each["delivery"] for each in waiting(here, session)] == ["steer"]
        here("inbox", session, "queue", "mail-1")
        here("inbox", session, "queue", "mail-1")
        assert [each["delivery"] for each in waiting(here, session)] == ["queue"]
        gone = here("inbox", session, "withdraw", "m")
        assert gone.err == f"prompt mail-1 was withdrawn from session {session}\n"
        assert waiting(here, session) == []
        assert kinds(here, session).count("prompt.delivery_changed") == 2
        assert len(s.provider.requests) == 1


def test_what_does_not_wait_or_is_meant_unclearly_is_one_line(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("zero")]) as s:
        session = begun(s, here)
        here("prompt", session, "--id", "mail-1", "x")
        here("prompt", session, "--id", "mail-12", "y")
        assert "several prompt ids" in one_line(here("inbox", session, "steer", "mail"), 2)
        for wrong in ("letter", ""):
            assert "lists them" in one_line(here("inbox", session, "withdraw", wrong), 1)
        for words in (["steer"], ["steer", "a", "b"], ["forget", "a"], ["queue", "a", "--json"]):
            assert "withdraw PROMPT" in one_line(here("inbox", session, *words), 2)
        assert here("inbox", session, "withdraw", "mail-1").code == 0
        assert "no session" in one_line(here("inbox", "zzz"), 2)
        assert "no session" in one_line(here("prompt", "zzz", "x"), 2)
        assert "empty" in one_line(here("prompt", session, " "), 2)
        assert "empty" in one_line(here("prompt", session, "--id", "", "x"), 2)
        assert [each["id"] for each in waiting(here, session)] == ["mail-12"]


def test_a_run_whose_prompt_is_withdrawn_says_so(tmp_path: Path, here: Here) -> None:
    gate = threading.Event()
    with shell(tmp_path, [hold(gate, say("one"))]) as s, s.start("run", "first") as first:
        s.provider.wait_until_received(1)
        with s.start("run", "-c", "second") as second:
            s.until_waiting()
            (prompt,) = waiting(here, s.the_session())
            assert here("inbox", s.the_session(), "withdraw", prompt["id"]).code == 0
            assert "was withdrawn" in one_line(finished(second), 1)
        gate.set()
        assert finished(first).out == "one\n"


def test_a_waiting_run_can_be_steered_into_the_work_of_another(tmp_path: Path, here: Here) -> None:
    gate = threading.Event()
    script = [hold(gate, call("list", {"path": "."})), say("to both")]
    with shell(tmp_path, script) as s, s.start("run", "first") as first:
        s.provider.wait_until_received(1)
        with s.start("run", "-c", "second") as second:
            s.until_waiting()
            (prompt,) = waiting(here, s.the_session())
            said = here("inbox", s.the_session(), "steer", prompt["id"]).err
            gate.set()
            assert [finished(each).out for each in (first, second)] == ["to both\n"] * 2
        assert f"process {first.pid} works" in said
        assert len(s.provider.requests) == 2
