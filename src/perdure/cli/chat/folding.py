"""A tool call on one line: what it was about, and what came of it."""

from __future__ import annotations

import re

import msgspec

from perdure.cli.page import Line, Words, line
from perdure.history.content import ToolCall
from perdure.history.events import ToolSettled
from perdure.tools.permissions import question
from perdure.tools.printable import legible, printable, shortened

_SUBJECT = 80
_RESULT = 80
_REASON = 400
_TELLING = ("command", "path", "pattern", "url", "name", "description")
"""Arguments that alone say what a call is about, the most telling first."""

_EXIT = re.compile(r"(?:exit code (\d+)|Timed out after .* seconds)", re.MULTILINE)
_ENDINGS = {
    "declined": "declined",
    "interrupted": "interrupted",
    "unknown": "outcome unknown; it may have run",
}


class Fold(msgspec.Struct, frozen=True):
    """A settled call on its way to the screen; `number` is what `/expand` takes."""

    number: int
    call: ToolCall
    settled: ToolSettled


def subject(call: ToolCall) -> str:
    """Return, on one line, what a call is about; empty where it has no arguments."""
    request = question("", call)
    for name in _TELLING:
        value = request.arguments.get(name)
        if isinstance(value, str) and value:
            return shortened(printable(" ".join(value.split())), _SUBJECT)
    about = request.summary.partition(": ")[2] if request.arguments else ""
    return shortened(about, _SUBJECT)


def named(call: ToolCall) -> str:
    """Return the tool's name and what the call is about."""
    return f"{printable(call.name)} {subject(call)}".rstrip()


def result(settled: ToolSettled, tool: str) -> tuple[bool, str]:
    """Return whether a call went well, and in a few words what it gave."""
    if words := _ENDINGS.get(settled.outcome):
        return False, words
    if tool == "shell" and settled.outcome == "completed":
        return _exit(settled.output)
    well = settled.outcome == "completed"
    return well, _few_words(settled.output, _RESULT if well else _REASON)


def folded(fold: Fold) -> Line:
    """Return the one line of a settled call."""
    well, words = result(fold.settled, fold.call.name)
    mark = Words("✓ ", "good") if well else Words("✗ ", "bad")
    about = subject(fold.call)
    return line(
        mark,
        Words(printable(fold.call.name), "strong"),
        f" {about}" if about else "",
        Words(f" · {words}", "dim" if well else "bad"),
        Words(f"  [{fold.number}]", "dim"),
    )


def _exit(output: str) -> tuple[bool, str]:
    """Return how a command ended, which stands in the last lines of its output."""
    endings = [found for each in output.splitlines()[-3:] if (found := _EXIT.match(each))]
    if not endings:
        return True, _few_words(output)
    if endings[-1][1] != "0":
        return False, shortened(printable(endings[-1][0]), _RESULT)
    return True, _few_words(output.rpartition("exit code 0")[0])


def _few_words(output: str, longest: int = _RESULT) -> str:
    lines = output.strip().splitlines()
    if not lines:
        return "no output"
    if len(lines) > 1:
        return f"{len(lines)} lines"
    return shortened(legible(lines[0].strip()), longest)
