"""What was said, in the shapes of the GenAI conventions; only made where somebody asked for it.

Everything is bounded: of a long text the beginning is kept, of a long conversation its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from perdure.history.content import Part, Reasoning, StopReason, Text, ToolCall
from perdure.history.items import (
    AssistantItem,
    Item,
    ResultItem,
    SystemItem,
)
from perdure.models.types import Answer

LONGEST_TEXT = 16_000
"""Characters of one text."""

LONGEST = 64_000
"""Characters of all messages of one span."""

_FINISH: dict[StopReason, str] = {
    "end": "stop",
    "tool_calls": "tool_call",
    "length": "length",
    "refusal": "content_filter",
    "pause": "pause",
}


def finish_reason(stop: StopReason) -> str:
    """Return why the model stopped, in the words of the conventions."""
    return _FINISH.get(stop, stop)


def cut(text: str) -> str:
    """Return a text, or its beginning with a note of how much is left out."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]} [... {len(text) - LONGEST_TEXT} characters left out]"


def instructions(baseline: str) -> str:
    """Return a Baseline as `gen_ai.system_instructions`."""
    return _json([_text(baseline)])


def input_messages(items: Sequence[Item]) -> str:
    """Return the latest items that fit as `gen_ai.input.messages`, oldest first."""
    kept: list[str] = []
    left = LONGEST
    for item in reversed(items):
        message = _json(_message(item))
        left -= len(message)
        if left < 0 and kept:
            break
        kept.append(message)
    return f"[{','.join(reversed(kept))}]"


def output_messages(answer: Answer) -> str:
    """Return an answer as `gen_ai.output.messages`."""
    message = _assistant(answer.parts)
    return _json([{**message, "finish_reason": finish_reason(answer.stop)}])


def _message(item: Item) -> dict[str, Any]:
    match item:
        case AssistantItem():
            return _assistant(item.parts)
        case ResultItem():
            response = {"type": "tool_call_response", "id": item.call, "response": cut(item.output)}
            return {"role": "tool", "parts": [response]}
        case SystemItem():
            return {"role": "system", "parts": [_text(item.text)]}
        case _:
            return {"role": "user", "parts": [_text(item.text)]}


def _assistant(parts: Iterable[Part]) -> dict[str, Any]:
    return {"role": "assistant", "parts": [_part(part) for part in parts]}


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return _text(part.text)
        case Reasoning():
            return {"type": "reasoning", "content": cut(part.text)}
        case ToolCall():
            arguments = _arguments(part.arguments)
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": arguments}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": cut(text)}


def _arguments(text: str) -> Any:
    """Return arguments as JSON data, or as they came where they are broken or long."""
    if len(text) > LONGEST_TEXT:
        return cut(text)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
