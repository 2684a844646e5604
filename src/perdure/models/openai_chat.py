"""OpenAI Chat Completions, as OpenAI and many compatible servers speak it."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from perdure.history.content import Image, Reasoning, Text, ToolCall
from perdure.history.events import RequestShape
from perdure.history.items import AssistantItem, Frame, ResultItem
from perdure.models.calls import IdRule, tool_name
from perdure.models.encoding import as_object, canonical, encode, is_object
from perdure.models.head import Conventions, keyed, opening, parameters
from perdure.models.lowering import HistoryLowering
from perdure.models.openai_reasoning import returned
from perdure.models.openai_stream import EXTRA, ChatDecoder
from perdure.models.page import Block
from perdure.models.pictures import LIMITS, data_url
from perdure.models.transport import Post, Transport
from perdure.models.types import Endpoint, Lowering, Stream


class ChatWire(Conventions, frozen=True, forbid_unknown_fields=True):
    """How a server's Chat Completions differ, given as the parameter `wire`.

    `output_limit` is the member for the output limit, `system_role` the role of the Baseline and of
    native System Messages; `cache_key` tells whether the server takes `prompt_cache_key`.
    """

    output_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    cache_key: bool = False


class ChatDialect:
    """Chat Completions for one epoch and one model."""

    marker = b""
    native_closes = False
    pictures_in_results = False  # tool messages hold only text
    pictures = LIMITS["openai-chat"]
    # OpenAI takes any characters but refuses more than forty of them.
    ids = IdRule(re.compile(r"(?!)"), 40)

    def __init__(self, frame: Frame, shape: RequestShape) -> None:
        self._frame = frame
        self._wire = ChatWire.of(shape.parameters)
        self._known = frozenset(tool.name for tool in frame.tools)
        tools = _tools(frame)
        self.head = self._head(shape, tools)
        self.keyed = keyed(shape, tools, frame.baseline)

    def words(self, text: str) -> Block:
        """Write a text part; adjacent ones share a user message, for templates that alternate."""
        return Block("user", encode({"type": "text", "text": text}))

    def picture(self, image: Image) -> Block:
        """Write an image part of a user message."""
        return Block("user", encode({"type": "image_url", "image_url": {"url": data_url(image)}}))

    def native(self, text: str) -> Block:
        """Write a message in the system or developer role."""
        role = self._wire.system_role
        return Block(role, encode({"role": role, "content": text}), whole=True)

    def result(self, item: ResultItem, call: str) -> Block:
        """Write a tool message."""
        message = {"role": "tool", "tool_call_id": call, "content": item.output}
        return Block("tool", encode(message), whole=True)

    def answer(self, item: AssistantItem, calls: dict[str, str]) -> list[Block]:
        """Write an assistant message, with its reasoning only where that is at home."""
        home = item.epoch == self._frame.epoch and item.model == self._frame.model
        texts: list[str] = []
        reasoning: dict[str, Any] = {}
        tools: list[dict[str, Any]] = []
        for part in item.parts:
            match part:
                case Text(text):
                    texts.append(text)
                case Reasoning() if home and (members := returned(part)):
                    reasoning |= members
                case Reasoning(text):
                    texts.append(text)
                case ToolCall():
                    tools.append(self._call(part, calls[part.id], item.model))
        content = "\n\n".join(text for text in texts if text.strip())
        message: dict[str, Any] = {"role": "assistant", "content": content or None, **reasoning}
        if tools:
            message["tool_calls"] = tools
        return [Block("assistant", encode(message), whole=True)]

    def _call(self, part: ToolCall, call: str, model: str) -> dict[str, Any]:
        # Most servers refuse a history that holds broken JSON, and would then refuse for ever.
        arguments = part.arguments if is_object(part.arguments) else "{}"
        function = {"name": tool_name(part.name, self._known), "arguments": arguments}
        # A Gemini model refuses a call of its own without its signature, in every epoch.
        extra = as_object(as_object(part.opaque).get(EXTRA)) if model == self._frame.model else {}
        seal = {EXTRA: extra} if extra else {}
        return {"id": call, "type": "function", "function": function, **seal}

    def _head(self, shape: RequestShape, tools: list[dict[str, Any]]) -> bytes:
        members: dict[str, Any] = {
            "model": shape.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            self._wire.output_limit: shape.max_output,
        }
        if self._wire.cache_key:
            members["prompt_cache_key"] = self._frame.session
        members |= parameters(shape.parameters)
        if tools:
            members["tools"] = msgspec.Raw(canonical(tools))
        head = opening(members)
        if self._frame.baseline:
            head += encode({"role": self._baseline_role, "content": self._frame.baseline})
        return head

    @property
    def _baseline_role(self) -> str:
        """OpenAI says not to use both roles in one request; version 1 did, in epochs that go on."""
        return self._wire.system_role if self._frame.lowering > 1 else "system"


class OpenAIChat:
    """Speak Chat Completions over a Transport."""

    version: int = 2

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def lowering(self, frame: Frame, shape: RequestShape) -> Lowering:
        """Begin the lowering of an epoch."""
        return HistoryLowering(ChatDialect(frame, shape), frame, shape.form, images=shape.images)

    def stream(self, endpoint: Endpoint, model: str, body: bytes) -> Stream:
        """Post one Attempt and give its pieces, ending with exactly one Answer."""
        url = endpoint.base_url.rstrip("/") + "/chat/completions"
        post = Post(endpoint=endpoint, model=model, url=url, headers=bearer(endpoint), body=body)
        return self._transport.stream(post, ChatDecoder(post.peer))


def bearer(endpoint: Endpoint) -> dict[str, str]:
    """Return the header that carries the key, as all of OpenAI's protocols want it."""
    return {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}


def _tools(frame: Frame) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in sorted(frame.tools, key=lambda tool: tool.name)
    ]
