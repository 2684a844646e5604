"""The commands that look at sessions and change them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from perdure.testing import call, nobody_listens, run_cli, say, write_config
from tests.cli.conftest import Here
from tests.cli.support import KEY, one_line, shell


def test_sessions_are_listed_with_their_documented_members(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x")]) as s:
        here("run", "What is up?")
        (row,) = json.loads(here("sessions", "list", "--json").out)
        listed = here("sessions", "list").out
        members = {"id", "title", "directory", "model", "status", "reason", "updated", "parent"}
        assert set(row) == members
        assert (row["title"], row["status"], row["reason"]) == ("What is up?", "idle", "")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["updated"])
        assert (row["directory"], row["id"]) == (str(s.directory), s.the_session())
    assert row["id"][:6] in listed
    assert "just now" in listed


def test_the_request_command_prints_the_exact_body(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x"), say("y")]) as s:
        here("run", "a")
        here("run", "-c", "more")
        first = here("request", s.the_session(), "--step", "1").out
        last = here("request", s.the_session()[:5]).out
        assert first == s.provider.requests[0].body.decode() + "\n"
        assert last == s.provider.requests[1].body.decode() + "\n"
        assert "no step 3" in one_line(here("request", s.the_session(), "--step", "3"), 2)


def test_events_are_json_lines_after_a_seq(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x")]) as s:
        here("run", "a")
        everything = [json.loads(line) for line in here("events", s.the_session()).out.splitlines()]
        tail = here("events", s.the_session(), "--after", "3").out.splitlines()
        assert here("events", s.the_session(), "--after", "9999").out == ""
    assert [event["seq"] for event in everything] == list(range(1, len(everything) + 1))
    assert [json.loads(line) for line in tail] == everything[3:]
    assert everything[0]["type"] == "session.created"


def test_following_events_prints_what_another_process_writes(tmp_path: Path) -> None:
    with shell(tmp_path, [say("x"), say("y")]) as s:
        s.run("run", "a")
        with s.start("events", s.the_session(), "--follow") as following:
            s.run("run", "-c", "one more")
            assert following.stdout is not None
            while '"text":"one more"' not in following.stdout.readline():
                assert following.poll() is None
            following.send_signal(2)
            assert following.wait(60) == 130
            assert following.stderr is not None
            assert following.stderr.read().strip() == ""


def test_a_session_is_renamed_shown_and_deleted(tmp_path: Path, here: Here) -> None:
    script = [call("list", {"path": "."}), say("The answer.")]
    with shell(tmp_path, script) as s:
        here("run", "What is here?")
        session = s.the_session()
        assert here("sessions", "rename", session, "Another\n title").code == 0
        shown = here("sessions", "show", session).out
        assert "--yes" in one_line(here("sessions", "delete", session), 2)
        deleted = here("sessions", "delete", session, "--yes")
        assert (deleted.code, deleted.out) == (0, "")
        assert deleted.err == f"session {session} is deleted\n"
        assert here("sessions", "list", "--json").out == "[]\n"
    assert shown.startswith("Another title\n")
    words = ["you", "What is here?", "* list", "list: completed", "The answer."]
    assert [word for word in words if word not in shown] == []


def test_system_messages_are_in_a_transcript_only_when_asked_for(
    tmp_path: Path, here: Here
) -> None:
    with shell(tmp_path, [say("1"), say("2")]) as s:
        here("run", "a")
        (s.directory / "AGENTS.md").write_text("Rule one.")
        here("run", "-c", "b")
        assert "Rule one." not in here("sessions", "show", s.the_session()).out
        assert "Rule one." in here("sessions", "show", s.the_session(), "--system").out
        items = json.loads(here("sessions", "show", s.the_session(), "--system", "--json").out)
    assert [item["role"] for item in items] == ["user", "assistant", "user", "system", "assistant"]
    assert all("seq" in item for item in items)


def test_the_context_says_what_was_told_and_what_the_next_step_tells(
    tmp_path: Path, here: Here
) -> None:
    with shell(tmp_path, [say("1"), say("2")]) as s:
        rules = s.directory / "AGENTS.md"
        rules.write_text("Rule one.")
        here("run", "a")
        session = s.the_session()
        assert "tells nothing" in here("context", session).out
        rules.write_text("Rule two.")
        view = json.loads(here("context", session, "--json").out)
        page = here("context", session).out
        assert len(s.provider.requests) == 1
        here("run", "-c", "go on")
        history = here("context", session, "--history").out
        assert "Rule two." not in here("context", session, "--at", "7").out
    assert view["next"] == "message"
    assert "Rule two." in view["next_text"]
    assert "changed; the next step tells it" in page
    assert re.search(r"text\n +told +Rule one\.\n +now +Rule two\.\n", page)
    assert "Rule one." in history
    assert "Rule two." in history


def test_an_entry_set_on_the_command_line_is_told(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("1"), say("2")]) as s:
        here("run", "a")
        session = s.the_session()
        assert here("context", session, "set", "release", '"1.4"').code == 0
        assert "is not JSON" in one_line(here("context", session, "set", "release", "{"), 2)
        here("run", "-c", "go on")
        assert b"1.4" in s.provider.requests[1].body


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bla",), "'bla' is no change; the only one is `set KEY JSON`"),
        (("set", "release"), "`set` takes a KEY and one JSON value"),
        (("set", "release", "1", "2"), "`set` takes a KEY and one JSON value"),
        (("set", "release", "1", "--history"), "`set KEY JSON` takes no options"),
    ],
)
def test_what_is_no_change_of_the_context_is_refused_for_what_it_is(
    here: Here, arguments: tuple[str, ...], words: str
) -> None:
    assert words in one_line(here("context", "7k2m9q", *arguments), 2)


def test_a_session_moves_switches_and_is_compacted(tmp_path: Path, here: Here) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with shell(tmp_path, [say("1"), say("A summary."), say("3")]) as s:
        s.prefix_may_break = "a compaction, a move and a switch"
        here("run", "a")
        session = s.the_session()
        assert here("sessions", "compact", session).code == 0
        assert here("sessions", "move", session, str(other)).code == 0
        assert here("sessions", "model", session, "scripted/model-2").code == 0
        (row,) = json.loads(here("sessions", "list", "--json").out)
        assert (row["directory"], row["model"]) == (str(other), "scripted/model-2")
        here("run", "-s", session, "go on")
        body = s.provider.requests[2].json
    assert body["model"] == "model-2"
    assert "A summary." in str(body["messages"])
    assert str(other) in str(body["messages"][0])


def test_the_doctor_masks_keys_and_names_the_file_of_a_setting(
    tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-secret-secret-secret-abcd"
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    with shell(tmp_path):
        ended = here("doctor", "--json")
        page = here("doctor")
    found = json.loads(ended.out)
    assert (ended.code, page.code) == (0, 0)
    assert key not in ended.out + page.out
    assert "ANTHROPIC_API_KEY is set (…abcd)" in page.out
    assert f"{KEY} is set\n" in page.out
    assert found["model"] == "scripted/model-1"
    assert any(each["key"] == "model" for each in found["settings"])


def test_the_doctor_exits_with_1_where_something_is_broken(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, config={"model": "nobody/x"}) as s:
        wrong_model = here("doctor")
        (s.directory / "perdure.toml").write_text("modle = 'a/b'\n")
        wrong_key = here("doctor")
    assert (wrong_model.code, wrong_key.code) == (1, 1)
    assert "no provider 'nobody'" in wrong_model.out
    assert "modle is not a known key; the nearest one is model" in wrong_key.out
    assert "see what is broken, below" in wrong_key.out


def test_the_doctor_says_that_nothing_listens_where_the_model_should_be(
    tmp_path: Path, here: Here
) -> None:
    with shell(tmp_path) as s:
        alive = here("doctor")
        with nobody_listens() as url:
            provider = {"protocol": "openai-chat", "base_url": f"{url}/v1"}
            write_config(s.directory, {"model": "here/qwen3", "providers": {"here": provider}})
            dead = here("doctor")
    assert (alive.code, dead.code) == (0, 0)
    assert "cannot answer" not in alive.out
    assert f"here/qwen3 cannot answer, since nothing listens at {url}/v1; start its" in dead.out


def test_the_doctor_shows_the_rules_for_resources_and_names_one_for_no_tool(tmp_path: Path) -> None:
    rules = {"shell": {"git *": "allow"}, "shel": "deny", "sh*": "ask"}
    with shell(tmp_path, config={"permissions": rules}) as s:
        page = s.run("doctor").out
    assert "shell(git *): allow" in page
    assert "permissions.shel names no built-in tool" in page
    assert "permissions.sh*" not in page


def test_a_project_is_trusted_before_its_providers_count(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x"), say("y")]) as s:
        s.prefix_may_break = "two sessions"
        (s.directory / "perdure.toml").write_text('[permissions]\nwrite = "allow"\n')
        assert "permissions left out" in here("run", "hi").err
        trusted = here("trust", ".").out
        assert "left out" not in here("run", "hi").err
        assert json.loads(here("doctor", "--json").out)["permissions"]["write"] == "allow"
        assert json.loads(here("trust", "--list", "--json").out) == [str(s.directory)]
        assert here("trust", "--remove", str(s.directory)).code == 0
        assert here("trust", "--list").out == ""
    assert f"{s.directory} is trusted" in trusted
    assert "says of permissions counts from now on" in trusted


def test_every_command_has_help_with_an_example(here: Here) -> None:
    found = 0
    groups: list[tuple[str, ...]] = [()]
    while groups:
        group = groups.pop()
        listed = here(*group, "--help").out.partition("Commands:")[2]
        for name in re.findall(r"^  ([a-z]+)  ", listed, re.MULTILINE):
            text = here(*group, name, "--help").out
            assert "Example" in text, (group, name)
            assert "\\b" not in text
            found += 1
            if "Commands:" in text:
                groups.append((*group, name))
    assert found > 12


def test_the_command_and_the_module_are_the_same(tmp_path: Path) -> None:
    ended = run_cli(["--version"], cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(r"perdure \d+\.\d+\.\d+\n", ended.out)
