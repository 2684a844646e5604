"""What a chat shows of answers, calls and facts, on a real terminal."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from perdure.testing import call, cut, error, hold, say, think, write_config
from tests.cli.chat.tmux import in_tmux
from tests.cli.support import KEY, shell
from tests.pictures import png

LONG = "".join(f"Paragraph {number} of the answer, 日本語 included.\n\n" for number in range(120))


def test_an_answer_appears_while_it_is_still_coming_and_is_then_laid_out(tmp_path: Path) -> None:
    gate = threading.Event()
    answer = hold(gate, say("Some **bold words** and\nmore of them."), after=3)
    with shell(tmp_path, [answer]) as s, in_tmux(s) as window:
        window.send("Hi there.")
        window.until("> Hi there.", "Some **bold")
        gate.set()
        seen = window.until("Some bold words and more of them.")
        assert "**" not in seen


def test_a_finished_block_is_laid_out_before_the_answer_is_whole(tmp_path: Path) -> None:
    gate = threading.Event()
    answer = hold(gate, say("Some **bold** words.\n\nThe end is near."), after=5)
    with shell(tmp_path, [answer]) as s, in_tmux(s) as window:
        window.send("Hi.")
        window.until("Some bold words.", "The")
        gate.set()
        window.until("The end is near.", "/help")


def test_of_a_long_answer_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    with shell(tmp_path, [say(LONG)]) as s, in_tmux(s) as window:
        window.send("Hi.")
        window.until("Paragraph 119 of", "/help")
        lines = window.everything().splitlines()
    said = [each.rstrip() for each in lines if each.startswith("Paragraph")]
    assert said == [each for each in LONG.splitlines() if each]


@pytest.mark.parametrize(
    ("settings", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_are_left_out_where_they_are_not_wanted(
    tmp_path: Path, settings: dict[str, str], coloured: bool
) -> None:
    script = [call("list", {"path": "."}), say("**Bold.**"), call("shell", {"command": "ls"})]
    with shell(tmp_path, script) as s, in_tmux(s, settings=settings) as window:
        window.send("Look.")
        window.until("✓ list .", "Bold.", "/help")
        window.send("Write.")
        window.until("or a reason]")
        assert ("\x1b[" in window.do("capture-pane", "-p", "-e")) == coloured


def test_control_characters_of_the_model_are_seen_and_do_nothing(tmp_path: Path) -> None:
    with shell(tmp_path, [say("a\x1b]0;owned\x07b\x9bc\x1b[2Jd")]) as s, in_tmux(s) as window:
        window.send("Hi.")
        window.until("a␛]0;owned\\x07b\\x9bc␛[2Jd")
        assert "owned" not in window.do("display-message", "-p", "#{pane_title}")


def test_html_of_the_model_is_shown_as_text(tmp_path: Path) -> None:
    with shell(tmp_path, [say("<div>\nA tag.\n</div>\n\nand <b>more</b>")]) as s:
        with in_tmux(s) as window:
            window.send("Hi.")
            window.until("<div> A tag. </div>", "and <b>more</b>")


def test_thoughts_are_folded_to_one_line(tmp_path: Path) -> None:
    thoughts = "Which file? " * 40
    with shell(tmp_path, [think(thoughts) + say("That one.")]) as s, in_tmux(s) as window:
        window.send("Hi.")
        seen = window.until("thought: Which file? Which", "That one.")
        assert seen.count("Which file?") < 20


def test_calls_are_folded_to_a_line_with_what_came_of_them(tmp_path: Path) -> None:
    script = [
        call("read", {"path": "a.txt"}),
        call("shell", {"command": "echo out; exit 2"}),
        say("So it is."),
    ]
    with shell(tmp_path, script) as s, in_tmux(s, ["--yes"]) as window:
        (s.directory / "a.txt").write_text("one\ntwo\nthree\n")
        window.send("Look.")
        window.until("✓ read a.txt · ", "✗ shell echo out; exit 2 · exit code 2", "So it is.")


def test_a_call_that_runs_shows_how_far_it_is(tmp_path: Path) -> None:
    script = [call("shell", {"command": "echo so far; read line < gate"}), say("Done.")]
    with shell(tmp_path, script) as s, in_tmux(s, ["--yes"]) as window:
        os.mkfifo(s.directory / "gate")
        window.send("Wait.")
        window.until("… shell echo so far; read line < gate", "so far")
        (s.directory / "gate").write_text("go\n")
        window.until("✓ shell", "Done.")


def test_expand_shows_the_complete_output_of_a_call(tmp_path: Path) -> None:
    script = [call("shell", {"command": "seq 3000"}), say("Counted.")]
    with shell(tmp_path, script) as s, in_tmux(s, ["--yes"]) as window:
        window.send("Count.")
        window.until("Counted.")
        window.send("/expand")
        window.until("  3000")
        shown = window.everything()
        assert all(f"\n  {number}\n" in shown for number in (1, 1500, 3000))
        window.send("/expand 7")
        window.until("no call here has the number 7")


def test_a_changed_fact_is_one_line(tmp_path: Path) -> None:
    with shell(tmp_path, [say("One."), say("Two.")]) as s, in_tmux(s) as window:
        window.begin("One.")
        (s.directory / "AGENTS.md").write_text("Use tabs.")
        window.send("Again.")
        seen = window.until("told the model what changed: ", "/context shows", "Two.")
        assert "Use tabs." not in seen
        window.send("/context")
        window.until("System Messages since: 1", "Next step", "tells nothing")


def test_a_failed_attempt_says_so_and_the_next_one_is_shown_whole(tmp_path: Path) -> None:
    script = [cut(say("One two three."), after=1), say("The whole.")]
    with shell(tmp_path, script) as s, in_tmux(s) as window:
        window.send("Count.")
        window.until("broken stream", "attempt 2 in", "The whole.")


def test_a_failing_provider_costs_one_line_and_the_chat_goes_on(tmp_path: Path) -> None:
    with shell(tmp_path, [error(401), say("Better.")]) as s, in_tmux(s) as window:
        window.send("Hi.")
        window.until("scripted", "401", "your next prompt goes on from here")
        window.send("Once more.")
        window.until("Better.")


def test_what_keeps_a_step_from_starting_is_said(tmp_path: Path) -> None:
    with shell(tmp_path, [say("One.")]) as s, in_tmux(s) as window:
        window.begin("One.")
        (s.directory / "perdure.toml").write_text("modell = 1\n")
        window.send("Again.")
        window.until("perdure.toml", "modell")
        (s.directory / "perdure.toml").unlink()
        assert s.row().pending == 1


def test_another_size_of_the_terminal_breaks_nothing(tmp_path: Path) -> None:
    gate = threading.Event()
    script = [say(LONG), hold(gate, say("After all that."), after=1)]
    with shell(tmp_path, script) as s, in_tmux(s) as window:
        window.send("Hi.")
        window.until("Paragraph 119 of", "/help")
        window.send("Again.")
        window.until("After")
        window.resize(40, 12)
        window.resize(20, 4)
        window.resize(100, 40)
        gate.set()
        window.until("After all that.", "Ctrl-D leaves")
        window.send("/help")
        window.until("/undo")


def test_what_the_other_terminal_says_appears_too(tmp_path: Path) -> None:
    with shell(tmp_path, [say("One."), say("Two.")]) as s, in_tmux(s) as window:
        window.begin("One.")
        assert s.run("run", "-c", "From elsewhere.").code == 0
        window.until("> From elsewhere.", "Two.")


def test_two_chats_in_one_session_see_each_other(tmp_path: Path) -> None:
    gate = threading.Event()
    script = [say("One."), hold(gate, call("list", {"path": "."})), say("Two.")]
    with shell(tmp_path, script) as s, in_tmux(s) as window:
        window.begin("One.")
        with in_tmux(s, ["-c"]) as other:
            other.until("> Hi.", "One.")
            other.send("From the other.")
            s.provider.wait_until_received(2)
            window.until("> From the other.", "working")
            window.send("And from here.")
            other.until("waits: And from here.")
            gate.set()
            window.until("> And from here.", "Two.", "/help")
            other.until("> And from here.", "Two.", "/help")


def test_an_image_that_a_prompt_names_goes_with_it(tmp_path: Path) -> None:
    with shell(tmp_path, [say("A black square.")]) as s:
        write_config(s.directory, s.provider.config(api_key_env=KEY, images=True))
        (s.directory / "shot.png").write_bytes(png())
        with in_tmux(s) as window:
            window.send("What is on @none.png?")
            window.until("none.png cannot be read", "> What is on @none.png?\nscripted")
            assert s.run("sessions", "list", "--json").out == "[]\n"
            window.press("C-c")
            window.gone("> What is on @none.png?\nscripted")
            window.send("What is on @shot.png?")
            window.until("> What is on @shot.png?", "(1 image)", "A black square.")
        assert b"data:image/png;base64," in s.provider.requests[0].body
