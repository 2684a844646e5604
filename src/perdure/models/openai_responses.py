"""OpenAI Responses, without any state on the provider's side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from perdure.history.content import Image, Part, Reasoning, Text, ToolCall
from perdure.history.events import RequestShape
from perdure.history.items import AssistantItem, Frame, ResultItem
from perdure.models.calls import IdRule, tool_name
from perdure.models.encoding import as_object, canonical, encode, is_object
from perdure.models.head import Conventions, keyed, opening, parameters
from perdure.models.lowering import HistoryLowering
from perdure.models.openai_chat import bearer
from perdure.models.openai_responses_stream import ITEMS, ResponsesDecoder
from perdure.models.page import Block
from perdure.models.pictures import LIMITS, data_url
from perdure.models.transport import Post, Transport
from perdure.models.types import Endpoint, Lowering, Stream

SEALED = "reasoning.encrypted_content"
"""What to ask for so that reasoning can go back without the provider keeping it."""


STATELESS = frozenset(
    {"background", "conversation", "include", "instructions", "previous_response_id", "store"}
)
"""Members by which a request would lean on what the provider keeps, or change its beginning."""


class ResponsesWire(Conventions, frozen=True, forbid_unknown_fields=True):
    """How a server's Responses differ, given as the parameter `wire`.

    `system_role` is the role of the Baseline and of native System Messages; `encrypted_reasoning`
    tells whether the model takes the request for encrypted reasoning.
    """

    system_role: Literal["developer", "system"] = "developer"
    encrypted_reasoning: bool = True


class ResponsesDialect:
    """Responses for one epoch and one model."""

    marker = b""
    native_closes = False
    pictures_in_results = True
    pictures = LIMITS["openai-responses"]
    ids = IdRule(re.compile(r"(?!)"), 64)

    def __init__(self, frame: Frame, shape: RequestShape) -> None:
        self._frame = frame
        self._wire = ResponsesWire.of(shape.parameters)
        self._known = frozenset(tool.name for tool in frame.tools)
        tools = _tools(frame)
        baseline = self._message(frame.baseline) if frame.baseline else b""
        self.head = self._head(shape, tools) + baseline
        self.keyed = keyed(shape, tools, baseline.decode())

    def words(self, text: str) -> Block:
        """Write a text part of a user message."""
        return Block("user", encode({"type": "input_text", "text": text}))

    def picture(self, image: Image) -> Block:
        """Write an image part of a user message."""
        return Block("user", encode(_picture(image)))

    def native(self, text: str) -> Block:
        """Write a message in the developer role."""
        return Block(self._wire.system_role, self._message(text), whole=True)

    def result(self, item: ResultItem, call: str) -> Block:
        """Write the output of a function call."""
        output: Any = item.output
        if item.images:
            texts = [{"type": "input_text", "text": item.output}] if item.output.strip() else []
            output = [*texts, *map(_picture, item.images)]
        written = {"type": "function_call_output", "call_id": call, "output": output}
        return Block("tool", encode(written), whole=True)

    def answer(self, item: AssistantItem, calls: dict[str, str]) -> list[Block]:
        """Write the items of an answer as they came, or without what binds them where it is not."""
        same_model = item.model == self._frame.model
        at_home = same_model and item.epoch == self._frame.epoch
        parts = _without_end(item.parts) if at_home else item.parts
        if at_home and all(_is_sealed(part) for part in parts if isinstance(part, Reasoning)):
            written = self._exact(parts, calls)
        else:
            written = self._free(parts, calls, same_model)
        return [Block("assistant", encode(each), whole=True) for each in written]

    def _exact(self, parts: Sequence[Part], calls: dict[str, str]) -> Iterator[dict[str, Any]]:
        for part in parts:
            match part:
                case Reasoning(_, opaque):
                    yield opaque
                case Text(text, opaque) if _is_item(part):
                    yield {"content": [_output(text)], **opaque}
                case Text(text):
                    yield _said(text)
                case ToolCall(opaque=opaque):
                    call = self._call(part, calls[part.id])
                    yield {**opaque, **call} if _is_item(part) else call

    def _free(
        self, parts: Sequence[Part], calls: dict[str, str], same_model: bool
    ) -> Iterator[dict[str, Any]]:
        """Write an answer without ids: an item with one is refused without its reasoning."""
        for part in parts:
            match part:
                case ToolCall():
                    yield self._call(part, calls[part.id])
                case Text(text, opaque) if text.strip():
                    yield _said(text, as_object(opaque).get("phase") if same_model else None)
                case Reasoning(text) if text.strip():
                    yield _said(text)
                case _:
                    pass

    def _call(self, part: ToolCall, call: str) -> dict[str, Any]:
        # Templates of compatible servers read the arguments, and refuse what is no JSON for ever.
        arguments = part.arguments if is_object(part.arguments) else "{}"
        name = tool_name(part.name, self._known)
        return {"type": "function_call", "call_id": call, "name": name, "arguments": arguments}

    def _message(self, text: str) -> bytes:
        return encode({"role": self._wire.system_role, "content": text})

    def _head(self, shape: RequestShape, tools: list[dict[str, Any]]) -> bytes:
        members: dict[str, Any] = {
            "model": shape.model,
            "stream": True,
            "store": False,
            "max_output_tokens": shape.max_output,
            "prompt_cache_key": self._frame.session,
        }
        if self._wire.encrypted_reasoning:
            members["include"] = [SEALED]
        if tools:
            members["parallel_tool_calls"] = True
        members |= parameters(shape.parameters)
        if tools:
            members["tools"] = msgspec.Raw(canonical(tools))
        return opening(members, "input")


class OpenAIResponses:
    """Speak Responses over a Transport."""

    version: int = 1

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def lowering(self, frame: Frame, shape: RequestShape) -> Lowering:
        """Begin the lowering of an epoch."""
        return HistoryLowering(
            ResponsesDialect(frame, shape), frame, shape.form, images=shape.images
        )

    def stream(self, endpoint: Endpoint, model: str, body: bytes) -> Stream:
        """Post one Attempt and give its pieces, ending with exactly one Answer."""
        url = endpoint.base_url.rstrip("/") + "/responses"
        post = Post(endpoint=endpoint, model=model, url=url, headers=bearer(endpoint), body=body)
        return self._transport.stream(post, ResponsesDecoder(post.peer))


def _picture(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": data_url(image)}


def _tools(frame: Frame) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            # Strict schemas must require every property, which those of our tools do not.
            "strict": False,
        }
        for tool in sorted(frame.tools, key=lambda tool: tool.name)
    ]


def _output(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _said(text: str, phase: object = None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return {**message, "phase": phase} if phase else message


def _is_item(part: Part) -> bool:
    """Tell whether a part came as an item of this protocol, with an id of its own."""
    item = as_object(part.opaque)
    return item.get("type") in ITEMS and bool(item.get("id"))


def _is_sealed(part: Reasoning) -> bool:
    """Tell whether reasoning came as an item that the provider can read again by itself."""
    item = as_object(part.opaque)
    return _is_item(part) and bool(item.get("encrypted_content") or item.get("content"))


def _without_end(parts: Sequence[Part]) -> list[Part]:
    """Leave out blank words, then reasoning at the end: it is refused with nothing behind it."""
    kept = [part for part in parts if not isinstance(part, Text) or _says_something(part)]
    while isinstance(kept[-1], Reasoning):
        kept.pop()
    return kept


def _says_something(part: Text) -> bool:
    return _is_item(part) or bool(part.text.strip())
