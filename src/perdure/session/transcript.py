"""The durable history as a person reads it; what left the model's view is still here."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.history import events as ev
from perdure.history.content import ToolCall
from perdure.history.items import (
    AssistantItem,
    Item,
    NoteItem,
    ResultItem,
    SystemItem,
    UserItem,
)
from perdure.history.standing import standing

_NOTHING = ev.PromptAdmitted("", "")


def transcript(records: Sequence[ev.Record], *, system: bool = False) -> list[Item]:
    """Return every message in the order of the log; System Messages only when asked for.

    What was reverted is left out.
    """
    prompts: dict[str, ev.PromptAdmitted] = {}
    names: dict[str, str] = {}
    started: ev.StepStarted | None = None
    items: list[Item] = []
    for record in standing(records):
        seq = record.seq
        match record.data:
            case ev.PromptAdmitted(prompt):
                prompts[prompt] = record.data
            case ev.PromptPromoted(prompt):
                admitted = prompts.get(prompt, _NOTHING)
                items.append(UserItem(seq, prompt, admitted.text, admitted.images))
            case ev.SystemMessage(text) if system:
                items.append(SystemItem(seq, text))
            case ev.Note(text):
                items.append(NoteItem(seq, text))
            case ev.StepStarted():
                started = record.data
            case ev.AssistantMessage(step, parts) if started is not None:
                items.append(AssistantItem(seq, step, parts, started.epoch, started.model))
                names |= {part.id: part.name for part in parts if isinstance(part, ToolCall)}
            case ev.ToolSettled(_, call, outcome, output, images=images):
                items.append(ResultItem(seq, call, names.get(call, ""), output, outcome, images))
            case _:
                pass
    return items
