"""`perdure run`: what it prints, how it exits, and what the next run finds."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from perdure.testing import (
    call,
    cut,
    empty,
    error,
    hold,
    html,
    keeps_prefix,
    malformed,
    nobody_listens,
    run_cli,
    say,
    start_cli,
    write_config,
)
from perdure.testing.provider import ProtocolName
from tests.cli.support import KEY, one_line, shell

PROTOCOLS: tuple[ProtocolName, ...] = ("openai-chat", "anthropic")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_answer_and_nothing_else_is_on_standard_output(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    with shell(tmp_path, [call("list", {"path": "."}), say("It is empty.")], protocol) as s:
        finished = s.run("run", "What is here?")
        assert (finished.code, finished.out) == (0, "It is empty.\n")


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


def test_json_lines_carry_seq_only_for_durable_events(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Hello.")]) as s:
        lines = [
            json.loads(line) for line in s.run("run", "--format", "json", "Hi").out.split("\n")[:-1]
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


def test_a_model_option_switches_an_existing_session_for_good(tmp_path: Path) -> None:
    with shell(tmp_path, [say("1"), say("2"), say("3")]) as s:
        s.run("run", "a")
        s.run("run", "-c", "-m", "scripted/other/with/slashes", "b")
        s.run("run", "-c", "c")
        models = [request.json["model"] for request in s.provider.requests]
        assert models == ["model-1", "other/with/slashes", "other/with/slashes"]


def test_without_a_provider_three_ways_to_get_one_are_named(tmp_path: Path) -> None:
    message = one_line(run_cli(["run", "hi"], cwd=tmp_path), 2)
    assert "-m provider/model" in message
    assert "ANTHROPIC_API_KEY" in message
    assert "Ollama" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "-m", "nobody/x", "hi"), "no provider 'nobody'"),
        (("run", "-s", "zzz", "hi"), "no session 'zzz'"),
        (("run", "-c", "hi"), "no session works in"),
        (("run", "-C", "missing", "hi"), "missing is no directory"),
        (("run", " "), "the prompt is empty"),
        (("run", "-s", "a", "-c", "hi"), "give only one"),
        (("sessions", "show", "zzz"), "no session 'zzz'"),
        (("request", "zzz"), "no session 'zzz'"),
        (("events", "zzz"), "no session 'zzz'"),
        (("context", "zzz"), "no session 'zzz'"),
        (("nonsense",), "no such command"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line_and_exit_2(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    with shell(tmp_path) as s:
        assert words in one_line(s.run(*arguments), 2)


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
    tmp_path: Path, reply: object, words: str, protocol: ProtocolName
) -> None:
    with shell(tmp_path, [reply, say("Fine.")], protocol) as s:
        assert words in one_line(s.run("run", "the lost question"), 1)
        assert s.run("run", "-c", "again").code == 0
        assert b"the lost question" in s.provider.requests[-1].body


@pytest.mark.parametrize(
    "reply", [html(200), malformed(say("x")), cut(say("a b c"), after=1), empty()]
)
def test_a_broken_answer_is_one_line_and_the_prompt_is_in_the_next_request(
    tmp_path: Path, reply: object
) -> None:
    with shell(tmp_path, [*[reply] * 5, say("Fine.")]) as s:
        one_line(s.run("run", "the lost question"), 1)
        finished = s.run("run", "-c", "again")
        assert (finished.code, finished.out) == (0, "Fine.\n")
        assert b"the lost question" in s.provider.requests[-1].body


def test_a_refused_connection_names_the_address(tmp_path: Path) -> None:
    with nobody_listens() as url:
        provider = {"protocol": "openai-chat", "base_url": f"{url}/v1"}
        write_config(tmp_path, {"model": "x/y", "providers": {"x": provider}})
        message = one_line(run_cli(["run", "hi"], cwd=tmp_path), 1)
    assert url.removeprefix("http://") in message


def test_broken_arguments_of_a_call_reach_the_model_as_an_error(tmp_path: Path) -> None:
    with shell(tmp_path, [call("read", '{"path": "a'), say("Sorry.")]) as s:
        assert s.run("run", "read it").out == "Sorry.\n"
        assert b"not valid JSON" in s.provider.requests[1].body


def test_a_tool_that_asks_is_denied_in_a_pipe_and_allowed_with_yes(tmp_path: Path) -> None:
    script = [call("write", {"path": "a.txt", "content": "x"}), say("1")] * 2
    with shell(tmp_path, script) as s:
        s.run("run", "write it")
        assert not (s.directory / "a.txt").exists()
        s.run("run", "--yes", "write it")
        assert (s.directory / "a.txt").exists()


def test_ctrl_c_settles_the_step_and_exits_130(tmp_path: Path) -> None:
    with shell(tmp_path, [hold(threading.Event(), say("never")), say("Fine.")]) as s:
        with start_cli(["run", "hi"], cwd=s.directory, env={KEY: "scripted-key"}) as process:
            s.provider.wait_until_received(1)
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(20) == 130
        assert s.sessions()[0]["status"] == "interrupted"
        assert s.run("run", "-c", "again").code == 0


def test_two_runs_of_one_session_take_turns_and_print_their_own_answers(tmp_path: Path) -> None:
    gate = threading.Event()
    script = [say("zero"), hold(gate, call("list", {"path": "."})), say("one"), say("two")]
    with shell(tmp_path, script) as s:
        s.run("run", "start")
        session = s.the_session()
        environment = {KEY: "scripted-key"}
        with (
            start_cli(["run", "-s", session, "first"], cwd=s.directory, env=environment) as first,
        ):
            s.provider.wait_until_received(2)
            with start_cli(
                ["run", "-s", session, "second"], cwd=s.directory, env=environment
            ) as second:
                gate.set()
                out_first, _ = first.communicate(timeout=30)
                out_second, _ = second.communicate(timeout=30)
        assert (first.returncode, second.returncode) == (0, 0)
        assert (str(out_first), str(out_second)) == ("one\n", "two\n")
        assert not s.provider.refused


def test_keys_are_in_no_output_and_not_in_the_store(tmp_path: Path) -> None:
    with shell(tmp_path, [error(401, message="wrong key scripted-key"), say("x")]) as s:
        finished = s.run("run", "hi")
        shown = s.run("doctor").out + s.run("events", s.the_session()).out
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "scripted-key" not in finished.err + finished.out + shown
    assert b"scripted-key" not in everything
