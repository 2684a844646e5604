"""`perdure sessions fork` and `perdure sessions revert`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from perdure.testing import call, keeps_prefix, say
from tests.cli.conftest import Here
from tests.cli.support import one_line, shell

BRANCHES = "a copy, or an earlier message, goes on"


def messages(here: Here, session: str) -> list[dict[str, Any]]:
    return json.loads(here("sessions", "show", session, "--json").out)


def test_a_fork_prints_its_id_alone_and_goes_on(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("one"), say("two"), say("three")]) as s:
        s.prefix_may_break = BRANCHES
        here("run", "first")
        session = s.the_session()
        here("run", "-c", "second")
        answer = messages(here, session)[1]
        forked = here("sessions", "fork", session[:6], "--at", str(answer["seq"]))
        assert (forked.code, forked.err) == (0, "")
        copy = forked.out.removesuffix("\n")
        assert re.fullmatch(r"[0-9a-z]{16}", copy)
        assert here("run", "-s", copy, "third").out == "three\n"
        said = [each["role"] for each in messages(here, copy)]
        assert said == ["user", "assistant", "user", "assistant"]
        assert len(messages(here, session)) == 4
        first, _, third = s.provider.requests
        assert keeps_prefix(first, third)


def test_a_whole_session_is_forked_without_a_message(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("one")]) as s:
        here("run", "first")
        session = s.the_session()
        copy = here("sessions", "fork", session).out.strip()
        shown = here("sessions", "show", copy).out
        assert "first" in shown
        assert "one" in shown


def test_a_session_is_reverted_and_idle(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("one"), say("two"), say("three")]) as s:
        s.prefix_may_break = BRANCHES
        here("run", "first")
        here("run", "-c", "second")
        session = s.the_session()
        numbers = re.findall(r"\[(\d+)\]", here("sessions", "show", session).out)
        assert numbers == [str(each["seq"]) for each in messages(here, session)]
        reverted = here("sessions", "revert", session, numbers[1])
        assert (reverted.code, reverted.out) == (0, "")
        assert reverted.err == (
            f"session {session} is back at message {numbers[1]}; the log keeps what came after it, "
            "and files stay as they are\n"
        )
        assert "second" not in here("sessions", "show", session).out
        assert '"session.reverted"' in here("events", session).out
        assert s.status() == "idle"
        here("run", "-c", "third")
        assert b"second" not in s.provider.requests[2].body
        assert keeps_prefix(s.provider.requests[0], s.provider.requests[2])
        assert "reverted" in one_line(here("sessions", "revert", session, numbers[3]), 2)
        assert here("doctor").code == 0


def test_the_context_is_that_of_the_history_that_stands(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("one"), say("two")]) as s:
        (s.directory / "AGENTS.md").write_text("Rule one.")
        here("run", "first")
        session = s.the_session()
        (s.directory / "AGENTS.md").write_text("Rule two.")
        here("run", "-c", "second")
        last = messages(here, session)[-1]["seq"]
        here("sessions", "revert", session, str(messages(here, session)[1]["seq"]))
        assert "Rule two." not in told(here, "context", session, "--history")
        assert "Rule two." in told(here, "context", session, "--history", "--at", str(last))


def told(here: Here, *arguments: str) -> str:
    """Return the Baselines and System Messages of a context, without what holds now."""
    view = json.loads(here(*arguments, "--json").out)
    return json.dumps([view["epochs"], view["messages"]])


@pytest.mark.parametrize("message", ["0", "999", "nobody", "99999999999999999999", "9" * 5000, "१"])
@pytest.mark.parametrize("command", [("fork", "--at"), ("revert",)])
def test_what_is_no_message_is_bad_usage(
    tmp_path: Path, here: Here, command: tuple[str, ...], message: str
) -> None:
    with shell(tmp_path, [say("one")]) as s:
        here("run", "first")
        name, *option = command
        arguments = ("sessions", name, s.the_session(), *option, message)
        assert message[:100] in one_line(here(*arguments), 2)


@pytest.mark.parametrize("name", ["fork", "revert"])
def test_help_gives_an_example_and_revert_says_that_files_stay(here: Here, name: str) -> None:
    shown = " ".join(here("sessions", name, "--help").out.split())
    assert f"perdure sessions {name} 7k2m9q" in shown
    assert name == "fork" or "Files are not touched" in shown


def test_a_session_that_runs_elsewhere_is_not_reverted(tmp_path: Path, here: Here) -> None:
    script = [say("one"), call("shell", {"command": "touch started; sleep 600"})]
    config = {"permissions": {"shell": "allow"}}
    with shell(tmp_path, script, config=config) as s:
        here("run", "first")
        session = s.the_session()
        with s.start("run", "-c", "second") as running:
            s.provider.wait_until_received(2)
            line = one_line(here("sessions", "revert", session, "1"), 1)
            assert "interrupt it first" in line
            running.send_signal(2)
            running.wait(60)
