"""The messages of a session, to read and as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.cli.page import Block, Markdown, Words, line, paragraphs
from perdure.history.content import Image, Part, Reasoning, Text, ToolCall
from perdure.history.items import (
    AssistantItem,
    Item,
    NoteItem,
    ResultItem,
    SummaryItem,
    SystemItem,
    UserItem,
    images_in,
)
from perdure.tools.permissions import question

_ROLES: dict[type[Item], str] = {
    UserItem: "user",
    SystemItem: "system",
    NoteItem: "note",
    SummaryItem: "summary",
    AssistantItem: "assistant",
    ResultItem: "tool",
}


def item_data(item: Item) -> dict[str, Any]:
    """Return a message as JSON data: its `role`, and the fields of its kind."""
    fields: dict[str, Any] = msgspec.to_builtins(item)
    return {"seq": item.seq, "role": _ROLES[type(item)]} | fields


def transcript_blocks(items: Iterable[Item]) -> list[Block]:
    """Return messages as a page, in order, each with its seq beside who speaks."""
    return [block for item in items for block in _item(item)]


def _item(item: Item) -> list[Block]:
    match item:
        case UserItem():
            words = paragraphs(item.text, indent=2)
            return [*_speaker("you", item), *words, *_images(images_in(item), 2)]
        case SystemItem():
            return [*_speaker("system", item), *paragraphs(item.text, "dim", indent=2)]
        case NoteItem():
            return [*_speaker("note", item), *paragraphs(item.text, "dim", indent=2)]
        case SummaryItem():
            return [*_speaker("summary", item), Markdown(item.text, indent=2)]
        case AssistantItem():
            parts = [block for part in item.parts for block in _part(part)]
            return [*_speaker(item.model, item), *parts]
        case ResultItem():
            style = "dim" if item.outcome == "completed" else "bad"
            label = f"{item.name}: {item.outcome}"
            head = line(Words(label, style), _seq(item), indent=4)
            # Most tools name their images in their output.
            unnamed = [each for each in images_in(item) if each.described not in item.output]
            return [head, *paragraphs(item.output, "dim", indent=6), *_images(unnamed, 6)]


def _images(images: Iterable[Image], indent: int) -> list[Block]:
    return [line(Words(each.described, "dim"), indent=indent) for each in images]


def _speaker(name: str, item: Item) -> list[Block]:
    return [line(), line(Words(name, "strong"), _seq(item))]


def _seq(item: Item) -> Words:
    return Words(f"  [{item.seq}]", "dim")


def _part(part: Part) -> list[Block]:
    match part:
        case Text(text):
            return [Markdown(text, indent=2)]
        case Reasoning(text):
            return paragraphs(text, "dim", indent=2)
        case ToolCall():
            return [line(f"* {question('', part).summary}", indent=2)]
