"""Tasks on the command line: below the session that gave them, and never continued by -c."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from perdure.cli.listing import families
from perdure.store.contract import SessionRow
from perdure.testing import call, say
from tests.cli.conftest import Here
from tests.cli.support import one_line, shell

SCRIPT = [
    call("task", {"description": "Look\x1b[2J around", "prompt": "Look around."}),
    say("I looked."),
    say("It is done."),
]


def test_a_task_is_listed_and_shown_below_its_session(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [*SCRIPT, say("More.")]) as s:
        s.prefix_may_break = "two sessions"
        ran = here("run", "Have it done.")
        assert "* task: Look" in ran.err
        rows = {row["title"]: row for row in json.loads(here("sessions", "list", "--json").out)}
        parent, task = rows["Have it done."], rows["Look\\x1b[2J around"]
        assert (parent["parent"], task["parent"]) == ("", parent["id"])
        lines = here("sessions", "list").out.splitlines()
        assert lines[1].startswith(parent["id"][:6])
        assert lines[2].startswith(f"  {task['id'][:6]}")
        shown = here("sessions", "show", parent["id"]).out
        assert f"task {task['id']}  idle  Look\\x1b[2J around\n" in shown
        assert f"(the task was session {task['id']})" in shown
        assert f"a task of session {parent['id']}\n" in here("sessions", "show", task["id"]).out
        assert "\x1b" not in shown

        # The task has a later change, and is not continued all the same.
        here("sessions", "rename", task["id"], "later")
        assert "More." in here("run", "-c", "Go on.").out
        assert b"Have it done." in s.provider.requests[-1].body


def test_a_session_is_deleted_with_its_task(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, SCRIPT) as s:
        s.prefix_may_break = "two sessions"
        here("run", "Have it done.")
        (parent,) = {r["parent"] for r in json.loads(here("sessions", "list", "--json").out)} - {""}
        assert here("sessions", "delete", parent, "--yes").code == 0
        assert here("sessions", "list", "--json").out == "[]\n"


def test_an_imported_task_stands_for_itself_and_is_not_continued(
    tmp_path: Path, here: Here
) -> None:
    with shell(tmp_path, SCRIPT) as s:
        s.prefix_may_break = "two sessions"
        here("run", "Have it done.")
        rows = json.loads(here("sessions", "list", "--json").out)
        (task,) = [row for row in rows if row["parent"]]
        exported = here("sessions", "export", task["id"], "-o", "task.jsonl")
        assert exported.out == ""
        assert f"session {task['id']} is in" in exported.err
        assert "task.jsonl" in exported.err
        here("sessions", "delete", task["parent"], "--yes")
        assert here("sessions", "import", "task.jsonl").code == 0
        line = here("sessions", "list").out.splitlines()[1]
        assert line.startswith(task["id"][:6])
        assert "no session works in" in one_line(here("run", "-c", "Go on."), 2)


def row(session: str, parent: str = "") -> SessionRow:
    return SessionRow(session, "", "/", "a/b", "", 0, 0, 0, 1, 0, 0, "", parent=parent)


@pytest.mark.parametrize(
    ("given", "listed"),
    [
        (["a", "b<a", "c"], ["a", "-b", "c"]),
        (["b<a", "c", "d<a", "a"], ["c", "a", "-b", "-d"]),
        (["b<gone", "a"], ["b", "a"]),
        (["a<a"], ["a"]),
        (["a<b", "b<a"], ["a", "b"]),
        (["c<b", "b<a", "a"], ["c", "a", "-b"]),
    ],
)
def test_every_session_is_listed_once_whatever_names_whom(
    given: Sequence[str], listed: Sequence[str]
) -> None:
    rows = [row(name, parent) for name, _, parent in (each.partition("<") for each in given)]
    assert [f"{'-' * task}{each.id}" for each, task in families(rows)] == listed
