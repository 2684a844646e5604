"""Gemini's generateContent, without any state on the provider's side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from perdure.history.content import Image, Part, ToolCall
from perdure.history.events import RequestShape
from perdure.history.items import AssistantItem, Frame, ResultItem
from perdure.models.calls import IdRule, tool_name
from perdure.models.encoding import as_object, as_text, canonical, encode, is_object
from perdure.models.gemini_stream import SEALS, SIGNATURE, GeminiDecoder
from perdure.models.head import Conventions, keyed, opening, parameters
from perdure.models.lowering import HistoryLowering, wrapped
from perdure.models.page import Block
from perdure.models.pictures import LIMITS, base64
from perdure.models.transport import Post, Transport
from perdure.models.types import Endpoint, Lowering, Stream

FOREIGN = "skip_thought_signature_validator"
"""The signature that the API documents for a call which its model did not make."""

GENERATION = "generationConfig"
"""The member that holds the output limit and the settings of sampling and thinking."""

OWN_MEMBERS = frozenset(
    {
        "cachedContent",
        "cached_content",
        "contents",
        "generation_config",
        "systemInstruction",
        "system_instruction",
    }
)
"""Members that the lowering writes itself, and those by which a request would lean on state."""

_NOT_KEYED = frozenset(
    {
        "candidateCount",
        "frequencyPenalty",
        "labels",
        "logprobs",
        "maxOutputTokens",
        "presencePenalty",
        "responseLogprobs",
        "safetySettings",
        "seed",
        "serviceTier",
        "stopSequences",
        "temperature",
        "topK",
        "topP",
    }
)
"""Members by which the prompt cache is not keyed, of the body and of its `generationConfig`."""


_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")


class GeminiWire(Conventions, frozen=True, forbid_unknown_fields=True):
    """How models differ, given as the parameter `wire`.

    `signatures` tells whether the model refuses a call that comes back without the signature of
    its thinking, as all do since Gemini 3.
    """

    signatures: Literal["required", "optional"] = "required"


class GeminiDialect:
    """Gemini contents for one epoch and one model."""

    marker = b""
    native_closes = False
    pictures_in_results = False  # a content of function responses holds nothing else
    pictures = LIMITS["gemini"]
    ids = IdRule(re.compile(r"(?!)"), 64)

    def __init__(self, frame: Frame, shape: RequestShape) -> None:
        self._frame = frame
        self._wire = GeminiWire.of(shape.parameters)
        self._known = frozenset(tool.name for tool in frame.tools)
        tools = _tools(frame)
        self.head = self._head(shape, tools)
        cached = replace(shape, parameters=_cached(shape.parameters))
        self.keyed = keyed(cached, tools, frame.baseline)

    def words(self, text: str) -> Block:
        """Write a text part of a user content."""
        return _block("user", {"text": text})

    def picture(self, image: Image) -> Block:
        """Write an image part of a user content."""
        data = {"mimeType": image.media_type, "data": base64(image)}
        return _block("user", {"inlineData": data})

    def native(self, text: str) -> Block:
        """Write a System Message: the protocol has no role for it, so it is wrapped too."""
        return self.words(wrapped(self._frame.marker, text))

    def result(self, item: ResultItem, call: str) -> Block:
        """Write a function response; a content of those holds nothing else."""
        member = "output" if item.outcome == "completed" else "error"
        name = _name(item.name, self._known)
        response = {"id": call, "name": name, "response": {member: item.output}}
        return _block("user", {"functionResponse": response}, group="results")

    def answer(self, item: AssistantItem, calls: dict[str, str]) -> list[Block]:
        """Write a model content, its signatures only where they are at home."""
        return [_block("model", part) for part in self._written(item, calls)]

    def _written(self, item: AssistantItem, calls: dict[str, str]) -> Iterator[dict[str, Any]]:
        same_model = item.model == self._frame.model
        home = same_model and item.epoch == self._frame.epoch
        first = True
        for part in item.parts:
            seal = _seal(part)
            if isinstance(part, ToolCall):
                # A signature holds for its call wherever the call stands, so it outlives an epoch.
                seal = seal if same_model else {}
                if first and not seal and self._wire.signatures == "required":
                    seal = {SIGNATURE: FOREIGN}
                first = False
                yield {"functionCall": self._call(part, calls[part.id]), **seal}
            elif home and seal and (part.text or SIGNATURE in seal):
                yield {"text": part.text, **seal}
            elif part.text.strip():
                yield {"text": part.text}

    def _call(self, part: ToolCall, call: str) -> dict[str, Any]:
        # Other models may have written arguments that are no object, and those are refused.
        arguments = part.arguments.encode() if is_object(part.arguments) else b"{}"
        name = _name(part.name, self._known)
        return {"id": call, "name": name, "args": msgspec.Raw(arguments)}

    def _head(self, shape: RequestShape, tools: list[dict[str, Any]]) -> bytes:
        configured = as_object(shape.parameters.get(GENERATION))
        generation = {"maxOutputTokens": shape.max_output, **configured}
        members: dict[str, Any] = {
            **parameters(shape.parameters),
            GENERATION: msgspec.Raw(canonical(generation)),
        }
        if tools:
            members["tools"] = [{"functionDeclarations": msgspec.Raw(canonical(tools))}]
        if self._frame.baseline:
            members["systemInstruction"] = {"parts": [{"text": self._frame.baseline}]}
        return opening(members, "contents")


class Gemini:
    """Speak generateContent over a Transport."""

    version: int = 1

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def lowering(self, frame: Frame, shape: RequestShape) -> Lowering:
        """Begin the lowering of an epoch."""
        return HistoryLowering(GeminiDialect(frame, shape), frame, shape.form, images=shape.images)

    def stream(self, endpoint: Endpoint, model: str, body: bytes) -> Stream:
        """Post one Attempt and give its pieces, ending with exactly one Answer."""
        name = quote(model.removeprefix("models/"), safe="")
        url = f"{endpoint.base_url.rstrip('/')}/models/{name}:streamGenerateContent?alt=sse"
        headers = {"x-goog-api-key": endpoint.api_key} if endpoint.api_key else {}
        post = Post(endpoint=endpoint, model=model, url=url, headers=headers, body=body)
        return self._transport.stream(post, GeminiDecoder(post.peer))


def _block(role: str, part: dict[str, Any], group: str = "") -> Block:
    return Block(role, encode(part), member="parts", group=group)


def _tools(frame: Frame) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            # The older member `parameters` takes only a part of JSON Schema.
            "parametersJsonSchema": tool.parameters,
        }
        for tool in sorted(frame.tools, key=lambda tool: tool.name)
    ]


def _name(name: str, known: frozenset[str]) -> str:
    """Return a tool's name as the API takes it; the names of `known` tools stay."""
    if name in known or _NAME.fullmatch(name):
        return name
    fitting = tool_name(name, known)
    return fitting if _NAME.fullmatch(fitting) else f"_{fitting}"[:64]


def _seal(part: Part) -> dict[str, Any]:
    """Return what this protocol's own part held beside its text or call, if it came as one."""
    opaque = as_object(part.opaque)
    found = {name: opaque[name] for name in SEALS if name in opaque}
    return found if found.get("thought") is True or as_text(found.get(SIGNATURE)) else {}


def _cached(configured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters by which the prompt cache is keyed."""
    generation = as_object(configured.get(GENERATION))
    kept = {name: value for name, value in configured.items() if name not in _NOT_KEYED}
    return {**kept, GENERATION: {k: v for k, v in generation.items() if k not in _NOT_KEYED}}
