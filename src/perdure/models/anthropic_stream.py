"""The stream of Anthropic Messages."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from perdure.history.content import Part, Reasoning, StopReason, Text, ToolCall, Usage
from perdure.models.decoding import arguments_text, conclude, reasoning_piece, text_piece
from perdure.models.diagnosis import answer_id, anthropic_reason
from perdure.models.encoding import as_array, as_count, as_object, as_text, parse_object
from perdure.models.failures import Peer, Report, failure, report
from perdure.models.sse import ServerEvent
from perdure.models.types import Answer, Piece

THINKING = ("thinking", "redacted_thinking")
"""The blocks that are sealed, and go back exactly as they came."""

_STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "end",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "refusal": "refusal",
}

_FRAGMENTS: dict[str, tuple[str, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""The kind of block that a fragment belongs to, and the member that holds it."""

_GROWING = frozenset(kind for kind, _ in _FRAGMENTS.values())


class _Block:
    """One content block while it grows. `raw` is the block as it began."""

    __slots__ = ("fragments", "kind", "raw", "signatures")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.kind = as_text(raw.get("type"))
        self.fragments: list[str] = []
        self.signatures: list[str] = []

    def part(self) -> Part | None:
        """Return the block as a part; None for kinds that nobody asked for."""
        grown = "".join(self.fragments)
        match self.kind:
            case "text":
                text = as_text(self.raw.get("text")) + grown
                return Text(text) if text else None
            case "thinking" | "redacted_thinking":
                return self._sealed(grown)
            case "tool_use":
                arguments = grown or arguments_text(self.raw.get("input")) or "{}"
                call, name = as_text(self.raw.get("id")), as_text(self.raw.get("name"))
                return ToolCall(call, name, arguments)
            case _:
                return None

    def _sealed(self, grown: str) -> Reasoning:
        text = as_text(self.raw.get("thinking")) + grown
        raw = {name: value for name, value in self.raw.items() if value is not None}
        if self.kind == "thinking":
            raw["thinking"] = text
        if self.signatures:
            raw["signature"] = "".join(self.signatures)
        # Servers may show thinking without a signature; a malformed seal would be refused for ever.
        seal = raw.get("signature", "") if self.kind == "thinking" else raw.get("data")
        return Reasoning(text, raw if isinstance(seal, str) else None)


class MessagesDecoder:
    """Decode one Messages stream; `decoding.Decoder` is the contract."""

    def __init__(self, peer: Peer) -> None:
        self.progress = 0
        self._peer = peer
        self._blocks: dict[int, _Block] = {}
        self._stop = ""
        self._why = ""
        self._usage: dict[str, Any] = {}
        self._id = ""
        self._miss = ""
        self._begun = False
        self._over = False

    @property
    def is_whole(self) -> bool:
        return self._over

    @property
    def is_over(self) -> bool:
        return self._over

    def feed(self, event: ServerEvent) -> list[Piece]:
        """Take the next event and return the live pieces in it."""
        if self._over or not event.data.strip():
            return []
        data = parse_object(event.data)
        if data is None:
            raise self._peer.broken("an event is not a JSON object")
        return self._event(as_text(data.get("type")) or event.name, data)

    def feed_whole(self, body: dict[str, Any]) -> list[Piece]:
        """Take an answer that came in one piece: the same as its events at once."""
        if body.get("type") != "message":
            return self._event(as_text(body.get("type")), body)
        pieces = self._event("message_start", {"message": body})
        for index, block in enumerate(as_array(body.get("content"))):
            pieces += self._event("content_block_start", {"index": index, "content_block": block})
        pieces += self._event("message_delta", {"delta": body, "usage": body.get("usage")})
        return pieces + self._event("message_stop", {})

    def finish(self) -> Answer:
        """Return the answer; raise BrokenStream where it was cut, EmptyAnswer where it is empty."""
        if not self._over:
            raise self._peer.cut()
        parts = [part for block in self._blocks.values() if (part := block.part()) is not None]
        if self._stop == "model_context_window_exceeded" and not any(
            isinstance(part, Text | ToolCall) for part in parts
        ):
            words = "the model's context window was full before it could answer"
            raise failure(self._peer, Report(None, "request_too_large", words))
        answer = conclude(
            self._peer,
            parts,
            _STOPS.get(self._stop, "end"),
            self._counted(),
            self._why,
            unknown="" if self._stop in _STOPS else self._stop,
        )
        return replace(answer, cache_miss=self._peer.quote(self._miss), response=self._id)

    def _event(self, kind: str, data: dict[str, Any]) -> list[Piece]:
        match kind:
            case "error":
                raise failure(self._peer, report(None, data))
            case "message_start":
                return self._start(data)
            case "content_block_start":
                return self._block_start(data)
            case "content_block_delta":
                return self._delta(data)
            case "message_delta":
                return self._message_delta(data)
            case "message_stop":
                return self._end()
            case _:
                # Pings, block ends, and whatever a later API adds.
                return []

    def _start(self, data: dict[str, Any]) -> list[Piece]:
        if self._begun:
            raise self._peer.broken("it began a second message")
        self._begun = True
        self.progress += 1
        message = as_object(data.get("message"))
        self._usage = as_object(message.get("usage"))
        self._id = answer_id(message.get("id"))
        self._miss = anthropic_reason(message.get("diagnostics"))
        return []

    def _block_start(self, data: dict[str, Any]) -> list[Piece]:
        index = data.get("index")
        if not isinstance(index, int) or index in self._blocks or not self._begun:
            raise self._peer.broken("it began a content block out of order")
        block = self._blocks[index] = _Block(as_object(data.get("content_block")))
        self.progress += 1
        if block.kind == "text":
            return text_piece(as_text(block.raw.get("text")))
        return reasoning_piece(as_text(block.raw.get("thinking")))

    def _delta(self, data: dict[str, Any]) -> list[Piece]:
        index, delta = data.get("index"), as_object(data.get("delta"))
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None:
            raise self._peer.broken("it continued a content block that never began")
        kind, member = _FRAGMENTS.get(as_text(delta.get("type")), ("", ""))
        if kind == "" or block.kind not in _GROWING:
            return []
        if kind != block.kind:
            raise self._peer.broken("a fragment does not fit its content block")
        return self._grow(block, member, as_text(delta.get(member)))

    def _grow(self, block: _Block, member: str, fragment: str) -> list[Piece]:
        (block.signatures if member == "signature" else block.fragments).append(fragment)
        self.progress += bool(fragment)
        if member == "text":
            return text_piece(fragment)
        return reasoning_piece(fragment) if member == "thinking" else []

    def _message_delta(self, data: dict[str, Any]) -> list[Piece]:
        delta = as_object(data.get("delta"))
        stop = as_text(delta.get("stop_reason"))
        self._stop = stop or self._stop
        details = as_object(delta.get("stop_details"))
        self._why = as_text(details.get("explanation")) or self._why
        self._miss = anthropic_reason(delta.get("diagnostics")) or self._miss
        counted = as_object(data.get("usage"))
        self._usage = self._usage | {
            name: value for name, value in counted.items() if value is not None
        }
        self.progress += bool(stop)
        return []

    def _end(self) -> list[Piece]:
        if not self._begun:
            raise self._peer.broken("it ended before it began")
        self._over = True
        self.progress += 1
        return []

    def _counted(self) -> Usage:
        usage = self._usage
        read = as_count(usage.get("cache_read_input_tokens"))
        write = as_count(usage.get("cache_creation_input_tokens"))
        details = as_object(usage.get("output_tokens_details"))
        return Usage(
            input=as_count(usage.get("input_tokens")) + read + write,
            output=as_count(usage.get("output_tokens")),
            cache_read=read,
            cache_write=write,
            reasoning=as_count(details.get("thinking_tokens")),
        )
