"""What keys do in a chat, on a real terminal, and how it is left."""

from __future__ import annotations

import os
import signal
import stat
import threading
from pathlib import Path

import pytest

from perdure.testing import call, hold, home_of, say
from tests.cli.chat.tmux import READY, in_tmux
from tests.cli.support import one_line, shell, until

WRITE = call("write", {"path": "a.txt", "content": "one\ntwo\n"})
SLOW = call("shell", {"command": "echo begun; sleep 600"})


def test_a_prompt_of_several_lines_is_one_prompt(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Read.")]) as s, in_tmux(s) as window:
        window.type("first")
        window.press("M-Enter")
        window.type("second")
        window.press("C-j")
        window.send("third")
        window.until("> first", "  second", "  third", "Read.")
        assert b'"first\\nsecond\\nthird"' in s.provider.requests[0].body


def test_pasted_text_with_line_breaks_stays_one_prompt(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Read.")]) as s, in_tmux(s) as window:
        window.paste("def f():\n    return 1\n\n# end")
        window.until("# end")
        assert s.provider.requests == []
        window.press("Enter")
        window.until("Read.")
        assert b'"def f():\\n    return 1\\n\\n# end"' in s.provider.requests[0].body


def test_what_is_typed_while_the_model_works_waits_and_joins_at_the_next_step(
    tmp_path: Path,
) -> None:
    gate = threading.Event()
    script = [hold(gate, call("list", {"path": "."})), say("Both done.")]
    with shell(tmp_path, script) as s, in_tmux(s) as window:
        window.send("Begin.")
        s.provider.wait_until_received(1)
        window.send("And leave the tests alone.")
        window.until("waits: And leave the tests alone.")
        gate.set()
        window.until("> And leave the tests alone.", "Both done.", "/help")
        window.gone("waits:")
        assert len(s.provider.requests) == 2


def test_queue_sends_a_prompt_for_when_the_work_is_done(tmp_path: Path) -> None:
    gate = threading.Event()
    script = [hold(gate, call("list", {"path": "."})), say("First done."), say("Second done.")]
    with shell(tmp_path, script) as s, in_tmux(s) as window:
        window.send("Begin.")
        s.provider.wait_until_received(1)
        window.send("/queue Then this.")
        window.until("queued: Then this.")
        gate.set()
        seen = window.until("Second done.")
        assert seen.index("First done.") < seen.index("> Then this.")


def test_ctrl_c_stops_what_runs_once_and_the_chat_goes_on(tmp_path: Path) -> None:
    with shell(tmp_path, [SLOW, say("Then not.")]) as s, in_tmux(s, ["--yes"]) as window:
        window.send("Sleep.")
        window.until("… shell echo begun", "begun")
        window.press("C-c")
        window.until("✗ shell echo begun; sleep 600 · interrupted", "/help")
        window.send("And now?")
        window.until("Then not.")


def test_a_prompt_that_waits_is_kept_by_ctrl_c_and_enter_goes_on_with_it(tmp_path: Path) -> None:
    with shell(tmp_path, [SLOW, say("Here I am.")]) as s, in_tmux(s, ["--yes"]) as window:
        window.send("Sleep.")
        window.until("… shell echo begun", "begun")
        window.send("Are you there?")
        window.until("waits: Are you there?")
        window.press("C-c")
        window.until("1 prompt waits; Enter on an empty line goes on", "waits: Are you there?")
        window.press("Enter")
        window.until("> Are you there?", "Here I am.")


def test_ctrl_c_with_nothing_running_empties_the_line_and_then_names_ctrl_d(
    tmp_path: Path,
) -> None:
    with shell(tmp_path) as s, in_tmux(s) as window:
        window.type("never sent")
        window.until("> never sent")
        window.press("C-c")
        window.gone("never sent")
        window.press("C-c")
        window.until("nothing runs; Ctrl-D leaves")
        assert s.provider.requests == []


def test_ctrl_d_leaves_and_says_how_to_go_on(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello.")]) as s, in_tmux(s) as window:
        window.begin()
        window.press("C-d")
        assert window.left() == 0
        window.until(f"go on with: perdure chat -s {s.the_session()[:6]}", " icanon")


def test_a_chat_that_nothing_was_sent_in_leaves_no_session(tmp_path: Path) -> None:
    with shell(tmp_path) as s, in_tmux(s) as window:
        window.send("/quit")
        assert window.left() == 0
        assert s.run("sessions", "list", "--json").out == "[]\n"


def test_ctrl_d_stops_and_settles_what_runs(tmp_path: Path) -> None:
    with shell(tmp_path, [SLOW]) as s, in_tmux(s, ["--yes"]) as window:
        window.send("Sleep.")
        window.until("… shell echo begun", "begun")
        window.press("C-d")
        assert window.left() == 0
        assert s.status() == "interrupted"


@pytest.mark.parametrize("key", ["at the prompt line", "at work", "at a question"])
def test_ctrl_z_stops_the_chat_and_fg_goes_on_with_it(tmp_path: Path, key: str) -> None:
    gate = threading.Event()
    script = [say("Hello."), hold(gate, WRITE), say("Fine.")]
    with shell(tmp_path, script) as s, in_tmux(s, jobs=True) as window:
        window.begin()
        if key != "at the prompt line":
            window.send("Write it.")
            s.provider.wait_until_received(2)
        if key == "at a question":
            gate.set()
            window.until("or a reason]")
        window.press("C-z")
        window.until("stopped with 148")
        gate.set()
        window.press("Enter")
        if key == "at the prompt line":
            window.until("stopped with 148", READY)
            window.send("Write it.")
        window.until("or a reason]")
        window.send("y")
        window.until("✓ write a.txt", "Fine.", "/help")
        window.press("C-d")
        assert window.left() == 0


def test_a_request_to_terminate_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with shell(tmp_path, [SLOW]) as s, in_tmux(s, ["--yes"]) as window:
        window.send("Sleep.")
        window.until("… shell echo begun", "begun")
        os.kill(window.pid(), signal.SIGTERM)
        assert window.left() == 143
        window.until(" icanon")
        assert s.status() == "interrupted"


def test_a_terminal_that_goes_away_settles_what_runs(tmp_path: Path) -> None:
    with shell(tmp_path, [SLOW]) as s, in_tmux(s, ["--yes"]) as window:
        window.send("Sleep.")
        window.until("… shell echo begun", "begun")
        window.vanish()
        until(lambda: s.row().outcome == "interrupted")


def test_a_killed_chat_is_gone_on_with(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello."), SLOW, say("I was away.")]) as s:
        with in_tmux(s, ["--yes"]) as window:
            window.send("Hi.")
            window.until("Hello.")
            window.send("Sleep.")
            window.until("… shell echo begun", "begun")
            os.kill(window.pid(), signal.SIGKILL)
            assert window.left() == 137
        with in_tmux(s, ["-s", s.the_session()[:6]]) as window:
            seen = window.until("1 earlier prompt", "> Sleep.", "Enter on an empty line goes on")
            assert "> Hi." not in seen
            window.press("Enter")
            window.until("outcome unknown; it may have run", "I was away.")


def test_what_was_typed_comes_back_in_the_next_chat(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello.")]) as s:
        s.prefix_may_break = "the second chat has a session of its own"
        with in_tmux(s) as window:
            window.send("A question about birds.")
            window.until("Hello.")
            window.press("C-d")
            window.left()
        with in_tmux(s) as window:
            window.press("Up")
            window.until("> A question about birds.")
            window.press("C-c")
            window.gone("birds")
            window.press("C-r")
            window.type("quest")
            window.until("A question about birds.")
            window.press("C-c")
            window.gone("birds")
            window.type("typed again")
            window.until("> typed again")
        (kept,) = (home_of(s.directory) / "data" / "typed").iterdir()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_history_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello.")]) as s:
        (home_of(s.directory) / "data").mkdir()
        (home_of(s.directory) / "data" / "typed").write_text("in the way")
        with in_tmux(s) as window:
            window.send("Hi.")
            window.until("Hello.")
            window.press("Up")
            window.until("> Hi.\nscripted")


def test_a_yes_lets_a_tool_run(tmp_path: Path) -> None:
    with shell(tmp_path, [WRITE, say("Written.")]) as s, in_tmux(s) as window:
        window.send("Write it.")
        window.until("  + one", "Allow write: a.txt (8 bytes)?", "[y/N, always, tool, or a reason]")
        window.send("y")
        window.until("✓ write a.txt", "Written.")
        assert (s.directory / "a.txt").read_text() == "one\ntwo\n"


def test_a_reason_goes_to_the_model_and_the_draft_comes_back(tmp_path: Path) -> None:
    gate = threading.Event()
    with shell(tmp_path, [hold(gate, WRITE), say("Sorry.")]) as s, in_tmux(s) as window:
        window.send("Write it.")
        s.provider.wait_until_received(1)
        window.type("half a sen")
        gate.set()
        window.until("or a reason]")
        window.send("use b.txt instead")
        window.until("Sorry.", "> half a sen")
        assert b"use b.txt instead" in s.provider.requests[1].body


def test_ctrl_c_at_a_question_declines(tmp_path: Path) -> None:
    with shell(tmp_path, [WRITE, say("Fine.")]) as s, in_tmux(s) as window:
        window.send("Write it.")
        window.until("or a reason]")
        window.press("C-c")
        window.until("✗ write a.txt · declined", "so the model stopped there", "/help")
        assert not (s.directory / "a.txt").exists()
        window.send("Then not.")
        window.until("Fine.")


def test_a_question_about_a_task_names_its_session(tmp_path: Path) -> None:
    task = call("task", {"description": "Write", "prompt": "Write a.txt."})
    with shell(tmp_path, [task, WRITE, say("Written."), say("Done.")]) as s, in_tmux(s) as window:
        s.prefix_may_break = "the task has a session of its own"
        window.send("Let it be written.")
        window.until("Allow in session ", "write: a.txt")
        window.send("y")
        window.until("Done.")
        assert (s.directory / "a.txt").exists()


def test_commands_and_paths_are_completed(tmp_path: Path) -> None:
    with shell(tmp_path) as s, in_tmux(s) as window:
        (s.directory / "chapters.md").touch()
        window.type("/comp")
        window.until("compact", "put a summary")
        window.press("Tab")
        window.until("> /compact")
        window.press("C-c")
        window.gone("/compact")
        window.type("look at @chap")
        window.until("chapters.md")
        window.press("Tab")
        window.until("> look at @chapters.md")


def test_without_a_terminal_a_chat_names_perdure_run(tmp_path: Path) -> None:
    with shell(tmp_path) as s:
        assert "perdure run" in one_line(s.run("chat"), 2)


def test_what_cannot_be_begins_no_chat(tmp_path: Path) -> None:
    with shell(tmp_path) as s:
        with in_tmux(s, ["-s", "nosuch"], ready="") as window:
            assert window.left() == 2
            window.until("perdure: ")
        with in_tmux(s, ["-m", "nobody/model"], ready="") as window:
            assert window.left() == 2
            window.until("perdure: ", "nobody")
