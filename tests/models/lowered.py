"""Short ways to lower a few items and to read what came out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.history.content import Form, Part, Reasoning, Text, ToolCall, ToolDefinition
from perdure.history.events import RequestShape
from perdure.history.items import AssistantItem, Frame, Item, ResultItem, SystemItem, UserItem
from perdure.models.types import Lowering, Request
from tests.models.histories import PROTOCOLS, unmarked
from tests.models.sdk_types import check_request

CACHED = {"type": "ephemeral"}
READ = ToolDefinition("read", "Read a file.", {"type": "object"})


def frame(*tools: ToolDefinition, baseline: str = "", epoch: int = 1, session: str = "s1") -> Frame:
    return Frame(session, epoch, "here/m", "k7q", baseline, tools)


def shape(
    protocol: str, form: Form = "wrapped", parameters: dict[str, Any] | None = None
) -> RequestShape:
    return RequestShape(protocol, "m", form, 100, parameters or {})


def lowering(
    protocol: str,
    form: Form = "wrapped",
    given: Frame | None = None,
    parameters: dict[str, Any] | None = None,
) -> Lowering:
    return PROTOCOLS[protocol].lowering(given or frame(), shape(protocol, form, parameters))


def body(request: Request) -> dict[str, Any]:
    return msgspec.json.decode(request.body)


def whole(request: Request) -> tuple[object, ...]:
    """Return all that a request is, its bytes too: two that were written apart are never equal."""
    return (
        request.body,
        request.blocks,
        request.digest,
        request.prefix,
        request.cause,
        request.forms,
    )


def messages(
    protocol: str, items: Sequence[Item], form: Form = "wrapped", given: Frame | None = None
) -> list[Any]:
    """Return the messages of a request, without cache markers."""
    found = body(lowering(protocol, form, given).request(items))
    check_request(protocol, found)
    return [_without_markers(message) for message in found["messages"]]


def _without_markers(message: dict[str, Any]) -> dict[str, Any]:
    content: Any = message["content"]
    if content is None or isinstance(content, str):
        return message
    return {**message, "content": [unmarked(block) for block in content]}


def prompt(text: str) -> UserItem:
    return UserItem(1, "p", text)


def told(text: str, form: Form | None = None) -> SystemItem:
    return SystemItem(2, text, form)


def answer(
    *parts: Part | str, seq: int = 3, step: int = 1, epoch: int = 1, model: str = "here/m"
) -> AssistantItem:
    made = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    return AssistantItem(seq, step, made, epoch, model)


def call(call_id: str, arguments: str = "{}", name: str = "read") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def result(call_id: str, output: str = "done") -> ResultItem:
    return ResultItem(4, call_id, "read", output, "completed")


def thinking(text: str = "hmm") -> Reasoning:
    return Reasoning(text, {"type": "thinking", "thinking": text, "signature": "sig"})


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def element(words: str) -> dict[str, str]:
    return text(f"<system-message-k7q>\n{words}\n</system-message-k7q>")


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text(c) if isinstance(c, str) else c for c in content]}
