"""Tells what happens in the session, event by event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from perdure.demo.findings import name_of
from perdure.demo.screen import Screen
from perdure.history import events as ev
from perdure.history.content import Part, Text, ToolCall

_EXCERPT = 3
"""Lines of a tool's result that are shown."""


class Narrator:
    """Shows the durable events of one session, in the order in which they were written."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._step = 0

    def show(self, record: ev.Record) -> float:
        """Show an event, where it says something to a visitor.

        Return how long it takes to read: 0 for nothing, 1 for a short line.
        """
        match record.data:
            case ev.PromptAdmitted(text=text):
                self._screen.gap()
                self._screen.line("you", text, "bold cyan")
                return 1
            case ev.EpochStarted() as epoch:
                self._screen.line("told", _opening(epoch), "magenta")
                return 2
            case ev.SystemMessage(text=text):
                title = f"System Message, told with step {self._step + 1}"
                self._screen.panel(title, text, "magenta")
                return 3
            case ev.StepStarted(step=step):
                self._step = step
                return 0
            case ev.AssistantMessage(parts=parts):
                self._answer(parts)
                return 1
            case ev.ToolSettled() as settled:
                return self._settled(settled)
            case _:
                return 0

    def _answer(self, parts: Iterable[Part]) -> None:
        label = f"step {self._step}"
        for part in parts:
            match part:
                case Text(text):
                    self._screen.line(label, text, "green")
                case ToolCall():
                    self._call(label, part)
                case _:
                    continue
            label = ""

    def _call(self, label: str, call: ToolCall) -> None:
        arguments = msgspec.json.decode(call.arguments, type=dict[str, str | int])
        self._screen.line(label, f"{call.name} {next(iter(arguments.values()))}", "bold")
        for each in _changed_lines(arguments):
            self._screen.line("", each, "dim")

    def _settled(self, settled: ev.ToolSettled) -> float:
        if settled.outcome == "unknown":
            self._screen.line("settled", settled.output, "bold red")
            return 3
        for each in settled.output.strip().splitlines()[:_EXCERPT]:
            self._screen.line("", each.expandtabs(4), "dim")
        return 0.5


def _opening(epoch: ev.EpochStarted) -> str:
    facts = ", ".join(name_of(key) for key in epoch.snapshot)
    return (
        f"the Baseline, {len(epoch.baseline):,} characters: {facts}; and {len(epoch.tools)} "
        "tools. Not a byte of it will change."
    )


def _changed_lines(arguments: dict[str, str | int]) -> Iterator[str]:
    match arguments:
        case {"old": str(old), "new": str(new)}:
            before, after = old.splitlines(), new.splitlines()
            yield from (f"- {line}" for line in before if line not in after)
            yield from (f"+ {line}" for line in after if line and line not in before)
        case _:
            return
