"""Streams as providers send them, and short ways to decode them without any I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from perdure.models.anthropic_stream import MessagesDecoder
from perdure.models.decoding import Decoder
from perdure.models.failures import Peer
from perdure.models.gemini_stream import GeminiDecoder
from perdure.models.openai_responses_stream import ResponsesDecoder
from perdure.models.openai_stream import ChatDecoder
from perdure.models.sse import EventReader, ServerEvent
from perdure.models.types import Answer, Piece, ReasoningPiece, TextPiece

PEER = Peer("acme", "m", "127.0.0.1:1", "ACME_KEY", ("secret-key",))

DECODERS: dict[str, Callable[[Peer], Decoder]] = {
    "openai-chat": ChatDecoder,
    "openai-responses": ResponsesDecoder,
    "anthropic": MessagesDecoder,
    "gemini": GeminiDecoder,
}


def event(data: Any, name: str = "") -> ServerEvent:
    return ServerEvent(name, data if isinstance(data, str) else msgspec.json.encode(data).decode())


def decoded(decoder: Decoder, events: Iterable[Any]) -> tuple[list[Piece], Answer]:
    """Return the live pieces and the answer of a whole stream."""
    pieces: list[Piece] = []
    for each in events:
        pieces += decoder.feed(each if isinstance(each, ServerEvent) else event(each))
    return pieces, decoder.finish()


def said(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def thought(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, ReasoningPiece))


def read(data: bytes, size: int | None = None, limit: int = 1000) -> list[ServerEvent]:
    """Return the events in bytes that come in chunks of a size."""
    reader = EventReader(PEER, limit)
    events: list[ServerEvent] = []
    for begin in range(0, len(data), size or max(len(data), 1)):
        events += reader.feed(data[begin : begin + (size or len(data))])
    return events + list(reader.close())


def frames(*events: Any) -> bytes:
    """Return events as the bytes of a stream."""
    return "".join(f"data: {event(each).data}\n\n" for each in events).encode()


def delta(finish: Any = None, **members: Any) -> dict[str, Any]:
    """Return a Chat Completions chunk."""
    return {"choices": [{"index": 0, "delta": members, "finish_reason": finish}]}


def call_delta(
    index: Any, call_id: Any = None, name: Any = None, arguments: Any = None
) -> dict[str, Any]:
    """Return one entry of a chunk's tool_calls, without the members that are None."""
    function = {"name": name, "arguments": arguments}
    given = {"index": index, "id": call_id, "type": "function"}
    return {
        **{key: value for key, value in given.items() if value is not None},
        "function": {key: value for key, value in function.items() if value is not None},
    }


def message_start(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"type": "message", "usage": usage}}


def block_start(index: Any, kind: str, **members: Any) -> dict[str, Any]:
    block = {"type": kind, **members}
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: Any, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


def message_delta(stop: Any, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}


def added(index: Any, kind: str, **members: Any) -> dict[str, Any]:
    """Return the event that begins an output item of Responses."""
    item = {"type": kind, **members}
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: Any, kind: str, **members: Any) -> dict[str, Any]:
    """Return the event that ends an output item of Responses."""
    return {**added(index, kind, **members), "type": "response.output_item.done"}


def growth(index: Any, kind: str, fragment: Any, **place: Any) -> dict[str, Any]:
    """Return a fragment of an output item of Responses."""
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": fragment, **place}


def ended(status: str = "completed", **members: Any) -> dict[str, Any]:
    """Return the last event of Responses."""
    return {"type": f"response.{status}", "response": {"status": status, **members}}


def candidate(*parts: Any, finish: str = "", **members: Any) -> dict[str, Any]:
    """Return a chunk of Gemini's stream."""
    given = {"index": 0, **members, **({"finishReason": finish} if finish else {})}
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **given}]}


MESSAGE_STOP = {"type": "message_stop"}
CHAT_HELLO = frames(delta(content="Hel"), delta(content="lo"), delta("stop"), "[DONE]")
MESSAGES_HELLO = frames(
    message_start(input_tokens=3),
    block_start(0, "text", text=""),
    block_delta(0, "text_delta", text="Hello"),
    {"type": "content_block_stop", "index": 0},
    message_delta("end_turn", output_tokens=2),
    MESSAGE_STOP,
)
RESPONSE_CREATED = {"type": "response.created", "response": {"status": "in_progress"}}
RESPONSES_HELLO = frames(
    RESPONSE_CREATED,
    added(0, "message", id="msg_1", content=[]),
    growth(0, "output_text", "Hel"),
    growth(0, "output_text", "lo"),
    {"type": "response.output_text.done", "output_index": 0, "text": "Hello"},
    ended(usage={"input_tokens": 3, "output_tokens": 2}),
)
GEMINI_HELLO = frames(
    candidate({"text": "Hel"}), candidate({"text": "lo"}), candidate(finish="STOP")
)
HELLO = {
    "anthropic": MESSAGES_HELLO,
    "gemini": GEMINI_HELLO,
    "openai-chat": CHAT_HELLO,
    "openai-responses": RESPONSES_HELLO,
}
"""By protocol: a stream that says hello."""
