"""Whether a tool call may run, the question that is asked, and the words of a refusal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec

from perdure.history.content import ToolCall
from perdure.tools.printable import printable, shortened, storable
from perdure.tools.settle import Settled

Permission = Literal["allow", "ask", "deny"]
"""What the configuration says about a tool."""

DEFAULTS: Mapping[str, Permission] = {"shell": "ask", "write": "ask", "edit": "ask"}
"""What holds where the configuration says nothing; every other tool is allowed."""

_LONGEST_SUMMARY = 500


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
    drain."""

    allowed: bool
    reason: str = ""


Ask = Callable[[PermissionRequest], Awaitable[PermissionAnswer]]
"""Puts a question to somebody and waits for the answer."""


def decide(tool: str, rules: Mapping[str, Permission]) -> Permission:
    """Return what holds for a tool: the rule of its name, else the default."""
    return rules.get(tool) or DEFAULTS.get(tool, "allow")


def question(session: str, call: ToolCall) -> PermissionRequest:
    """Return the question whether a call may run. Broken arguments count as none."""
    arguments = _decoded(call.arguments)
    return PermissionRequest(session, call.id, call.name, summary(call.name, arguments), arguments)


def summary(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return one line that says what a call would do, with nothing in it that does not print."""
    return f"{printable(tool)}: {shortened(printable(_gist(tool, arguments)), _LONGEST_SUMMARY)}"


def denied(tool: str) -> Settled:
    """Return the settlement of a call that the configuration forbids."""
    return Settled(
        "failed",
        f"not run: the configuration denies the tool {tool}. Go on without it.",
    )


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
        case _:
            return msgspec.json.encode(arguments).decode() if arguments else "no arguments"


def _decoded(arguments: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(arguments.strip() or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
