"""The stream of Gemini's generateContent.

Each event is a response that holds what is new of the answer: fragments of text, or whole parts.
Nothing marks the end but the reason for it.
"""

from __future__ import annotations

from typing import Any

from perdure.history.content import Part, Reasoning, StopReason, Text, ToolCall, Usage
from perdure.models.decoding import arguments_text, conclude, reasoning_piece, text_piece
from perdure.models.encoding import as_array, as_count, as_object, as_text, parse_object
from perdure.models.failures import Peer, Report, failure, report
from perdure.models.sse import ServerEvent
from perdure.models.types import Answer, Piece

SIGNATURE = "thoughtSignature"
SEALS = ("thought", SIGNATURE)
"""What a part holds beside its text or call, and what has to go back with it."""

_STOPS: dict[str, StopReason] = {
    "STOP": "end",
    "MAX_TOKENS": "length",  # the limit of the request
    "CONTINUATION": "length",  # the limit of one response
    "BLOCKLIST": "refusal",
    "IMAGE_PROHIBITED_CONTENT": "refusal",
    "IMAGE_RECITATION": "refusal",
    "IMAGE_SAFETY": "refusal",
    "LANGUAGE": "refusal",
    "MODEL_ARMOR": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "RECITATION": "refusal",
    "SAFETY": "refusal",
    "SPII": "refusal",
}
_FAILED = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)
"""How an answer ends that the model got wrong; what it said so far is not what it meant."""


class _Grown:
    """A part of the answer while it grows. A sealed one is never joined with another."""

    __slots__ = ("seal", "texts", "thought")

    def __init__(self, thought: bool, seal: dict[str, Any]) -> None:
        self.thought = thought
        self.seal = seal
        self.texts: list[str] = []

    def part(self) -> Part:
        """Return the part as it is now."""
        text = "".join(self.texts)
        if self.thought:
            return Reasoning(text, {"thought": True, **self.seal})
        return Text(text, self.seal or None)


class GeminiDecoder:
    """Decode one stream of generateContent; `decoding.Decoder` is the contract."""

    def __init__(self, peer: Peer) -> None:
        self.progress = 0
        self._peer = peer
        self._parts: list[_Grown | ToolCall] = []
        self._calls: list[dict[str, Any]] = []
        self._stop = ""
        self._why = ""
        self._refused = False
        self._usage: dict[str, Any] = {}

    @property
    def is_whole(self) -> bool:
        return self._refused or bool(self._stop)

    @property
    def is_over(self) -> bool:
        # A signature may still come behind the reason for the end.
        return False

    def feed(self, event: ServerEvent) -> list[Piece]:
        """Take the next event and return the live pieces in it."""
        # Some gateways close with the word that ends Chat Completions.
        if event.data.strip() in ("", "[DONE]"):
            return []
        chunk = parse_object(event.data)
        if chunk is None:
            raise self._peer.broken("an event is not a JSON object")
        return self.feed_whole(chunk)

    def feed_whole(self, body: dict[str, Any]) -> list[Piece]:
        """Take an answer that came in one piece, which looks like any event."""
        if body.get("error"):
            raise failure(self._peer, report(None, body))
        counted = as_object(body.get("usageMetadata"))
        self._usage |= {name: value for name, value in counted.items() if value is not None}
        self._judge(as_object(body.get("promptFeedback")))
        for candidate in map(as_object, as_array(body.get("candidates"))):
            # Further candidates are further answers; one was asked for.
            if candidate.get("index") in (0, None):
                return self._candidate(candidate)
        return []

    def finish(self) -> Answer:
        """Return the answer; raise BrokenStream where it was cut, EmptyAnswer where it is empty."""
        if not self.is_whole:
            raise self._peer.cut()
        said = self._peer.quote(self._why or self._stop)
        if self._stop == "MISSING_THOUGHT_SIGNATURE":
            raise failure(self._peer, Report(None, "invalid_argument", said))
        if self._stop in _FAILED:
            raise self._peer.broken(f"the model's call was malformed ({said})")
        parts = [part.part() if isinstance(part, _Grown) else part for part in self._parts]
        return conclude(
            self._peer,
            parts,
            "refusal" if self._refused else _STOPS.get(self._stop, "end"),
            _usage(self._usage),
            said,
            unknown="" if self._stop in _STOPS else self._stop,
        )

    def _judge(self, feedback: dict[str, Any]) -> None:
        """Notice that the prompt was refused, so that no answer follows."""
        if reason := as_text(feedback.get("blockReason")):
            self._refused = True
            self._why = as_text(feedback.get("blockReasonMessage")) or reason
            self.progress += 1

    def _candidate(self, candidate: dict[str, Any]) -> list[Piece]:
        parts = as_array(as_object(candidate.get("content")).get("parts"))
        pieces = [piece for part in map(as_object, parts) for piece in self._part(part)]
        stop = as_text(candidate.get("finishReason"))
        if stop and stop != "FINISH_REASON_UNSPECIFIED":
            self._stop = stop
            self._why = as_text(candidate.get("finishMessage")) or self._why
        self.progress += bool(parts or stop)
        return pieces

    def _part(self, part: dict[str, Any]) -> list[Piece]:
        """Take a part; kinds that nobody asked for are left out."""
        seal = {SIGNATURE: part[SIGNATURE]} if as_text(part.get(SIGNATURE)) else {}
        if isinstance(part.get("functionCall"), dict):
            self._call(as_object(part["functionCall"]), seal)
            return []
        text, thought = as_text(part.get("text")), part.get("thought") is True
        if text or (seal and part.keys() <= {"text", *SEALS}):
            self._growing(thought, seal).texts.append(text)
        return reasoning_piece(text) if thought else text_piece(text)

    def _growing(self, thought: bool, seal: dict[str, Any]) -> _Grown:
        last = self._parts[-1] if self._parts else None
        joins = isinstance(last, _Grown) and last.thought == thought and not (seal or last.seal)
        if isinstance(last, _Grown) and joins:
            return last
        grown = _Grown(thought, seal)
        self._parts.append(grown)
        return grown

    def _call(self, call: dict[str, Any], seal: dict[str, Any]) -> None:
        if call.get("id") and call in self._calls:
            return
        self._calls.append(call)
        arguments = arguments_text(call.get("args")) or "{}"
        call_id, name = as_text(call.get("id")), as_text(call.get("name"))
        self._parts.append(ToolCall(call_id, name, arguments, seal or None))


def _usage(counted: dict[str, Any]) -> Usage:
    thoughts = as_count(counted.get("thoughtsTokenCount"))
    return Usage(
        input=as_count(counted.get("promptTokenCount"))
        + as_count(counted.get("toolUsePromptTokenCount")),
        output=as_count(counted.get("candidatesTokenCount")) + thoughts,
        cache_read=as_count(counted.get("cachedContentTokenCount")),
        reasoning=thoughts,
    )
