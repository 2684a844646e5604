"""Does one request begin with another? Answered by reading the requests, not by making them.

Providers cache the beginning of a request and bind reasoning to it, so within a Context Epoch each
request must be the last one plus something. This reads the requests of every protocol served here
and knows nothing of the code that lowers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Literal

import msgspec

from perdure.testing.wire import ReceivedRequest, is_array, is_object

_NOT_CACHED = """
    cache_control contents diagnostics generationConfig input instructions max_completion_tokens
    max_output_tokens max_tokens messages metadata safetySettings safety_identifier seed
    service_tier stop stop_sequences store stream stream_options system systemInstruction
    temperature tools top_k top_p user
"""
NOT_CACHED = frozenset(_NOT_CACHED.split())
"""Members of a request that are no parameter which a prompt cache depends on."""


_LISTS = frozenset({"role", "content", "parts", "tool_calls"})


class Block(msgspec.Struct, frozen=True):
    """One comparable piece of a request, without cache markers.

    `opens` is set where a message begins.
    """

    part: Literal["parameters", "tools", "system", "messages"]
    role: str
    content: Any
    opens: bool = False

    def canonical(self) -> bytes:
        """Return bytes that are the same for the same block, whatever the order of its keys."""
        header = f"{self.part} {self.role} {'+' if self.opens else ''}".encode()
        return header + msgspec.json.encode(self.content, order="sorted")


def blocks(request: Mapping[str, Any] | ReceivedRequest) -> list[Block]:
    """Flatten a request: parameters, tools, system, then each block of each message.

    Text alone and a list with one text block are the same content.
    """
    return [block for block, _ in marked_blocks(request)]


def marked_blocks(request: Mapping[str, Any] | ReceivedRequest) -> Iterator[tuple[Block, bool]]:
    """Yield each block of a request and whether it carries a cache marker."""
    body: Mapping[str, Any] = request.json if isinstance(request, ReceivedRequest) else request
    yield Block("parameters", "", _parameters(request, body)), False
    for tool in _tools(body):
        yield Block("tools", "", unmarked(tool)), _is_marked(tool)
    for content in _system(body):
        yield Block("system", "system", unmarked(content)), _is_marked(content)
    for message in body.get("messages") or body.get("contents") or input_items(body):
        role = message.get("role") or message["type"]
        for number, content in enumerate(_message_contents(message)):
            block = Block("messages", role, unmarked(content), opens=number == 0)
            yield block, _is_marked(content)


def _parameters(
    request: Mapping[str, Any] | ReceivedRequest, body: Mapping[str, Any]
) -> dict[str, Any]:
    parameters = {key: value for key, value in body.items() if key not in NOT_CACHED}
    if "contents" in body:
        # Gemini has its model in the path, and what it thinks with among the sampling.
        model = request.model if isinstance(request, ReceivedRequest) else ""
        generation: Any = body.get("generationConfig") or {}
        thinking = generation.get("thinkingConfig")
        parameters |= {"model": model, "thinkingConfig": thinking}
    return parameters


def _tools(body: Mapping[str, Any]) -> Iterator[Any]:
    for tool in body.get("tools") or ():
        yield from tool.get("functionDeclarations") or [tool]


def _system(body: Mapping[str, Any]) -> list[Any]:
    if found := body.get("systemInstruction"):
        return found["parts"]
    return _contents(body.get("system") or body.get("instructions"))


def input_items(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the items of a Responses request; text alone is one message of the user."""
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else given or []


def keeps_prefix(
    previous: Mapping[str, Any] | ReceivedRequest, current: Mapping[str, Any] | ReceivedRequest
) -> bool:
    """Tell whether `current` begins with the whole of `previous`."""
    return _first_difference(previous, current) is None


def assert_prefix_kept(requests: Iterable[Mapping[str, Any] | ReceivedRequest]) -> None:
    """Raise AssertionError, with both blocks, at the first request that is not the last plus more.

    Call it with the requests of one Context Epoch.
    """
    for number, (previous, current) in enumerate(pairwise(requests), 1):
        if difference := _first_difference(previous, current):
            place, was, now = difference
            raise AssertionError(
                f"request {number} does not begin with request {number - 1}: "
                f"block {place} was {_shown(was)} and is {_shown(now)}"
            )


def _first_difference(
    previous: Mapping[str, Any] | ReceivedRequest, current: Mapping[str, Any] | ReceivedRequest
) -> tuple[int, Block, Block | None] | None:
    now = blocks(current)
    for place, was in enumerate(blocks(previous)):
        if place >= len(now) or now[place] != was:
            return place, was, now[place] if place < len(now) else None
    return None


def _message_contents(message: Mapping[str, Any]) -> list[Any]:
    others = {k: v for k, v in message.items() if k not in _LISTS}
    contents = [
        *_contents(message.get("content")),
        *(message.get("parts") or ()),
        *(message.get("tool_calls") or ()),
    ]
    return [others, *contents] if others else contents


def _contents(content: Any) -> list[Any]:
    if is_array(content):
        return content
    return [] if content is None else [{"type": "text", "text": content}]


def _is_marked(content: Any) -> bool:
    return is_object(content) and bool(content.get("cache_control"))


def unmarked(content: Any) -> Any:
    """Return a block without its marker, nor those on the blocks of a tool result."""
    if not is_object(content):
        return content
    plain = {key: value for key, value in content.items() if key != "cache_control"}
    if plain.get("type") == "tool_result":
        plain["content"] = [unmarked(each) for each in _contents(plain.get("content"))]
    return plain


def _shown(block: Block | None) -> str:
    text = "missing" if block is None else block.canonical().decode()
    return text if len(text) <= 400 else f"{text[:400]}… ({len(text)} characters)"
