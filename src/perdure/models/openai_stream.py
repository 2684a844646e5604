"""The stream of OpenAI Chat Completions, in the dialects that compatible servers speak."""

from __future__ import annotations

from typing import Any

from perdure.history.content import Part, StopReason, Text, ToolCall, Usage
from perdure.models.decoding import arguments_text, conclude, reasoning_piece, text_piece
from perdure.models.encoding import as_array, as_count, as_object, as_text, parse_object
from perdure.models.failures import Peer, failure, report
from perdure.models.openai_reasoning import DETAILS, Thoughts
from perdure.models.sse import ServerEvent
from perdure.models.types import Answer, Piece

EXTRA = "extra_content"
"""The member of a call in which Google's own endpoint sends its signature and wants it back."""

_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "end",
    "function_call": "end",
    "end_turn": "end",
    "eos": "end",
    "eos_token": "end",
    "stop_sequence": "end",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
    "sensitive": "refusal",
}
"""How OpenAI and compatible servers say why the model stopped."""

_FAILED = frozenset({"error", "network_error", "abort", "insufficient_system_resource"})
"""How compatible servers say that they gave up in the middle of an answer."""


class _Call:
    """One tool call while it grows."""

    __slots__ = ("arguments", "extra", "id", "index", "name")

    def __init__(self, index: object) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] = {}

    def whole(self) -> ToolCall:
        opaque = {EXTRA: self.extra} if self.extra else None
        return ToolCall(self.id, self.name, "".join(self.arguments), opaque)


class ChatDecoder:
    """Decode one Chat Completions stream; `decoding.Decoder` is the contract."""

    def __init__(self, peer: Peer) -> None:
        self.progress = 0
        self._peer = peer
        self._texts: list[str] = []
        self._refusal: list[str] = []
        self._thoughts = Thoughts()
        self._calls: list[_Call] = []
        self._stop = ""
        self._usage = Usage()
        self._done = False

    @property
    def is_whole(self) -> bool:
        """A finish reason is enough: some servers omit the closing [DONE]."""
        return self._done or bool(self._stop)

    @property
    def is_over(self) -> bool:
        return self._done

    def feed(self, event: ServerEvent) -> list[Piece]:
        """Take the next event and return the live pieces in it."""
        data = event.data.strip()
        if self._done or not data:
            return []
        if data == "[DONE]":
            self._done = True
            self.progress += 1
            return []
        chunk = parse_object(data)
        if chunk is None:
            raise self._peer.broken("an event is not a JSON object")
        return self._chunk(chunk, event.name == "error")

    def feed_whole(self, body: dict[str, Any]) -> list[Piece]:
        """Take an answer that came in one piece: a chunk with a message for its delta."""
        choices = [
            {**as_object(choice), "delta": as_object(choice).get("message")}
            for choice in as_array(body.get("choices"))
        ]
        pieces = self._chunk({**body, "choices": choices}, failed=False)
        self._done = bool(choices)
        return pieces

    def finish(self) -> Answer:
        """Return the answer; raise BrokenStream where it was cut, EmptyAnswer where it is empty."""
        if not self.is_whole:
            raise self._peer.cut()
        if self._stop in _FAILED:
            raise self._peer.broken(f"the server gave up the answer ({self._stop})")
        parts: list[Part] = [*self._thoughts.parts()]
        if self._texts or self._refusal:
            parts.append(Text("".join(self._texts + self._refusal)))
        parts += [call.whole() for call in self._calls]
        stop = _STOPS.get(self._stop, "end")
        return conclude(
            self._peer,
            parts,
            "refusal" if self._refusal else stop,
            self._usage,
            unknown="" if self._stop in _STOPS else self._stop,
            own_words=bool(self._refusal) and stop != "refusal",
        )

    def _chunk(self, chunk: dict[str, Any], failed: bool) -> list[Piece]:
        if failed or chunk.get("error") or chunk.get("object") == "error":
            raise failure(self._peer, report(None, chunk))
        if usage := as_object(chunk.get("usage")):
            self._usage = _usage(usage)
        for choice in map(as_object, as_array(chunk.get("choices"))):
            # Further choices are further answers; one was asked for.
            if choice.get("index") in (0, None):
                return self._choice(choice)
        return []

    def _choice(self, choice: dict[str, Any]) -> list[Piece]:
        delta = as_object(choice.get("delta"))
        pieces = reasoning_piece(self._thoughts.feed(delta))
        for text, texts in (
            (_content(delta.get("content")), self._texts),
            (as_text(delta.get("refusal")), self._refusal),
        ):
            if text:
                texts.append(text)
                pieces += text_piece(text)
        calls = as_array(delta.get("tool_calls"))
        for position, call in enumerate(map(as_object, calls)):
            self._call(call, position)
        stop = as_text(choice.get("finish_reason"))
        self._stop = stop or self._stop
        self.progress += bool(pieces or calls or stop or delta.get(DETAILS))
        return pieces

    def _call(self, delta: dict[str, Any], position: int) -> None:
        function = as_object(delta.get("function"))
        name, call_id = as_text(function.get("name")), as_text(delta.get("id"))
        call = self._growing(delta.get("index"), position, name, call_id)
        call.id = call.id or call_id
        call.name = call.name or name
        call.extra = as_object(delta.get(EXTRA)) or call.extra
        call.arguments.append(arguments_text(function.get("arguments")))

    def _growing(self, index: object, position: int, name: str, call_id: str) -> _Call:
        """Return the call that a delta continues, or a new one.

        Some servers give every call the index 0 and some give every delta another id, so a known
        index begins a new call only where both another id and a name come with it. Without an
        index, a name begins a call.
        """
        if index is None:
            call = self._calls[-1] if self._calls and not (name or position) else None
        else:
            call = next((call for call in reversed(self._calls) if call.index == index), None)
            if call is not None and name and call_id and call.id not in ("", call_id):
                call = None
        if call is None:
            call = _Call(index)
            self._calls.append(call)
        return call


def _content(content: object) -> str:
    """Return the text of a delta; a few servers send it as a list of parts."""
    parts = (as_text(as_object(part).get("text")) for part in as_array(content))
    return as_text(content) or "".join(parts)


def _usage(usage: dict[str, Any]) -> Usage:
    prompt = as_object(usage.get("prompt_tokens_details"))
    completion = as_object(usage.get("completion_tokens_details"))
    asked = as_count(usage.get("prompt_tokens"))
    # A few servers count reasoning beside the completion, and only the total holds both.
    beyond = as_count(usage.get("total_tokens")) - asked
    return Usage(
        input=asked,
        output=max(as_count(usage.get("completion_tokens")), beyond),
        cache_read=max(
            as_count(prompt.get("cached_tokens")),
            as_count(usage.get("prompt_cache_hit_tokens")),
            as_count(usage.get("cached_tokens")),
        ),
        cache_write=as_count(prompt.get("cache_write_tokens")),
        reasoning=as_count(completion.get("reasoning_tokens")),
    )
