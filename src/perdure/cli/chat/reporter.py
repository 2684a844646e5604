"""What the records of a session become on the screen: pages above, live rows below."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from perdure.cli.chat.folding import Fold, folded
from perdure.cli.chat.live import Live, Waiting
from perdure.cli.chat.markdown import Blocks
from perdure.cli.page import Block, Line, Markdown, Style, Words, line
from perdure.cli.report import SUMMARY, again, broken_off, not_compacted, remark, stopped
from perdure.history import events as ev
from perdure.history.content import Reasoning, ToolCall, words_of
from perdure.session.reading import AnyRecord
from perdure.tools.printable import legible, printable, shortened

_THOUGHT = 160
"""Characters of reasoning that stay on the screen."""

Say = Callable[[Iterable[Block]], None]


class ChatReporter:
    """Shows the records of a session, in order, whoever caused them.

    `settled` is, by the number on the screen, the seq of each call's settlement. `context` is how
    many tokens the last request and its answer took.
    """

    def __init__(self, say: Say, live: Live) -> None:
        self.live = live
        self.settled: dict[int, int] = {}
        self.context = 0
        self._say = say
        self._calls: dict[str, ToolCall] = {}
        self._shown: list[str] = []
        self._streamed: list[str] = []
        self._last = ""
        self._seq = 0
        self._take: dict[type, Callable[..., None]] = {
            ev.PromptAdmitted: self._admitted,
            ev.PromptDeliveryChanged: self._redelivered,
            ev.PromptWithdrawn: self._withdrawn,
            ev.PromptPromoted: self._promoted,
            ev.StepStarted: self._step_started,
            ev.SystemMessage: self._told,
            ev.CompactionStarted: self._compacting,
            ev.CompactionFinished: self._compacted,
            ev.CompactionFailed: self._not_compacted,
            ev.ReasoningDelta: self._thinking,
            ev.TextDelta: self._text,
            ev.AttemptFailed: self._attempt_failed,
            ev.AssistantMessage: self._answered,
            ev.ToolStarted: self._tool_started,
            ev.ToolProgress: self._tool_progress,
            ev.ToolSettled: self._tool_settled,
            ev.StepFinished: self._step_finished,
            ev.DrainInterrupted: self._interrupted,
            ev.SessionReverted: self._reverted,
        }

    def show(self, record: AnyRecord) -> None:
        """Show one record, where it says something to a person."""
        self._seq = record.seq or self._seq
        self._take.get(type(record.data), self._remark)(record.data)

    def note(self, text: str, style: Style = "dim") -> None:
        """Show one line about what happened."""
        self._put("note", line(Words(printable(text), style)))

    def put(self, blocks: Iterable[Block]) -> None:
        """Show a page."""
        self._put("page", *blocks)

    def _put(self, kind: str, *blocks: Block) -> None:
        """Show blocks, with an empty line before what is not of the same kind as the last."""
        apart = [line()] if kind != self._last or kind in {"text", "page"} else []
        self._last = kind
        self._say([*apart, *blocks])

    def _remark(self, event: ev.Event | ev.Live) -> None:
        if words := remark(event):
            self.note(words)

    def _told(self, event: ev.SystemMessage) -> None:
        self.note(f"{remark(event)}; /context shows it")

    def _admitted(self, event: ev.PromptAdmitted) -> None:
        self.live.waiting[event.prompt] = Waiting(event.text, event.delivery, len(event.images))

    def _redelivered(self, event: ev.PromptDeliveryChanged) -> None:
        if waiting := self.live.waiting.get(event.prompt):
            changed = msgspec.structs.replace(waiting, delivery=event.delivery)
            self.live.waiting[event.prompt] = changed

    def _withdrawn(self, event: ev.PromptWithdrawn) -> None:
        waiting = self.live.waiting.pop(event.prompt, None)
        about = shortened(" ".join(waiting.text.split()), _THOUGHT) if waiting else event.prompt
        self.note(f"withdrawn: {about}")

    def _promoted(self, event: ev.PromptPromoted) -> None:
        waiting = self.live.waiting.pop(event.prompt, None)
        if waiting is not None:
            self._put("page", *echo(waiting))

    def _step_started(self, event: ev.StepStarted) -> None:
        self._begin_answer()
        self.live.open = True
        self.live.wait_for(event.model)

    def _compacting(self, _: ev.CompactionStarted) -> None:
        self.live.open = True
        self.live.wait_for(SUMMARY)

    def _compacted(self, event: ev.CompactionFinished) -> None:
        self.live.rest()
        self._remark(event)

    def _not_compacted(self, event: ev.CompactionFailed) -> None:
        self.live.rest()
        self.note(not_compacted(event), "warn")

    def _thinking(self, event: ev.ReasoningDelta) -> None:
        self.live.think(event.text)
        self.live.wait_for("")

    def _text(self, event: ev.TextDelta) -> None:
        self._fold_thoughts()
        self._streamed.append(event.text)
        self.live.wait_for("")
        self._show(self.live.blocks.feed(event.text))

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        self._show(self.live.blocks.finish())
        self._begin_answer()
        if event.wait is not None:
            self.note(broken_off(event), "warn")
            self.live.wait_for(again(event))

    def _answered(self, event: ev.AssistantMessage) -> None:
        for part in event.parts:
            if isinstance(part, Reasoning) and not self._streamed and not self.live.thoughts:
                self.live.think(part.text)
        self._fold_thoughts()
        text = words_of(event.parts)
        streamed, shown = "".join(self._streamed), "".join(self._shown)
        if text.startswith(streamed):
            self._show(self.live.blocks.feed(text.removeprefix(streamed)))
        else:  # fragments were lost on the way to a slow terminal
            self.live.blocks = Blocks()
            if not text.startswith(shown):
                self.note("words were lost on the way to this terminal; the whole answer is:")
            self._show(self.live.blocks.feed(text.removeprefix(shown)))
        self._show(self.live.blocks.finish())
        if words := stopped(event):
            self.note(words, "warn")
        self._begin_answer()
        self.live.wait_for("")
        self._calls = {part.id: part for part in event.parts if isinstance(part, ToolCall)}
        self.context = event.usage.input + event.usage.output

    def _begin_answer(self) -> None:
        self._shown.clear()
        self._streamed.clear()
        self.live.thoughts = ""

    def _show(self, blocks: Iterable[str]) -> None:
        for text in blocks:
            self._shown.append(text)
            if text.strip():
                self._put("text", Markdown(text.strip("\r\n")))

    def _fold_thoughts(self) -> None:
        if thoughts := " ".join(self.live.thoughts.split()):
            self.live.thoughts = ""
            self.note(f"thought: {shortened(thoughts, _THOUGHT)}")

    def _tool_started(self, event: ev.ToolStarted) -> None:
        call = self._calls.get(event.call, ToolCall(event.call, event.name, "{}"))
        self.live.start(call)

    def _tool_progress(self, event: ev.ToolProgress) -> None:
        running, lines = self.live.running.get(event.call), event.text.splitlines()
        if running and lines:
            running.progress = legible(lines[-1])

    def _tool_settled(self, event: ev.ToolSettled) -> None:
        self.live.running.pop(event.call, None)
        call = self._calls.get(event.call, ToolCall(event.call, "call", "{}"))
        number = len(self.settled) + 1
        self.settled[number] = self._seq
        self._put("call", folded(Fold(number, call, event)))

    def _step_finished(self, event: ev.StepFinished) -> None:
        self.live.rest()
        match event.outcome:
            case "failed" if event.failure:
                self.note(event.failure.message, "bad")
                self.note("nothing is lost: your next prompt goes on from here")
            case "interrupted":
                self._interrupted()
            case "declined":
                self.note("a tool call was declined, so the model stopped there")
            case "crashed":
                self.note("the process that worked on this died; what it had begun is settled")
            case _:
                pass

    def _interrupted(self, _: ev.DrainInterrupted | None = None) -> None:
        self.live.rest()
        self.note("interrupted")

    def _reverted(self, _: ev.SessionReverted) -> None:
        self.note("gone back to an earlier message: the model no longer sees what came after it")


def echo(prompt: Waiting) -> list[Line]:
    """Return a prompt as it stands among the answers."""
    first, *others = prompt.text.strip("\n").split("\n")
    attached = [line(Words(f"  {prompt.attached}", "dim"))] if prompt.attached else []
    return [
        line(Words("> ", "good"), Words(first, "strong")),
        *(line("  ", Words(each, "strong")) for each in others),
        *attached,
    ]
