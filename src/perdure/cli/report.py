"""What `perdure run` shows while a prompt is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from perdure.cli.output import Output
from perdure.cli.records import json_line
from perdure.cli.terminal import Terminal
from perdure.history import events as ev
from perdure.history.content import ToolCall, words_of
from perdure.session.reading import AnyRecord
from perdure.tools.permissions import question, unanswered
from perdure.tools.printable import legible, shortened

_WIDTH = 160
"""Characters of a call or of a line of its result that are shown."""

_REASON = 400
"""Characters of a line that says why a call came to nothing."""

_HEAD = 3
"""Lines of a result that are shown, beside the last one."""


SUMMARY = "a summary of the older history"
"""What a compaction lets people wait for."""


def remark(event: ev.Event | ev.Live) -> str:
    """Return one line for what happened beside the answer; empty where it says nothing."""
    match event:
        case ev.EpochStarted() if event.epoch > 1:
            return f"new context epoch: {', '.join(event.reasons)}"
        case ev.SystemMessage():
            return f"told the model what changed: {', '.join(event.changed)}"
        case ev.Note():
            return event.text
        case ev.CompactionFinished():
            return "a summary took the place of the older history"
        case _:
            return ""


def stopped(event: ev.AssistantMessage) -> str:
    """Return one line for an answer that did not end by itself; empty where it did."""
    if event.stop == "length":
        return "the answer was cut off at its output limit; raise max_output of the model, or go on"
    if event.stopped:
        return f"the provider ended the answer for a reason that is not known here: {event.stopped}"
    return "the model declined to answer" if event.stop == "refusal" else ""


def not_compacted(event: ev.CompactionFailed) -> str:
    """Return one line for a compaction that came to nothing."""
    return f"the older history was not summarized: {event.failure.message}"


def again(event: ev.AttemptFailed) -> str:
    """Return when the next Attempt comes."""
    return f"attempt {event.attempt + 1} in {event.wait or 0:.1f} s"


def broken_off(event: ev.AttemptFailed) -> str:
    """Return one line for a failed Attempt that is followed by another one."""
    # It is tried again by itself, so nobody is told to.
    words = event.failure.message.removesuffix(" later").removesuffix("; try again")
    return f"{words}; {again(event)}"


class Reporter(Protocol):
    """Shows the records of one prompt, in order."""

    def show(self, record: AnyRecord) -> None:
        """Show one record; raise OutputGone when nobody reads any more."""
        ...


class JsonReporter:
    """Writes each record as a line of JSON on standard output."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def show(self, record: AnyRecord) -> None:
        """Write one record."""
        self._out.write_bytes(json_line(record))


class TextReporter:
    """Writes the model's words on standard output and all else on standard error.

    On a terminal the words appear as they come. In a pipe, where nothing can be taken back, an
    answer is written once it is whole and durable, so that words of a failed attempt never mix
    with those of the next.
    """

    def __init__(self, out: Output, terminal: Terminal) -> None:
        self._out = out
        self._terminal = terminal
        self._streamed = ""
        self._calls: dict[str, ToolCall] = {}
        self._latest = ""
        self._show: dict[type, Callable[..., None]] = {
            ev.StepStarted: self._step_started,
            ev.CompactionStarted: self._compacting,
            ev.CompactionFailed: self._not_compacted,
            ev.TextDelta: self._text,
            ev.ReasoningDelta: self._thinking,
            ev.AttemptFailed: self._attempt_failed,
            ev.AssistantMessage: self._answered,
            ev.ToolStarted: self._tool_started,
            ev.ToolProgress: self._tool_progress,
            ev.ToolSettled: self._tool_settled,
            ev.StepFinished: self._step_finished,
        }

    def show(self, record: AnyRecord) -> None:
        """Show one record, where it says something to a person."""
        self._show.get(type(record.data), self._remark)(record.data)

    def _step_started(self, event: ev.StepStarted) -> None:
        self._terminal.wait_for(event.model)

    def _remark(self, event: ev.Event | ev.Live) -> None:
        if words := remark(event):
            self._terminal.note(words)

    def _compacting(self, _: ev.CompactionStarted) -> None:
        self._terminal.wait_for(SUMMARY)

    def _not_compacted(self, event: ev.CompactionFailed) -> None:
        self._terminal.warn(not_compacted(event))

    def _text(self, event: ev.TextDelta) -> None:
        if self._out.is_terminal:
            self._terminal.words(event.text)
            self._streamed += event.text

    def _thinking(self, _: ev.ReasoningDelta) -> None:
        self._terminal.progress("thinking")

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        self._streamed = ""
        if event.wait is not None:
            self._terminal.warn(broken_off(event))
            self._terminal.wait_for(again(event))

    def _answered(self, event: ev.AssistantMessage) -> None:
        text = words_of(event.parts)
        if text.startswith(self._streamed):
            self._terminal.words(text.removeprefix(self._streamed))
        else:  # fragments were lost on the way: a slow terminal sees the whole answer again
            self._terminal.end_line()
            self._terminal.words(text)
        self._terminal.end_line()
        if words := stopped(event):
            self._terminal.warn(words)
        self._streamed = ""
        self._latest = ""
        self._calls = {part.id: part for part in event.parts if isinstance(part, ToolCall)}

    def _tool_started(self, event: ev.ToolStarted) -> None:
        self._call(event.call)
        self._terminal.wait_for(event.name)

    def _tool_progress(self, event: ev.ToolProgress) -> None:
        lines = event.text.splitlines()
        if lines:
            self._terminal.progress(legible(lines[-1]))

    def _tool_settled(self, event: ev.ToolSettled) -> None:
        # Calls run side by side: a result stands below its own call, or that is named again.
        if self._latest != event.call:
            self._call(event.call)
        failed = event.outcome != "completed"
        lines = _excerpt(event.output, _REASON if failed else _WIDTH)
        self._terminal.result(lines, failed=failed)
        call = self._calls.get(event.call)
        if call and event.output == unanswered(call.name).output:
            self._terminal.warn(
                f"nobody could be asked whether {call.name} may run; to allow it, give --yes, or a "
                "rule for it under [permissions] in the configuration"
            )

    def _call(self, call: str) -> None:
        self._latest = call
        if call in self._calls:
            about = question("", self._calls[call]).summary
            self._terminal.call(shortened(about, _WIDTH))

    def _step_finished(self, _: ev.StepFinished) -> None:
        self._terminal.wait_for("")


def _excerpt(output: str, width: int) -> list[str]:
    """Return the beginning and the end of a result, where exit codes stand."""
    lines = [shortened(legible(each), width) for each in output.strip().splitlines()]
    if len(lines) <= _HEAD + 2:
        return lines or ["no output"]
    return [*lines[:_HEAD], f"... {len(lines) - _HEAD - 1} lines ...", lines[-1]]


class Ending(msgspec.Struct, frozen=True):
    """How the work on a prompt ended, from the records seen of it.

    `outcome` is the settlement of the last step, empty before one; `failure` its error;
    `open_calls` says that the last answer asked for tools, so that it was not the last word.
    """

    promoted: bool = False
    outcome: str = ""
    failure: ev.Failure | None = None
    open_calls: bool = False

    def after(self, record: AnyRecord) -> Ending:
        """Return what is known after one more record."""
        match record.data:
            case ev.PromptPromoted():
                return msgspec.structs.replace(self, promoted=True)
            case ev.AssistantMessage(_, parts):
                calls = any(isinstance(part, ToolCall) for part in parts)
                return msgspec.structs.replace(self, open_calls=calls)
            case ev.StepFinished(_, outcome, failure):
                return msgspec.structs.replace(self, outcome=outcome, failure=failure)
            case ev.DrainInterrupted():
                return msgspec.structs.replace(self, outcome="interrupted", failure=None)
            case _:
                return self
