"""The commands of a chat, on a real terminal."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from perdure.cli.chat.actions import COMMANDS
from perdure.testing import hold, say
from tests.cli.chat.tmux import in_tmux
from tests.cli.support import shell


def test_help_lists_commands_and_keys(tmp_path: Path) -> None:
    with shell(tmp_path) as s, in_tmux(s) as window:
        window.send("/help")
        window.until("/undo", "Alt-Enter", "leave")


def test_an_unknown_command_names_the_nearest_and_a_path_is_text(tmp_path: Path) -> None:
    with shell(tmp_path, [say("A directory.")]) as s, in_tmux(s) as window:
        window.send("/modle")
        window.until("there is no /modle; did you mean /model?")
        # Nothing of it stands in the prompt line, where it would become a part of this prompt.
        window.send("/usr/bin is what?")
        window.until("> /usr/bin is what?", "A directory.")


def test_model_lists_and_switches_after_saying_the_price(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello."), say("I am another one.")]) as s, in_tmux(s) as window:
        s.prefix_may_break = "another model answers"
        window.begin()
        window.send("/model")
        window.until("the model is scripted/model-1; /model NAME switches")
        window.send("/model scripted/other")
        window.until("tokens anew", "Switch to scripted/other?", "[y/N]")
        window.send("n")
        window.gone("[y/N]")
        window.send("/model scripted/other")
        window.until("[y/N]")
        window.send("y")
        window.until("scripted/other answers from the next step on")
        window.send("Who are you?")
        window.until("I am another one.")
        window.send("/model nobody/x")
        window.until("provider 'nobody'")
        assert s.row().model == "scripted/other"


def test_a_chat_loads_its_plugins_once(tmp_path: Path) -> None:
    loads, plugin = tmp_path / "loads", tmp_path / "brings.py"
    plugin.write_text(
        "def plugin(scope):\n"
        f"    with open({str(loads)!r}, 'a') as file:\n"
        "        print('loaded', file=file)\n"
        "    provider = {'protocol': 'gemini', 'base_url': 'http://127.0.0.1:9'}\n"
        "    scope.provider('brought', provider | {'models': {'of-a-plugin': {}}})\n"
    )
    config = {"plugins": {"paths": [str(plugin)]}}
    with shell(tmp_path, [say("Hello.")], config=config) as s, in_tmux(s) as window:
        window.send("/model")
        window.until("brought/of-a-plugin")
        window.begin()
        assert loads.read_text() == "loaded\n"


def test_the_model_can_be_chosen_before_the_first_prompt(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello.")]) as s, in_tmux(s) as window:
        window.send("/model scripted/other")
        window.until("the session will use scripted/other")
        window.begin()
        assert s.row().model == "scripted/other"


def test_compact_says_its_price_and_puts_a_summary_in_the_place_of_the_history(
    tmp_path: Path,
) -> None:
    with shell(tmp_path, [say("Hello."), say("A summary.")]) as s, in_tmux(s) as window:
        window.begin()
        window.send("/compact")
        window.until("tokens anew", "Compact the history?")
        window.send("y")
        window.until("a summary took the place of the older history")


def test_move_lets_the_session_work_elsewhere(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello.")]) as s, in_tmux(s) as window:
        (s.directory / "sub").mkdir()
        window.begin()
        window.send("/move nowhere")
        window.until("/nowhere is no directory")
        window.send("/move sub")
        window.until("/sub?", "[y/N]")
        window.send("y")
        window.until("from its next step on")
        assert s.row().directory == str(s.directory / "sub")


def test_fork_goes_on_in_a_copy_and_says_how_to_return(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello."), say("In the copy.")]) as s, in_tmux(s) as window:
        window.begin()
        origin = s.the_session()
        window.send("/fork")
        window.until("this is a copy", f"perdure chat -s {origin}")
        window.send("Where are we?")
        window.until("In the copy.")
        assert "In the copy." not in s.run("sessions", "show", origin).out


def test_undo_goes_back_and_gives_the_text_back(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello."), say("Wrong."), say("Right.")]) as s, in_tmux(s) as window:
        s.prefix_may_break = "a prompt was taken back"
        window.begin()
        window.send("Do it.")
        window.until("Wrong.", "/help")
        window.send("/undo")
        window.until("gone back to an earlier message", "> Do it.\nscripted")
        window.send(" Better.")
        window.until("> Do it. Better.", "Right.")
        assert b"Wrong." not in s.provider.requests[2].body


def test_cost_shows_tokens_by_model(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello.")]) as s, in_tmux(s) as window:
        window.begin()
        window.send("/cost")
        window.until("steps: scripted/model-1", "1 request", "no price known")


def test_context_shows_what_was_told_and_what_comes_next(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello.")]) as s, in_tmux(s, rows=40) as window:
        window.begin()
        (s.directory / "AGENTS.md").write_text("Use tabs.")
        window.send("/context")
        window.until("Epoch", "environment", "not told yet", "Next step", "Use tabs.")


def test_a_command_with_too_many_words_shows_how_it_is_used(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello.")]) as s, in_tmux(s) as window:
        window.send("/model scripted/other please")
        window.until("/model takes no more than that: /model [PROVIDER/MODEL]")
        window.send("/quit now")
        window.until("/quit stands alone")
        window.begin()
        assert s.row().model == "scripted/model-1"


@pytest.mark.parametrize("name", COMMANDS)
def test_only_text_titles_and_directories_have_any_number_of_words(name: str) -> None:
    usage = COMMANDS[name].usage
    assert COMMANDS[name].takes(usage)
    assert COMMANDS[name].takes(f"{usage} more") == (usage in {"TEXT", "TITLE", "DIR"})


def test_rename_and_new(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello."), say("Anew.")]) as s, in_tmux(s) as window:
        s.prefix_may_break = "the second session begins anew"
        window.begin()
        window.send("/rename A better name")
        window.until("the title is now 'A better name'", "scripted/model-1 · A better name")
        first = s.the_session()
        window.send("/new")
        window.until(f"perdure chat -s {first}")
        window.send("Again.")
        window.until("Anew.")
        assert len(s.run("sessions", "list").out.splitlines()) == 3


def test_inbox_lists_what_waits_and_takes_it_back(tmp_path: Path) -> None:
    gate = threading.Event()
    with shell(tmp_path, [hold(gate, say("Hello."))]) as s, in_tmux(s) as window:
        window.send("Hi.")
        s.provider.wait_until_received(1)
        window.send("/queue Later.")
        window.send("/inbox")
        seen = window.until("DELIVERY", "Later.")
        row = next(each for each in seen.splitlines() if "just now" in each)
        window.send(f"/inbox withdraw {row.split()[0]}")
        window.until("withdrawn: Later.")
        gate.set()
        window.until("Hello.", "/help")


def test_commands_that_make_no_sense_now_say_so(tmp_path: Path) -> None:
    gate = threading.Event()
    with shell(tmp_path, [hold(gate, say("Hello."))]) as s, in_tmux(s) as window:
        window.send("/undo")
        window.until("/undo: there is no session before the first prompt")
        window.press("C-c")
        window.gone("> /undo\n")
        window.send("Hi.")
        s.provider.wait_until_received(1)
        window.send("/undo")
        window.until("/undo has to wait: the model is at work")
        gate.set()
        window.until("Hello.")
