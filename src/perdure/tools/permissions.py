"""Whether a tool call may run, the question that is asked, and the words of a refusal."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

import msgspec

from perdure.config.schema import Permission, Rule
from perdure.history.content import ToolCall
from perdure.tools.base import Subject
from perdure.tools.commands import could_begin
from perdure.tools.printable import printable, shortened, storable
from perdure.tools.settle import Settled

NOTHING = Subject(("",))
"""What a call is about whose tool does not say so."""

_STRICTEST_FIRST: Sequence[Permission] = ("deny", "ask", "allow")

_LONGEST_SUMMARY = 500

_ALONE = ("path", "url", "name")
"""Arguments that say all about a call of a built-in tool which has no other."""

_MARKS = {"pending": " ", "in_progress": "~", "completed": "x"}


class PermissionRequest(msgspec.Struct, frozen=True):
    """A question to whoever may allow a call.

    `summary` is one line that is safe to show on a terminal. `arguments` are the decoded arguments
    of the call, all of them, as they came from the model.
    """

    session: str
    call: str
    tool: str
    summary: str
    arguments: dict[str, Any]


class PermissionAnswer(msgspec.Struct, frozen=True):
    """The answer. A refusal with a reason goes to the model, which goes on; one without ends the
    drain.

    `always` allows from now on, in this project, the same call once more (`call`) or whatever this
    tool does (`tool`); a `deny` of the configuration stays.
    """

    allowed: bool
    reason: str = ""
    always: Literal["", "call", "tool"] = ""


Ask = Callable[[PermissionRequest], Awaitable[PermissionAnswer]]
"""Puts a question to somebody and waits for the answer."""


class Ruling(msgspec.Struct, frozen=True):
    """What holds for a call, and the rule that says so; None where it is the tool's own default."""

    permission: Permission
    rule: Rule | None = None


def decide(
    tool: str,
    rules: Sequence[Rule],
    subject: Subject = NOTHING,
    default: Permission = "allow",
) -> Ruling:
    """Return what holds for a call: for each of its parts the last rule that fits.

    The strictest of these counts. Of a subject that is not exact, a rule for a certain resource
    can forbid or ask, wherever its words occur, but allow only exactly the same once more.
    `default` is the tool's own, and counts where no rule fits.
    """
    latest_first = [rule for rule in reversed(rules) if fits(rule.tool, tool)]
    found = [
        next((it for it in latest_first if _fits(it, part, subject.exact)), None)
        for part in subject.parts or NOTHING.parts
    ]
    rulings = [Ruling(rule.permission if rule else default, rule) for rule in found]
    return min(rulings, key=lambda ruling: _STRICTEST_FIRST.index(ruling.permission))


def is_about_resources(tool: str, rules: Sequence[Rule]) -> bool:
    """Say whether any rule for the tool depends on what a call is about."""
    return any(rule.resource != "*" and fits(rule.tool, tool) for rule in rules)


def lasting(tool: str, answer: PermissionAnswer, subject: Subject) -> list[Rule]:
    """Return the rules that an answer leaves for the project."""
    if not answer.allowed or not answer.always:
        return []
    if answer.always == "tool":
        return [Rule(exactly(tool), "*", "allow")]
    return [Rule(exactly(tool), exactly(part), "allow") for part in subject.parts]


def exactly(text: str) -> str:
    """Return the pattern that fits this text and no other."""
    return re.sub(r"([*?\\])", r"\\\1", text)


def fits(pattern: str, text: str) -> bool:
    """Say whether a pattern fits a whole text; see Rule for its wildcards."""
    return pattern == "*" or _compiled(pattern).fullmatch(text) is not None


def _fits(rule: Rule, part: str, exact: bool) -> bool:
    if exact or rule.resource == "*":
        return fits(rule.resource, part)
    if rule.permission == "allow":
        return rule.resource == exactly(part)
    # It may stand behind whatever else is done, and have anything behind it.
    return any(fits(f"{rule.resource}*", end) for end in could_begin(part))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    pieces = re.findall(r"\\.|[*?]|[^*?\\]+|\\", pattern, re.DOTALL)
    return re.compile("".join(map(_translated, pieces)), re.DOTALL)


def _translated(piece: str) -> str:
    if piece in {"*", "?"}:
        return ".*" if piece == "*" else "."
    return re.escape(piece[1:] if len(piece) == 2 and piece[0] == "\\" else piece)


def question(session: str, call: ToolCall) -> PermissionRequest:
    """Return the question whether a call may run. Broken arguments count as none."""
    arguments = _decoded(call.arguments)
    return PermissionRequest(session, call.id, call.name, summary(call.name, arguments), arguments)


def summary(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return one line that says what a call would do, with nothing in it that does not print."""
    return f"{printable(tool)}: {shortened(printable(_gist(tool, arguments)), _LONGEST_SUMMARY)}"


def denied(tool: str, rule: Rule | None) -> Settled:
    """Return the settlement of a call that a rule forbids, or else the default of its tool."""
    reason = f"the tool {tool} is denied where no rule allows it"
    if rule is not None:
        reason = f"denied by the rule {rule} in {rule.file or 'the configuration'}"
    return Settled("failed", f"not run: {reason}. Go on without it.")


def unanswered(tool: str) -> Settled:
    """Return the settlement of a call that needs a permission which nobody can give."""
    return Settled(
        "failed",
        f"not run: the tool {tool} needs a permission, and nobody is there to give it. "
        "Go on without it.",
    )


def declined(tool: str, answer: PermissionAnswer) -> Settled:
    """Return the settlement of a call that somebody refused.

    Its outcome is `declined`, which ends the drain, unless a reason was given for the model.
    """
    reason = storable(answer.reason.strip())
    if reason:
        return Settled("failed", f"not run: the user declined the tool {tool} and said: {reason}")
    return Settled("declined", f"not run: the user declined the tool {tool}.")


def _gist(tool: str, arguments: Mapping[str, Any]) -> str:
    match tool, arguments:
        case "shell", {"command": str(command)}:
            return command
        case "write", {"path": str(path), "content": str(content)}:
            return f"{path} ({len(content.encode('utf-8', 'replace'))} bytes)"
        case "edit", {"path": str(path), "old": str(old), "new": str(new)}:
            return f"{path} ({shortened(old, 100)!r} becomes {shortened(new, 100)!r})"
        case "apply_patch", {"patch": str(patch)}:
            heads = [line[4:] for line in patch.splitlines() if line.startswith("*** ")]
            return "; ".join(line for line in heads if " File: " in line or "Move to" in line)
        case "task", {"description": str(description)}:
            return description
        case "todo", {"items": [*items]}:
            return ", ".join(map(_item, items)) or "nothing is left"
        case "read" | "list" | "fetch" | "skill", _ if len(arguments) == 1 and _only(arguments):
            return _only(arguments)
        case _:
            return msgspec.json.encode(arguments).decode() if arguments else "no arguments"


def _only(arguments: Mapping[str, Any]) -> str:
    """Return the path, address or name that is all of a call's arguments; empty for another."""
    return next((v for k, v in arguments.items() if k in _ALONE and isinstance(v, str)), "")


def _item(item: object) -> str:
    match item:
        case {"content": str(content), "status": str(status)}:
            return f"[{_MARKS.get(status, '?')}] {content}"
        case {"content": str(content)}:
            return f"[{_MARKS['pending']}] {content}"
        case _:
            return "?"


def _decoded(arguments: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(arguments.strip() or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
