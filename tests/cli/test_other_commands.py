"""The commands that look at sessions and change them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from perdure.testing import home_of, run_cli, say
from tests.cli.support import Shell, one_line, shell


def _asked(s: Shell) -> str:
    s.run("run", "What is up?")
    return s.the_session()


def test_sessions_are_listed_with_their_documented_members(tmp_path: Path) -> None:
    with shell(tmp_path, [say("x")]) as s:
        session = _asked(s)
        (row,) = s.sessions()
        assert set(row) == {"id", "title", "directory", "model", "status", "updated"}
        assert row["title"] == "What is up?"
        assert row["status"] == "idle"
        assert session[:6] in s.run("sessions", "list").out


def test_the_request_command_prints_the_exact_body(tmp_path: Path) -> None:
    with shell(tmp_path, [say("x"), say("y")]) as s:
        session = _asked(s)
        s.run("run", "-c", "more")
        first = s.run("request", session, "--step", "1").out
        last = s.run("request", session[:5]).out
        assert first.rstrip("\n").encode() == s.provider.requests[0].body
        assert last.rstrip("\n").encode() == s.provider.requests[1].body


def test_events_are_json_lines_after_a_seq(tmp_path: Path) -> None:
    with shell(tmp_path, [say("x")]) as s:
        session = _asked(s)
        everything = [json.loads(line) for line in s.run("events", session).out.splitlines()]
        tail = [
            json.loads(line) for line in s.run("events", session, "--after", "3").out.splitlines()
        ]
        assert [event["seq"] for event in everything] == list(range(1, len(everything) + 1))
        assert tail == everything[3:]
        assert everything[0]["type"] == "session.created"


def test_a_session_is_renamed_shown_and_deleted(tmp_path: Path) -> None:
    with shell(tmp_path, [say("The answer.")]) as s:
        session = _asked(s)
        assert s.run("sessions", "rename", session, "Another title").code == 0
        shown = s.run("sessions", "show", session).out
        assert "Another title" in shown
        assert "The answer." in shown
        assert "--yes" in one_line(s.run("sessions", "delete", session), 2)
        assert s.run("sessions", "delete", session, "--yes").code == 0
        assert s.sessions() == []


def test_the_context_says_what_was_told_and_what_the_next_step_tells(tmp_path: Path) -> None:
    with shell(tmp_path, [say("1"), say("2")]) as s:
        (s.directory / "AGENTS.md").write_text("Rule one.")
        session = _asked(s)
        (s.directory / "AGENTS.md").write_text("Rule two.")
        view = json.loads(s.run("context", session, "--json").out)
        assert view["next"] == "message"
        assert "Rule two." in view["next_text"]
        assert "changed; the next step tells it" in s.run("context", session).out
        assert len(s.provider.requests) == 1
        s.run("run", "-c", "go on")
        assert "Rule two." in s.run("context", session, "--history").out
        assert "Rule two." not in s.run("context", session, "--at", "7").out


def test_an_entry_set_on_the_command_line_is_told(tmp_path: Path) -> None:
    with shell(tmp_path, [say("1"), say("2")]) as s:
        session = _asked(s)
        assert s.run("context", session, "set", "release", '"1.4"').code == 0
        assert "is not JSON" in one_line(s.run("context", session, "set", "release", "{"), 2)
        s.run("run", "-c", "go on")
        assert b"1.4" in s.provider.requests[1].body


def test_a_session_moves_switches_and_is_compacted(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with shell(tmp_path, [say("1"), say("A summary."), say("3")]) as s:
        session = _asked(s)
        assert s.run("sessions", "compact", session).code == 0
        assert s.run("sessions", "move", session, str(other)).code == 0
        assert s.run("sessions", "model", session, "scripted/model-2").code == 0
        (row,) = s.sessions()
        assert (row["directory"], row["model"]) == (str(other), "scripted/model-2")
        s.run("run", "-s", session, "go on")
        body = s.provider.requests[2].json
        assert body["model"] == "model-2"
        assert "A summary." in str(body["messages"])
        assert str(other) in str(body["messages"][0])


def test_the_doctor_masks_keys_and_names_the_file_of_a_setting(tmp_path: Path) -> None:
    with shell(tmp_path) as s:
        key = "sk-secret-secret-secret-abcd"
        finished = s.run("doctor", "--json", env={"ANTHROPIC_API_KEY": key})
        found = json.loads(finished.out)
        assert finished.code == 0
        assert key not in finished.out
        assert "abcd" in finished.out
        assert found["model"] == "scripted/model-1"
        assert any(each["key"] == "model" for each in found["settings"])


def test_a_project_is_trusted_before_its_providers_count(tmp_path: Path) -> None:
    with shell(tmp_path, [say("x")]) as s:
        (s.directory / "perdure.toml").write_text('[permissions]\nwrite = "allow"\n')
        assert "does not count" in s.run("run", "hi").err
        assert s.run("trust", ".").code == 0
        found = json.loads(s.run("doctor", "--json").out)
        assert found["trusted"]
        assert found["permissions"]["write"] == "allow"


def test_every_command_has_help_with_an_example(tmp_path: Path) -> None:
    top = run_cli(["--help"], cwd=tmp_path).out
    commands = re.findall(r"^  ([a-z]+)  ", top.partition("Commands:")[2], re.MULTILINE)
    assert "run" in commands
    for command in commands:
        assert "Example" in run_cli([command, "--help"], cwd=tmp_path).out, command


def test_a_database_that_is_none_is_one_line(tmp_path: Path) -> None:
    with shell(tmp_path) as s:
        database = home_of(s.directory) / "data" / "perdure.db"
        database.parent.mkdir(parents=True, exist_ok=True)
        database.write_bytes(b"not a database at all" * 100)
        assert str(database) in one_line(s.run("run", "hi"), 1)
        assert database.read_bytes().startswith(b"not a database")
