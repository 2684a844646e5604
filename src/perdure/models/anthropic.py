"""Anthropic Messages."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import msgspec

from perdure.history.content import Image, Reasoning, Text, ToolCall
from perdure.history.events import RequestShape
from perdure.history.items import AssistantItem, Frame, ResultItem
from perdure.models.anthropic_stream import THINKING, MessagesDecoder
from perdure.models.calls import IdRule, tool_name
from perdure.models.diagnosis import asks, question
from perdure.models.encoding import as_object, canonical, encode, is_object
from perdure.models.head import keyed, opening, parameters
from perdure.models.lowering import HistoryLowering
from perdure.models.page import Block
from perdure.models.pictures import LIMITS, base64
from perdure.models.transport import Post, Transport
from perdure.models.types import Endpoint, Lowering, Stream

API_VERSION = "2023-06-01"

_MARK = {"type": "ephemeral"}


class MessagesDialect:
    """Anthropic Messages for one epoch and one model."""

    marker = b',"cache_control":' + encode(_MARK)
    native_closes = True
    pictures_in_results = True
    pictures = LIMITS["anthropic"]
    ids = IdRule(re.compile(r"[^a-zA-Z0-9_-]"), 64)

    def __init__(self, frame: Frame, shape: RequestShape) -> None:
        self._frame = frame
        self._known = frozenset(tool.name for tool in frame.tools)
        tools = _tools(frame)
        self.head = self._head(shape, tools)
        self.keyed = keyed(shape, tools, frame.baseline)

    def words(self, text: str) -> Block:
        """Write a text block of the user turn."""
        return Block("user", encode({"type": "text", "text": text}))

    def picture(self, image: Image) -> Block:
        """Write an image block of the user turn."""
        return Block("user", encode(_picture(image)))

    def native(self, text: str) -> Block:
        """Write a text block of a system entry."""
        return Block("system", encode({"type": "text", "text": text}))

    def result(self, item: ResultItem, call: str) -> Block:
        """Write a tool_result block of the user turn."""
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call}
        failed = item.outcome != "completed"
        # An error without words is refused.
        words = item.output if item.output.strip() else "(no output)" if failed else ""
        if item.images:
            texts = [{"type": "text", "text": words}] if words else []
            block["content"] = [*texts, *map(_picture, item.images)]
        elif words:
            block["content"] = words
        if failed:
            block["is_error"] = True
        return Block("user", encode(block))

    def answer(self, item: AssistantItem, calls: dict[str, str]) -> list[Block]:
        """Write an assistant turn, its sealed thinking only where that is at home."""
        home = item.epoch == self._frame.epoch and item.model == self._frame.model
        blocks: list[Block] = []
        for part in item.parts:
            match part:
                case Reasoning(_, opaque) if home and as_object(opaque).get("type") in THINKING:
                    blocks.append(Block("assistant", encode(opaque), markable=False))
                case Text(text) | Reasoning(text):
                    if text.strip():
                        blocks.append(Block("assistant", encode({"type": "text", "text": text})))
                case ToolCall():
                    blocks.append(Block("assistant", self._call(part, calls[part.id])))
        while not blocks[-1].markable:
            # Thinking that an output limit cut short: a turn that ends in it is refused.
            blocks.pop()
        return blocks

    def _call(self, part: ToolCall, call: str) -> bytes:
        # The text stays as it came where it can, since a signature may cover it.
        arguments = part.arguments.encode() if is_object(part.arguments) else b"{}"
        return encode(
            {
                "type": "tool_use",
                "id": call,
                "name": tool_name(part.name, self._known),
                "input": msgspec.Raw(arguments),
            }
        )

    def _head(self, shape: RequestShape, tools: list[dict[str, Any]]) -> bytes:
        members: dict[str, Any] = {
            "model": shape.model,
            "stream": True,
            "max_tokens": shape.max_output,
            **parameters(shape.parameters),
        }
        if tools:
            marked = [*tools[:-1], {**tools[-1], "cache_control": _MARK}]
            members["tools"] = msgspec.Raw(canonical(marked))
        if self._frame.baseline:
            text = {"type": "text", "text": self._frame.baseline, "cache_control": _MARK}
            members["system"] = [text]
        return opening(members)


class Anthropic:
    """Speak Anthropic Messages over a Transport."""

    version: int = 1

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def lowering(self, frame: Frame, shape: RequestShape) -> Lowering:
        """Begin the lowering of an epoch."""
        ending = partial(question, frame) if asks(shape) else None
        return HistoryLowering(
            MessagesDialect(frame, shape), frame, shape.form, images=shape.images, ending=ending
        )

    def stream(self, endpoint: Endpoint, model: str, body: bytes) -> Stream:
        """Post one Attempt and give its pieces, ending with exactly one Answer."""
        url = endpoint.base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"
        headers = {"anthropic-version": API_VERSION}
        if endpoint.api_key:
            headers["x-api-key"] = endpoint.api_key
        post = Post(endpoint=endpoint, model=model, url=url, headers=headers, body=body)
        return self._transport.stream(post, MessagesDecoder(post.peer))


def _picture(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": base64(image)}
    return {"type": "image", "source": source}


def _tools(frame: Frame) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.parameters,
        }
        for tool in sorted(frame.tools, key=lambda tool: tool.name)
    ]
