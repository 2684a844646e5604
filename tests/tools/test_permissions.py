"""Permissions: what is asked, how it is shown, and the words of a refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.history.content import ToolCall
from perdure.tools import builtin_tools
from perdure.tools.permissions import (
    PermissionAnswer,
    decide,
    declined,
    denied,
    question,
    summary,
    unanswered,
)


def test_only_what_changes_something_is_asked_by_default() -> None:
    decided = {tool.name: decide(tool.name, {}) for tool in builtin_tools()}
    assert {name for name, said in decided.items() if said == "ask"} == {"shell", "write", "edit"}
    assert {name for name, said in decided.items() if said == "allow"} == {
        "read",
        "list",
        "glob",
        "grep",
    }


def test_a_tool_of_the_program_that_embeds_is_allowed_by_default() -> None:
    assert decide("deploy", {}) == "allow"


def test_a_rule_counts_more_than_the_default() -> None:
    rules = {"shell": "allow", "read": "deny", "deploy": "ask"}
    assert [decide(name, rules) for name in ("shell", "read", "deploy", "edit")] == [  # pyright: ignore[reportArgumentType]
        "allow",
        "deny",
        "ask",
        "ask",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("shell", '{"command": "rm -rf build"}', "shell: rm -rf build"),
        ("write", '{"path": "a.py", "content": "xü"}', "write: a.py (3 bytes)"),
        (
            "edit",
            '{"path": "a.py", "old": "a\\n", "new": "b"}',
            r"edit: a.py ('a\n' becomes 'b')",
        ),
        ("read", '{"path": "a.py"}', 'read: {"path":"a.py"}'),
        ("list", "", "list: no arguments"),
        ("shell", '{"command": 3}', 'shell: {"command":3}'),
        ("shell", "{broken", "shell: no arguments"),
    ],
)
def test_a_call_is_shown_on_one_line(name: str, arguments: str, line: str) -> None:
    assert question("session", ToolCall("1", name, arguments)).summary == line


def test_a_question_carries_all_that_the_call_would_do() -> None:
    asked = question("s", ToolCall("c", "shell", '{"command": "ls", "timeout": 3}'))
    assert (asked.session, asked.call, asked.tool) == ("s", "c", "shell")
    assert asked.arguments == {"command": "ls", "timeout": 3}


def test_a_command_cannot_pretend_to_be_the_question() -> None:
    command = "true\r\nshell: ls [y/N] \x1b[2K\x1b[1A\u202e\u200b\x9b1A\u2028"
    line = summary("shell", {"command": command})
    assert line == (r"shell: true\r\nshell: ls [y/N] \x1b[2K\x1b[1A\u202e\u200b\x9b1A\u2028")


def test_the_end_of_a_long_command_is_shown_too() -> None:
    line = summary("shell", {"command": "echo " + " " * 5000 + "; rm -rf /"})
    assert line.startswith("shell: echo ")
    assert line.endswith("; rm -rf /")
    assert " characters ...] " in line
    assert len(line) < 600


@given(tool=st.text(max_size=20), command=st.text(max_size=2000))
def test_a_summary_is_always_one_short_line_that_prints(tool: str, command: str) -> None:
    for line in (
        summary(tool, {"command": command}),
        summary("shell", {"command": command}),
        summary("write", {"path": command, "content": command}),
        summary("edit", {"path": command, "old": command, "new": command}),
    ):
        assert line.isprintable()
        assert len(line) < 1000


def test_what_cannot_be_allowed_is_told_to_the_model_which_goes_on() -> None:
    assert denied("shell").outcome == "failed"
    assert "the configuration denies the tool shell" in denied("shell").output
    assert unanswered("shell").outcome == "failed"
    assert "nobody is there to give it" in unanswered("shell").output


def test_declining_with_a_reason_tells_the_model() -> None:
    settled = declined("shell", PermissionAnswer(allowed=False, reason="use make clean"))
    assert settled.outcome == "failed"
    assert settled.output == "not run: the user declined the tool shell and said: use make clean"


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_declining_without_a_reason_ends_the_drain(reason: str) -> None:
    settled = declined("shell", PermissionAnswer(allowed=False, reason=reason))
    assert settled.outcome == "declined"
    assert settled.output == "not run: the user declined the tool shell."
