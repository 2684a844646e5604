"""Commands on a real terminal: what is asked, what is shown, what keys do."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.testing import call, cut, hold, say
from tests.cli.conftest import Here
from tests.cli.support import KEY, Shell, shell
from tests.cli.terminal import Typing, at_terminal

QUESTION = "or a reason]"
WRITE = call("write", {"path": "a.txt", "content": "one\ntwo\n"})


@contextmanager
def typed(s: Shell, *arguments: str) -> Generator[Typing]:
    with at_terminal(arguments, s.directory, {KEY: "scripted-key"}) as terminal:
        yield terminal


def test_a_yes_lets_the_tool_run(tmp_path: Path) -> None:
    with shell(tmp_path, [WRITE, say("Written.")]) as s, typed(s, "run", "Write it.") as terminal:
        question = terminal.until(QUESTION)
        terminal.type("y\n")
        assert terminal.end() == 0
        assert (s.directory / "a.txt").read_text() == "one\ntwo\n"
    assert "Allow write: a.txt (8 bytes)?" in question
    assert "+ one" in question
    assert "Written." in terminal.seen


def test_tabs_reach_to_their_stops_in_questions_and_results(tmp_path: Path) -> None:
    tabs = call("write", {"path": "a.txt", "content": "one\ttwo\n"})
    show = call("shell", {"command": "cat a.txt"})
    script = [tabs, show, say("Shown.")]
    with shell(tmp_path, script) as s, typed(s, "run", "Write it.") as terminal:
        terminal.until("  + one   two")
        terminal.until(QUESTION)
        terminal.type("y\n")
        terminal.until(QUESTION)
        terminal.type("y\n")
        terminal.until("  one     two")
        assert terminal.end() == 0
    assert "\\t" not in terminal.seen


def test_always_lets_the_same_call_run_without_a_question(tmp_path: Path, here: Here) -> None:
    script = [WRITE, say("Written."), WRITE, say("Once more.")]
    with shell(tmp_path, script) as s, typed(s, "run", "Write it.") as terminal:
        terminal.until(QUESTION)
        terminal.type("always\n")
        assert terminal.end() == 0
        (s.directory / "a.txt").unlink()
        assert here("run", "-c", "Write it again.").out == "Once more.\n"
        assert (s.directory / "a.txt").exists()


def test_an_empty_answer_declines_and_ends_the_run(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [WRITE, say("Fine.")]) as s, typed(s, "run", "Write it.") as terminal:
        terminal.until(QUESTION)
        terminal.type("\n")
        assert terminal.end() == 1
        assert not (s.directory / "a.txt").exists()
        assert len(s.provider.requests) == 1
        assert here("run", "-c", "Then not.").out == "Fine.\n"
    assert "perdure: a tool call was declined" in terminal.seen


def test_any_other_answer_goes_to_the_model_as_the_reason(tmp_path: Path) -> None:
    with shell(tmp_path, [WRITE, say("Sorry.")]) as s, typed(s, "run", "Write it.") as terminal:
        terminal.until(QUESTION)
        terminal.type("use b.txt instead\n")
        assert terminal.end() == 0
        assert not (s.directory / "a.txt").exists()
        assert b"use b.txt instead" in s.provider.requests[1].body


def test_keys_pressed_before_the_question_do_not_answer_it(tmp_path: Path) -> None:
    gate = threading.Event()
    with shell(tmp_path, [hold(gate, WRITE)]) as s, typed(s, "run", "Write it.") as terminal:
        s.provider.wait_until_received(1)
        terminal.type("y\n")
        terminal.until("y\r\n")
        gate.set()
        terminal.until(QUESTION)
        terminal.type("n\n")
        assert terminal.end() == 1
        assert not (s.directory / "a.txt").exists()


def test_ctrl_c_at_a_question_settles_the_step(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [WRITE, say("Fine.")]) as s, typed(s, "run", "Write it.") as terminal:
        terminal.until(QUESTION)
        terminal.type("\x03")
        assert terminal.end() == 130
        assert s.status() == "interrupted"
        assert here("run", "-c", "again").code == 0
        assert not (s.directory / "a.txt").exists()


def test_a_command_is_shown_whole_before_it_is_allowed(tmp_path: Path) -> None:
    command = f"echo {'x' * 600}\nrm -rf build"
    with shell(tmp_path, [call("shell", {"command": command})]) as s:
        with typed(s, "run", "Do it.") as terminal:
            question = terminal.until(QUESTION)
            terminal.type("n\n")
            terminal.end()
    assert "x" * 600 in question.replace("\r\n", "")
    assert "\n  rm -rf build" in question


def test_a_prompt_from_standard_input_leaves_nobody_to_ask(tmp_path: Path) -> None:
    with shell(tmp_path, [WRITE, say("Then not.")]) as s, typed(s, "run", "-") as terminal:
        terminal.type("Write it.\n\x04")
        assert terminal.end() == 0
        assert b"nobody is there" in s.provider.requests[1].body
    assert QUESTION not in terminal.seen


def test_words_appear_while_the_answer_is_still_coming(tmp_path: Path) -> None:
    gate = threading.Event()
    answer = hold(gate, say("One two three four."), after=2)
    with shell(tmp_path, [answer]) as s, typed(s, "run", "Count.") as terminal:
        terminal.until("One two")
        gate.set()
        terminal.until(" three four.\r\n")
        terminal.until("go on with: perdure run -s ")
        assert terminal.end() == 0


def test_a_failed_attempt_ends_its_line_and_says_when_the_next_comes(tmp_path: Path) -> None:
    script = [cut(say("One two three."), after=1), say("The whole.")]
    with shell(tmp_path, script) as s, typed(s, "run", "Count.") as terminal:
        terminal.until("One \r\n")
        warning = terminal.until("attempt 2 in")
        terminal.until("The whole.\r\n")
        assert terminal.end() == 0
    assert "broken stream" in warning


@pytest.mark.parametrize("command", ["run", "show"])
def test_control_characters_of_a_model_do_not_reach_the_terminal(
    tmp_path: Path, here: Here, command: str
) -> None:
    with shell(tmp_path, [say("a\x1b]0;owned\x07b\x9bc\u202ed\re")]) as s:
        if command == "run":
            arguments = ("run", "Hi.")
        else:
            here("run", "Hi.")
            arguments = ("sessions", "show", s.the_session())
        with typed(s, *arguments) as terminal:
            assert terminal.end() == 0
    assert "owned" in terminal.seen
    assert not {"\x07", "\x9b", "\u202e"} & {*terminal.seen}
    assert "\x1b]" not in terminal.seen
    assert "d\re" not in terminal.seen


def test_a_tool_that_takes_long_shows_how_far_it_is(tmp_path: Path) -> None:
    script = [call("shell", {"command": "echo so far; cat gate"}), say("Done.")]
    with shell(tmp_path, script) as s, typed(s, "run", "--yes", "Wait.") as terminal:
        gate = s.directory / "gate"
        os.mkfifo(gate)
        terminal.until("... shell (1 s) so far")
        gate.write_text("opened\n")
        terminal.until("exit code 0")
        assert terminal.end() == 0


def test_a_compaction_shows_that_it_is_waiting(tmp_path: Path, here: Here) -> None:
    gate = threading.Event()
    with shell(tmp_path, [say("x"), hold(gate, say("A summary."))]) as s:
        here("run", "Hi.")
        with typed(s, "sessions", "compact", s.the_session()) as terminal:
            terminal.until("... the summary (1 s)")
            gate.set()
            assert terminal.end() == 0


def test_deleting_asks_and_only_a_yes_deletes(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x")]) as s:
        here("run", "A question.")
        session = s.the_session()
        with typed(s, "sessions", "delete", session[:8]) as terminal:
            assert "A question." in terminal.until("[y/N")
            terminal.type("\n")
            assert terminal.end() == 1
        assert s.the_session() == session
        with typed(s, "sessions", "delete", session[:8]) as terminal:
            terminal.until("[y/N")
            terminal.type("y\n")
            assert terminal.end() == 0
        assert here("sessions", "list", "--json").out == "[]\n"


def test_pages_fit_the_terminal_and_have_colours_unless_told_not_to(
    tmp_path: Path, here: Here
) -> None:
    with shell(tmp_path, [say("x")]) as s:
        here("run", "A question " * 20)
        with at_terminal(["sessions", "list"], s.directory, columns=60) as terminal:
            terminal.end()
        assert "\x1b[1m" in terminal.seen
        with at_terminal(
            ["sessions", "list"], s.directory, {"NO_COLOR": "1"}, columns=60
        ) as terminal:
            terminal.end()
        assert "\x1b" not in terminal.seen
        assert max(map(len, terminal.seen.splitlines())) <= 60
