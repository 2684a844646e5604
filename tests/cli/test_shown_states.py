"""What commands say of a session after a change, at an earlier moment, and in little room."""

from __future__ import annotations

import json
import re
from pathlib import Path

from perdure.testing import say
from tests.cli.conftest import Here
from tests.cli.support import shell
from tests.cli.terminal import at_terminal

RULES = "# Rules\n\n* be brief\n* be kind\n"


def test_a_context_at_an_event_begins_with_what_held_then(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("1")]) as s:
        here("run", "first title")
        session = s.the_session()
        last = len(here("events", session).out.splitlines())
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        here("sessions", "rename", session, "second title")
        here("sessions", "model", session, "scripted/model-2")
        here("sessions", "move", session, str(elsewhere))
        then = here("context", session, "--at", str(last)).out.splitlines()[:2]
        now = here("context", session).out.splitlines()[:2]
        data = json.loads(here("context", session, "--at", str(last), "--json").out)
    facts = f"{session}  scripted/model-1  {s.directory}  as of event {last}"
    assert then == ["first title", facts]
    assert now == ["second title", f"{session}  scripted/model-2  {elsewhere}  idle"]
    assert data["title"] == "first title"


def test_values_are_shown_on_short_lines(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("1")]) as s:
        (s.directory / "AGENTS.md").write_text(RULES)
        for name in ("alpha", "beta"):
            folder = s.directory / ".agents" / "skills" / name
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does.\n---\n")
        here("run", "a")
        page = here("context", s.the_session()).out
        values = json.loads(here("context", s.the_session(), "--json").out)["sources"]
    assert re.search(r"\n    skills  alpha, beta\n", page)
    assert re.search(r"\n    text     # Rules  \(4 lines\)\n", page)
    assert re.search(r"\n    digest   [0-9a-f]{16}\.\.\.\n", page)
    assert RULES in [source["told"]["text"] for source in values if "AGENTS.md" in source["key"]]


def test_of_a_changed_text_the_first_line_that_differs_is_shown(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("1")]) as s:
        rules = s.directory / "AGENTS.md"
        rules.write_text(RULES)
        here("run", "a")
        rules.write_text(RULES.replace("kind", "strict"))
        changed = here("context", s.the_session()).out
        rules.write_text("# Rules\n\n* be brief\n")
        shorter = here("context", s.the_session()).out
    assert "told  * be kind  (4 lines)" in changed
    assert "now   * be strict  (4 lines)" in changed
    assert "told  * be kind  (4 lines)" in shorter
    assert "now   (ends)  (3 lines)" in shorter


def test_of_a_changed_list_what_the_other_lacks_is_shown(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("1"), say("2")]) as s:
        here("run", "a")
        session = s.the_session()
        here("context", session, "set", "ports", "[1,2]")
        assert "value  [1,2]" in here("context", session).out
        here("run", "-c", "b")
        here("context", session, "set", "ports", "[1,3]")
        assert re.search(r"value\n +told +\[2\]\n +now +\[3\]\n", here("context", session).out)


def test_a_change_says_what_holds_now_on_standard_error(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("1"), say("a summary")]) as s:
        s.prefix_may_break = "a compaction"
        here("run", "a")
        session = s.the_session()
        changes = {
            ("sessions", "rename", session, "Broken build"): "has the title 'Broken build'",
            ("sessions", "model", session, "scripted/m"): "uses scripted/m from its next step on",
            ("sessions", "compact", session): "a summary stands in the place",
            ("sessions", "move", session, str(tmp_path)): f"works in {tmp_path} from its next step",
            ("context", session, "set", "release", '"1.4"'): 'entry/release is now "1.4"',
        }
        for arguments, words in changes.items():
            said = here(*arguments)
            assert (said.code, said.out) == (0, "")
            assert said.err.startswith(f"session {session}")
            assert words in said.err
            assert len(said.err.splitlines()) == 1


def test_a_long_directory_takes_one_line_of_a_terminal(tmp_path: Path) -> None:
    with shell(tmp_path / ("deep" * 12), [say("1")]) as s:
        s.run("run", "hi")
        with at_terminal(["sessions", "list"], s.directory, {"NO_COLOR": "1"}, columns=80) as seen:
            assert seen.end() == 0
        in_a_pipe = s.run("sessions", "list").out
    header, row = (line for line in seen.seen.replace("\r", "").split("\n") if line)
    directory = row[header.index("DIRECTORY") :].strip()
    assert re.fullmatch(r"/.*\.\.\..*/project", directory)
    assert len(directory) == 20
    assert str(s.directory) in in_a_pipe


def test_a_refused_skill_is_told_when_a_session_begins_and_by_the_doctor(
    tmp_path: Path, here: Here
) -> None:
    with shell(tmp_path, [say("1"), say("2"), say("3")]) as s:
        s.prefix_may_break = "two sessions"
        folder = s.directory / ".agents" / "skills" / "bad"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("nothing")
        told = [
            here("run", *more).err.count("refused, because") for more in (["a"], ["-c", "b"], ["c"])
        ]
        assert here("doctor").out.count("refused, because") == 1
    assert told == [1, 0, 1]
