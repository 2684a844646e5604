"""`perdure run`: what it prints, how it exits, and what the next run finds."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from perdure.testing import (
    call,
    cut,
    empty,
    error,
    hold,
    home_of,
    html,
    keeps_prefix,
    malformed,
    nobody_listens,
    run_cli,
    say,
    write_config,
)
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.cli.conftest import Here
from tests.cli.support import finished, one_line, shell, until


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_answer_and_nothing_else_is_on_standard_output(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    with shell(tmp_path, [call("list", {"path": "."}), say("It is empty.")], protocol) as s:
        ended = s.run("run", "What is here?")
        assert (ended.code, ended.out) == (0, "It is empty.\n")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_second_run_begins_its_request_with_every_block_of_the_first(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    with shell(tmp_path, [say("one"), say("two")], protocol) as s:
        (s.directory / "AGENTS.md").write_text("Rule one.")
        assert s.run("run", "first").code == 0
        (s.directory / "AGENTS.md").write_text("Rule two.")
        assert s.run("run", "-c", "second").code == 0
        assert keeps_prefix(*s.provider.requests)
        assert b"Rule two." in s.provider.requests[1].body
        assert b"Rule one." in s.provider.requests[1].body


def test_an_answer_that_did_not_end_by_itself_is_printed_and_said_to_be_so(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Half an ans", stop="length"), say("Whole.", stop="bored")]) as s:
        cut, bored = s.run("run", "Tell."), s.run("run", "-c", "Again.")
    assert (cut.code, cut.out) == (0, "Half an ans\n")
    assert "cut off at its output limit" in cut.err
    assert (bored.code, bored.out) == (0, "Whole.\n")
    assert "not known here: bored" in bored.err


def test_what_stands_before_a_refusal_is_no_answer_and_its_calls_do_not_run(tmp_path: Path) -> None:
    with shell(tmp_path, [call("shell", {"command": "touch ran"}, stop="refusal")]) as s:
        ended = s.run("run", "--yes", "Do it.")
        assert not (s.directory / "ran").exists()
    assert ended.out == ""
    assert "declined to answer; change the prompt" in one_line(ended, 1)


def test_json_lines_carry_seq_only_for_durable_events(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("Hello.")]):
        lines = [
            json.loads(line) for line in here("run", "--format", "json", "Hi").out.split("\n")[:-1]
        ]
    durable = [line for line in lines if "seq" in line]
    assert all(set(line) == {"seq", "type", "time", "data"} for line in durable)
    assert [line["seq"] for line in durable] == sorted(line["seq"] for line in durable)
    assert {line["type"] for line in lines if "seq" not in line} == {"text.delta"}
    assert durable[-1]["type"] == "step.finished"


def test_a_prompt_of_a_dash_is_read_from_standard_input(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Yes.")]) as s:
        assert s.run("run", "-", input="from the pipe").code == 0
        assert b"from the pipe" in s.provider.requests[0].body
        assert "the prompt is empty" in one_line(s.run("run", "-", input=" \n"), 2)


def test_a_model_option_switches_an_existing_session_for_good(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("1"), say("2"), say("3")]) as s:
        s.prefix_may_break = "a model switch"
        here("run", "a")
        here("run", "-c", "-m", "scripted/other/with/slashes", "b")
        here("run", "-c", "c")
        models = [request.json["model"] for request in s.provider.requests]
        assert models == ["model-1", "other/with/slashes", "other/with/slashes"]


def test_without_a_provider_three_ways_to_get_one_are_named(tmp_path: Path) -> None:
    message = one_line(run_cli(["run", "hi"], cwd=tmp_path), 2)
    assert "-m provider/model" in message
    assert f"configuration ({home_of(tmp_path) / 'config' / 'config.toml'}, or" in message
    assert "ANTHROPIC_API_KEY" in message
    assert "Ollama" in message


def test_without_a_provider_the_doctor_calls_no_configuration_broken(tmp_path: Path) -> None:
    page = run_cli(["doctor"], cwd=tmp_path).out
    assert "no file; the defaults hold" in page
    assert "Broken\n  no model provider is configured" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "-m", "nobody/x", "hi"), "no provider 'nobody'"),
        (("run", "-s", "zzz", "hi"), "no session 'zzz'"),
        (("run", "-c", "hi"), "no session works in"),
        (("run", "-C", "missing", "hi"), "missing is no directory"),
        (("run", " "), "the prompt is empty"),
        (("run", "-s", "", "hi"), "the ID is empty"),
        (("run", "a", "b"), "unexpected extra argument"),
        (("run", "-s", "a", "-c", "hi"), "give only one"),
        (("sessions", "show", "zzz"), "no session 'zzz'"),
        (("request", "zzz"), "no session 'zzz'"),
        (("events", "zzz"), "no session 'zzz'"),
        (("context", "zzz"), "no session 'zzz'"),
        (("nonsense",), "no such command 'nonsense'; see `perdure --help`"),
        (("sesions",), "no such command 'sesions'; did you mean 'sessions'? see `perdure --help`"),
        (("sessions", "reverse", "a"), "no such command 'reverse'"),
        (("run", "--formt", "json", "hi"), "'--formt'; did you mean '--format'? see `perdure run"),
        (("run", "--im", "x.png", "hi"), "; did you mean"),
        (("request", "a", "--step", "x"), "'x' is not a valid whole number; see `perdure request"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line_and_exit_2(
    tmp_path: Path, here: Here, arguments: tuple[str, ...], words: str
) -> None:
    with shell(tmp_path):
        assert words in one_line(here(*arguments), 2)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (error(401), "401"),
        (error(404), "404"),
        (error(400, message="bad things"), "bad things"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_refusal_is_one_line_and_the_prompt_is_in_the_next_request(
    tmp_path: Path, here: Here, reply: object, words: str, protocol: ProtocolName
) -> None:
    with shell(tmp_path, [reply, say("Fine.")], protocol) as s:
        assert words in one_line(here("run", "the lost question"), 1)
        assert here("run", "-c", "again").code == 0
        assert b"the lost question" in s.provider.requests[-1].body


BROKEN = {
    "html": html(200),
    "malformed": malformed(say("x")),
    "cut": cut(say("a b c"), after=1),
    "empty": empty(),
}


def test_a_broken_answer_is_one_line_and_the_prompt_is_in_the_next_request(tmp_path: Path) -> None:
    # Attempts wait for each other, so the four run side by side.
    with ExitStack() as stack:
        shells = [
            stack.enter_context(shell(tmp_path / name, [*[reply] * 5, say("Fine.")]))
            for name, reply in BROKEN.items()
        ]
        runs = [stack.enter_context(s.start("run", "the lost question")) for s in shells]
        for s, run in zip(shells, runs, strict=True):
            one_line(finished(run), 1)
            again = s.run("run", "-c", "again")
            assert (again.code, again.out) == (0, "Fine.\n")
            assert b"the lost question" in s.provider.requests[-1].body


def test_nobody_is_told_to_try_again_what_is_tried_again_by_itself(tmp_path: Path) -> None:
    with shell(tmp_path, [error(503, message="Too much."), say("Fine.")]) as s:
        told = s.run("run", "hi").err
    assert "; attempt 2 in" in told
    assert "try again" not in told


def test_words_of_a_failed_attempt_never_reach_a_pipe(tmp_path: Path) -> None:
    with shell(tmp_path, [cut(say("a b c"), after=2), say("a b c")]) as s:
        ended = s.run("run", "hi")
    assert ended.out == "a b c\n"
    assert "attempt 2 in" in ended.err


def test_a_refused_connection_names_the_address(tmp_path: Path) -> None:
    with nobody_listens() as url:
        provider = {"protocol": "openai-chat", "base_url": f"{url}/v1"}
        write_config(tmp_path, {"model": "x/y", "providers": {"x": provider}})
        message = one_line(run_cli(["run", "hi"], cwd=tmp_path), 1)
    assert url.removeprefix("http://") in message


def test_broken_arguments_of_a_call_reach_the_model_as_an_error(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [call("read", '{"path": "a'), say("Sorry.")]) as s:
        assert here("run", "read it").out == "Sorry.\n"
        assert b"not valid JSON" in s.provider.requests[1].body


def test_a_tool_that_asks_is_denied_in_a_pipe_and_allowed_with_yes(
    tmp_path: Path, here: Here
) -> None:
    script = [call("write", {"path": "a.txt", "content": "x"}), say("1")] * 2
    with shell(tmp_path, script) as s:
        s.prefix_may_break = "two sessions"
        here("run", "write it")
        assert not (s.directory / "a.txt").exists()
        here("run", "--yes", "write it")
        assert (s.directory / "a.txt").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_settles_the_step_and_is_told_by_the_exit_code(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with shell(tmp_path, [hold(threading.Event(), say("never")), say("Fine.")]) as s:
        with s.start("run", "hi") as run:
            s.provider.wait_until_received(1)
            run.send_signal(number)
            assert run.wait(60) == code
        assert s.status() == "interrupted"
        assert s.run("run", "-c", "again").code == 0


def test_a_second_ctrl_c_leaves_at_once(tmp_path: Path) -> None:
    with shell(tmp_path, [hold(threading.Event(), say("never"))]) as s, s.start("run", "hi") as run:
        s.provider.wait_until_received(1)
        with s.locked_store():
            run.send_signal(signal.SIGINT)
            until(lambda: s.provider.abandoned)
            run.send_signal(signal.SIGINT)
            assert run.wait(60) == 130
        assert s.status() == "interrupted"
        assert "step.finished" not in s.run("events", s.the_session()).out


def test_a_killed_run_leaves_an_interrupted_session_that_goes_on(tmp_path: Path) -> None:
    with shell(tmp_path, [hold(threading.Event(), say("never")), say("Fine."), say("More.")]) as s:
        with s.start("run", "the lost question") as run:
            s.provider.wait_until_received(1)
            assert s.status() == "running"
            run.kill()
            run.wait()
        assert s.status() == "interrupted"
        assert s.run("run", "-c", "again").code == 0
        assert s.status() == "idle"
        assert b"the lost question" in s.provider.requests[-1].body


def test_two_runs_of_one_session_take_turns_and_print_their_own_answers(tmp_path: Path) -> None:
    gate = threading.Event()
    script = [say("zero"), hold(gate, call("list", {"path": "."})), say("one"), say("two")]
    with shell(tmp_path, script) as s:
        s.run("run", "start")
        with s.start("run", "-c", "first") as first:
            s.provider.wait_until_received(2)
            with s.start("run", "-c", "second") as second:
                s.until_waiting()
                gate.set()
                assert finished(first).out == "one\n"
                assert finished(second).out == "two\n"
        assert not s.provider.refused


def test_a_prompt_that_is_interrupted_before_its_turn_is_kept(tmp_path: Path) -> None:
    never = hold(threading.Event(), say("never"))
    with shell(tmp_path, [say("zero"), never, say("one"), say("two"), say("three")]) as s:
        s.run("run", "start")
        with s.start("run", "-c", "first") as first:
            s.provider.wait_until_received(2)
            with s.start("run", "-c", "second") as second:
                s.until_waiting()
                second.send_signal(signal.SIGINT)
                ended = finished(second)
            first.kill()
            first.wait()
        assert ended.code == 130
        assert "the prompt is kept" in ended.err
        assert s.run("run", "-c", "third").out == "three\n"
        assert b"second" in s.provider.requests[3].body
        assert b"third" not in s.provider.requests[3].body


def test_a_reader_that_leaves_ends_the_run_quietly(tmp_path: Path) -> None:
    gate = threading.Event()
    with shell(tmp_path, [hold(gate, say("Too late."))]) as s, s.start("run", "hi") as run:
        s.provider.wait_until_received(1)
        assert run.stdout is not None
        run.stdout.close()
        gate.set()
        assert run.wait(60) == 141
        assert run.stderr is not None
        assert run.stderr.read().splitlines() == [f"session: {s.the_session()}"]


def test_the_first_line_of_a_prompt_becomes_the_title(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x")]) as s:
        here("run", f"\n  Why{' so' * 40}?\nMore.")
        assert s.row().title == f"Why{' so' * 40}"[:60]


def test_an_existing_session_keeps_its_directory(tmp_path: Path, here: Here) -> None:
    (tmp_path / "other").mkdir()
    with shell(tmp_path, [say("x"), say("y")]) as s:
        here("run", "a")
        ended = here("run", "-s", s.the_session()[:8], "-C", str(tmp_path / "other"), "b")
        assert ended.out == "y\n"
        assert f"works in {s.directory}; -C is for a new session" in ended.err
        assert s.row().directory == str(s.directory)


def test_a_session_whose_directory_is_gone_can_be_moved(tmp_path: Path, here: Here) -> None:
    (tmp_path / "other").mkdir()
    with shell(tmp_path, [say("x"), say("y")]) as s:
        s.prefix_may_break = "a move"
        here("run", "-C", str(tmp_path / "other"), "a")
        (tmp_path / "other").rmdir()
        session = s.the_session()
        message = one_line(here("run", "-s", session, "b"), 2)
        assert f"`perdure sessions move {session} DIR`" in message
        assert here("sessions", "move", session, ".").code == 0
        assert here("run", "-s", session, "b").out == "y\n"


def test_continuing_takes_the_session_updated_last_in_that_directory(
    tmp_path: Path, here: Here
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "link").symlink_to(other)
    with shell(tmp_path, [say("1"), say("2"), say("3"), say("4")]) as s:
        s.prefix_may_break = "several sessions"
        here("run", "-C", str(other), "the older one")
        here("run", "-C", str(other), "the newer one")
        here("run", "here")
        here("run", "-c", "-C", str(tmp_path / "link"), "more")
        assert b"the newer one" in s.provider.requests[-1].body
        assert b"the older one" not in s.provider.requests[-1].body


def test_options_may_stand_behind_the_prompt(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x")]) as s:
        here("run", "hi", "--format", "json", "-m", "scripted/other")
        assert s.provider.requests[0].json["model"] == "other"


def test_the_step_limit_ends_a_run_with_1(tmp_path: Path, here: Here) -> None:
    script = [call("list", {"path": "."})] * 2
    with shell(tmp_path, script, config={"step_limit": 2}):
        assert "the step limit is reached" in one_line(here("run", "hi"), 1)


def test_keys_are_in_no_output_and_not_in_the_store(tmp_path: Path) -> None:
    with shell(tmp_path, [error(401, message="wrong key scripted-key"), say("x")]) as s:
        ended = s.run("run", "hi")
        shown = s.run("doctor").out + s.run("events", s.the_session()).out
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "scripted-key" not in ended.err + ended.out + shown
    assert b"scripted-key" not in everything


def test_a_denied_call_names_the_rule_and_its_file_to_the_user_and_the_model(
    tmp_path: Path, here: Here
) -> None:
    rules = {"shell": {"*": "allow", "rm *": "deny"}}
    script = [call("shell", {"command": "cd . && rm a.txt"}), say("Then not.")]
    with shell(tmp_path, script, config={"permissions": rules}) as s:
        file = home_of(s.directory) / "config" / "config.toml"
        said = f"not run: denied by the rule shell(rm *): deny in {file}."
        assert file.exists()
        assert f"  {said}" in here("run", "tidy up").err
        assert said.encode() in s.provider.requests[1].body


def test_where_nobody_can_be_asked_a_call_is_refused_for_that(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [call("shell", {"command": "ls"}), say("Then not.")]) as s:
        told = here("run", "look").err
        assert "needs a permission, and nobody is there to give it" in told
        assert "warning: nobody could be asked whether shell may run; to allow it, give" in told
        assert told.count("--yes") == 1
        assert b"denied" not in s.provider.requests[1].body


def test_yes_allows_for_that_run_what_the_configuration_denies(tmp_path: Path) -> None:
    script = [call("write", {"path": "a.txt", "content": "x"}), say("1")]
    with shell(tmp_path, script, config={"permissions": {"write": "deny"}}) as s:
        assert s.run("run", "--yes", "write it").code == 0
        assert (s.directory / "a.txt").exists()
