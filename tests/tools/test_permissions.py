"""Permissions: what is asked, how it is shown, and the words of a refusal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.config.schema import Permission, Rule
from perdure.history.content import ToolCall
from perdure.tools import builtin_tools
from perdure.tools.base import Subject
from perdure.tools.commands import command_subject
from perdure.tools.permissions import (
    PermissionAnswer,
    decide,
    declined,
    denied,
    exactly,
    fits,
    lasting,
    question,
    summary,
    unanswered,
)
from perdure.tools.printable import shortened


def rule(text: str) -> Rule:
    """Return the rule that a text such as `shell(git *): allow` means."""
    subject, _, permission = text.rpartition(": ")
    tool, _, resource = subject.rstrip(")").partition("(")
    return Rule(tool, resource or "*", permission)  # pyright: ignore[reportArgumentType]


def decided(*arguments: Any, **options: Any) -> str:
    return decide(*arguments, **options).permission


def judged(command: str, *rules: str) -> str:
    return decided("shell", [rule(each) for each in rules], command_subject(command), "ask")


def test_only_what_changes_something_is_asked_by_default() -> None:
    found = {tool.name: decided(tool.name, (), default=tool.default) for tool in builtin_tools()}
    asked = {name for name, said in found.items() if said == "ask"}
    assert asked == {"shell", "write", "edit", "apply_patch"}
    assert {name for name, said in found.items() if said == "allow"} == {
        "read",
        "list",
        "glob",
        "grep",
        "fetch",
        "task",
        "todo",
    }


def test_a_tool_of_the_program_that_embeds_is_allowed_by_default() -> None:
    assert decided("deploy", ()) == "allow"


def test_a_rule_counts_more_than_the_default() -> None:
    rules = [rule("shell: allow"), rule("read: deny"), rule("deploy: ask")]
    named: list[tuple[str, Permission]]
    named = [("shell", "ask"), ("read", "allow"), ("deploy", "allow"), ("edit", "ask")]
    assert [decided(name, rules, default=default) for name, default in named] == [
        "allow",
        "deny",
        "ask",
        "ask",
    ]


def test_the_last_rule_that_fits_counts() -> None:
    rules = [rule("write: deny"), rule("write(docs/*): allow"), rule("write(docs/old/*): ask")]
    judge = [decided("write", rules, Subject((path,))) for path in ("a", "docs/a", "docs/old/a")]
    assert judge == ["deny", "allow", "ask"]


def test_a_pattern_of_tool_names_holds_for_all_of_them() -> None:
    rules = [rule("mcp_*: ask"), rule("mcp_files_?ead: allow")]
    assert [decided(name, rules) for name in ("mcp_web_get", "mcp_files_read", "read")] == [
        "ask",
        "allow",
        "allow",
    ]


def test_the_strictest_part_of_a_call_counts() -> None:
    rules = [rule("edit: allow"), rule("edit(secrets/*): deny")]
    assert decided("edit", rules, Subject(("a.py", "secrets/key"))) == "deny"


@given(st.text(), st.text())
def test_a_text_fits_its_own_pattern_and_no_other_text_does(one: str, other: str) -> None:
    assert fits(exactly(one), one)
    assert fits(exactly(one), other) == (one == other)


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status && git log 2>/dev/null | git stripspace",
        "git status;\ngit diff 2>&1",
        "git commit -m 'a; b' ; git log \"c d\"",
        "git log --format='%h; %s' --author=\"a\"'b'",
    ],
)
def test_commands_that_are_all_allowed_are_allowed(command: str) -> None:
    assert judged(command, "shell(git *): allow") == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -r .",
        "git status & rm -r .",
        "git status\nrm -r .",
        "git status | tee x",
        "git log > /etc/passwd",
        "git log &> x",
        "git log &>> x",
        "git log ;> x",
        "git log;{ rm x;}",
        "git log;(rm x;)",
        "git log|(rm x;)",
        "git log \"'$(rm x)'\"",
        "git log \"'`rm x`'\"",
        "'git'tool x",
        "git'' '\n' ; rm x",
        "git log $(rm x)",
        "git log `rm x`",
        "git log <(rm x)",
        'git log "$(rm x)"',
        "git' \"b'; rm x; c\" 'd'",
        "git log \\; rm x",
        "git log <<E\n$(rm x)\nE",
        "git log 'never ends; rm x",
        "A=1 git log",
        "sudo git log",
        "(git log)",
        "if git log; then git log; fi",
        "",
    ],
)
def test_what_might_do_more_than_what_is_allowed_is_asked(command: str) -> None:
    assert judged(command, "shell(git *): allow") == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "ls; rm x",
        "ls && 'rm' x",
        "echo $(rm x)",
        "sudo rm x",
        "A=1 rm x",
        "{ rm x; }",
        "find . -exec rm {} +",
        "sh -c 'rm x'",
        "`rm x`",
        "ls;{ rm x;}",
        "'sudo' rm x",
        "/usr/bin/env rm x",
        "trap 'rm x' EXIT",
        "r''m x",
        "r\\m x",
        '"r"m x',
    ],
)
def test_a_forbidden_command_is_found_wherever_it_could_stand(command: str) -> None:
    assert judged(command, "shell: allow", "shell(rm *): deny") == "deny"


def test_a_command_that_is_not_understood_can_be_allowed_as_a_whole() -> None:
    command = "for f in *; do cat $f; done"
    assert judged(command, f"shell({exactly(command)}): allow") == "allow"
    assert judged(command + "; rm x", f"shell({exactly(command)}): allow") == "ask"


@given(st.text(alphabet="gr mx;&|$()`'\"\\\n<>{}#=", max_size=30))
def test_any_text_is_judged_as_a_command(command: str) -> None:
    assert judged(command, "shell(g *): allow", "shell(rm *): deny") in {"allow", "ask", "deny"}


@pytest.mark.parametrize(
    ("always", "rules"),
    [
        ("", []),
        ("call", [Rule("write", "a\\*", "allow"), Rule("write", "b", "allow")]),
        ("tool", [Rule("write", "*", "allow")]),
    ],
)
def test_an_answer_for_good_leaves_rules(always: Any, rules: list[Rule]) -> None:
    answer = PermissionAnswer(allowed=True, always=always)
    assert lasting("write", answer, Subject(("a*", "b"))) == rules


def test_a_refusal_leaves_no_rule() -> None:
    answer = PermissionAnswer(allowed=False, always="tool")
    assert lasting("write", answer, Subject(("a",))) == []


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
        ("read", '{"path": "a.py"}', "read: a.py"),
        ("read", '{"path": "a.py", "limit": 9}', 'read: {"path":"a.py","limit":9}'),
        ("read", '{"path": ["a.py"]}', 'read: {"path":["a.py"]}'),
        ("list", '{"paht": "a"}', 'list: {"paht":"a"}'),
        ("fetch", '{"url": "http://a/"}', "fetch: http://a/"),
        ("skill", '{"name": "pdf"}', "skill: pdf"),
        ("deploy", '{"path": "a.py"}', 'deploy: {"path":"a.py"}'),
        (
            "todo",
            '{"items": [{"content": "A", "status": "completed"}, {"content": "B"}, 3]}',
            "todo: [x] A, [ ] B, ?",
        ),
        ("todo", '{"items": []}', "todo: nothing is left"),
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


@given(text=st.text(max_size=200), longest=st.integers(4, 100))
def test_shortening_never_makes_a_text_longer(text: str, longest: int) -> None:
    short = shortened(text, longest)
    assert len(short) <= len(text)
    assert len(short) <= longest + len(" [... 999 characters ...] ")
    assert short == text or short.startswith(text[: longest - longest // 4])


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
    assert denied("shell", None).outcome == "failed"
    assert "the tool shell is denied where no rule allows it" in denied("shell", None).output
    assert unanswered("shell").outcome == "failed"
    assert "nobody is there to give it" in unanswered("shell").output


@pytest.mark.parametrize(
    ("rules", "command", "words"),
    [
        (["shell: deny"], "ls", "denied by the rule shell: deny in a.toml"),
        (["shell: ask", "shell(rm *): deny"], "ls; rm x", "the rule shell(rm *): deny in a.toml"),
        (["sh*(rm *): deny", "shell(rm a): allow"], "rm b", "the rule sh*(rm *): deny in a.toml"),
    ],
)
def test_a_denied_call_names_the_rule_and_where_it_stands(
    rules: list[str], command: str, words: str
) -> None:
    placed = [msgspec.structs.replace(rule(each), file="a.toml") for each in rules]
    found = decide("shell", placed, command_subject(command), "ask")
    assert found.permission == "deny"
    assert words in denied("shell", found.rule).output


def test_declining_with_a_reason_tells_the_model() -> None:
    settled = declined("shell", PermissionAnswer(allowed=False, reason="use make clean"))
    assert settled.outcome == "failed"
    assert settled.output == "not run: the user declined the tool shell and said: use make clean"


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_declining_without_a_reason_ends_the_drain(reason: str) -> None:
    settled = declined("shell", PermissionAnswer(allowed=False, reason=reason))
    assert settled.outcome == "declined"
    assert settled.output == "not run: the user declined the tool shell."
