"""The stream of OpenAI Responses.

Everything that grows in fragments comes once more when it is whole: a text, then its item. The
later word counts, so a fragment that a server lost or sent twice does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from perdure.history.content import Part, Reasoning, StopReason, Text, ToolCall, Usage
from perdure.models.decoding import arguments_text, conclude, reasoning_piece, text_piece
from perdure.models.diagnosis import openai_reason
from perdure.models.encoding import as_array, as_count, as_object, as_text, parse_object
from perdure.models.failures import Peer, failure, report
from perdure.models.sse import ServerEvent
from perdure.models.types import Answer, Piece

ITEMS = ("reasoning", "message", "function_call")
"""The items that are read and go back; nobody asked for any other kind."""

_LIMIT = "max_output_tokens"
_STOPS: dict[str, StopReason] = {"": "end", _LIMIT: "length", "content_filter": "refusal"}
"""By why an answer was cut; empty where it is whole."""

_ENDS = frozenset({"completed", "incomplete", "failed", "cancelled"})
"""How a response ends: its last event and its status have the same name."""

_FRAGMENTS: dict[str, tuple[str, str]] = {
    "output_text": ("message", "text"),
    "refusal": ("message", "refusal"),
    "reasoning_summary_text": ("reasoning", "text"),
    "reasoning_text": ("reasoning", "text"),
    "function_call_arguments": ("function_call", "arguments"),
}
"""By the name of what grows: the kind of item it belongs to, and the member that has it whole."""

_STATES = ("in_progress", "completed", "incomplete")
"""The states that an item which goes back may have."""

_WORDS = {
    "output_text": "text",
    "refusal": "refusal",
    "summary_text": "text",
    "reasoning_text": "text",
}
"""By the kind of a part of an item: the member that has its words."""

_LIVE: dict[str, Callable[[str], list[Piece]]] = {
    "output_text": text_piece,
    "refusal": text_piece,
    "reasoning_summary_text": reasoning_piece,
    "reasoning_text": reasoning_piece,
}


class _Item:
    """One output item while it grows. `raw` is how it began, or how it ended once it is `whole`."""

    __slots__ = ("grown", "index", "raw", "whole")

    def __init__(self, index: int, raw: dict[str, Any]) -> None:
        self.index = index
        self.raw = raw
        self.whole = False
        self.grown: dict[tuple[int, str], list[str]] = {}
        """The fragments of each text in it, by place and name."""

    @property
    def kind(self) -> str:
        return as_text(self.raw.get("type"))

    @property
    def id(self) -> str:
        return as_text(self.raw.get("id"))

    def end(self, raw: dict[str, Any]) -> None:
        """Take the item as it is when it is whole; what was sealed until then was a part."""
        begun = {name: value for name, value in self.raw.items() if name != "encrypted_content"}
        self.raw = {name: value for name, value in (begun | raw).items() if value is not None}
        self.whole = True

    def part(self) -> Part | None:
        """Return the item as a part; None where it has nothing, or nobody asked for its kind."""
        match self.kind:
            case "message":
                return self._message()
            case "reasoning":
                return self._reasoning()
            case "function_call":
                return self._call()
            case _:
                return None

    def is_refusal(self) -> bool:
        """Tell whether the model declined in a message."""
        content = map(as_object, as_array(self.raw.get("content")))
        refused = any(part.get("type") == "refusal" for part in content)
        return refused or any(name == "refusal" for _, name in self.grown)

    def _message(self) -> Text | None:
        content = as_array(self.raw.get("content"))
        words = [_words(part, "text") + _words(part, "refusal") for part in content]
        text = "".join(words) or self._joined("output_text", "refusal")
        if not text:
            return None
        plain = len(content) == 1 and as_object(content[0]).get("type") == "output_text"
        return Text(text, self._rest("content") if plain or not content else self._rest())

    def _reasoning(self) -> Reasoning:
        summary = [_words(part, "text") for part in as_array(self.raw.get("summary"))]
        content = [_words(part, "text") for part in as_array(self.raw.get("content"))]
        text = _paragraphs(summary) or _paragraphs(content)
        text = text or self._joined("reasoning_summary_text", between="\n\n")
        text = text or self._joined("reasoning_text")
        # What is sealed so far in an item that never ended may be only a part of it.
        return Reasoning(text, self.raw if self._is_fit() else None)

    def _call(self) -> ToolCall:
        raw = self.raw
        arguments = arguments_text(raw.get("arguments")) or self._joined("function_call_arguments")
        call = as_text(raw.get("call_id")) or self.id
        name = as_text(raw.get("name"))
        return ToolCall(call, name, arguments or "{}", self._rest("arguments", "call_id", "name"))

    def _joined(self, *names: str, between: str = "") -> str:
        places = sorted(place for place in self.grown if place[1] in names)
        return between.join("".join(self.grown[place]) for place in places)

    def _rest(self, *told: str) -> dict[str, Any] | None:
        """Return what else the item holds, if it can go back as it came."""
        if not self._is_fit():
            return None
        return {name: value for name, value in self.raw.items() if name not in told}

    def _is_fit(self) -> bool:
        """Tell whether the item can go back: it is whole, has an id, and is nowhere malformed.

        A history with one that is malformed would be refused for ever.
        """
        raw, lists = self.raw, [self.raw.get(name, []) for name in ("summary", "content")]
        return (
            self.whole
            and bool(self.id)
            and raw.get("role", "assistant") == "assistant"
            and raw.get("status", "completed") in _STATES
            and isinstance(raw.get("encrypted_content", ""), str)
            and all(isinstance(each, list) for each in lists)
            and all(_is_part(part) for each in lists for part in as_array(each))
        )


class ResponsesDecoder:
    """Decode one Responses stream; `decoding.Decoder` is the contract."""

    def __init__(self, peer: Peer) -> None:
        self.progress = 0
        self._peer = peer
        self._items: list[_Item] = []
        self._number = -1
        self._begun = False
        self._response: dict[str, Any] = {}
        self._over = False

    @property
    def is_whole(self) -> bool:
        return self._over

    @property
    def is_over(self) -> bool:
        return self._over

    def feed(self, event: ServerEvent) -> list[Piece]:
        """Take the next event and return the live pieces in it."""
        # A few servers close with the word that ends Chat Completions.
        if self._over or event.data.strip() in ("", "[DONE]"):
            return []
        data = parse_object(event.data)
        if data is None:
            raise self._peer.broken("an event is not a JSON object")
        self._count(data.get("sequence_number"))
        return self._event(as_text(data.get("type")) or event.name, data)

    def feed_whole(self, body: dict[str, Any]) -> list[Piece]:
        """Take an answer that came in one piece: the same as the end of its stream."""
        pieces: list[Piece] = []
        if not isinstance(body.get("output"), list):
            return pieces
        for index, item in enumerate(as_array(body.get("output"))):
            pieces += self._added(index, as_object(item))
            pieces += self._done(index, as_object(item))
        return pieces + self._end("", body)

    def finish(self) -> Answer:
        """Return the answer; raise BrokenStream where it was cut, EmptyAnswer where it is empty."""
        if not self._over:
            raise self._peer.cut()
        found = sorted(self._items, key=lambda item: item.index)
        parts = [part for item in found if (part := item.part()) is not None]
        why, declined = self._why(), any(item.is_refusal() for item in self._items)
        answer = conclude(
            self._peer,
            parts,
            "refusal" if declined else _STOPS.get(why, "length"),
            _usage(self._response),
            unknown="" if why in _STOPS else why,
            own_words=declined and why != "content_filter",
        )
        return replace(answer, cache_miss=self._peer.quote(openai_reason(self._response)))

    def _count(self, number: object) -> None:
        """Notice events that come twice or too late; some servers give every event a zero."""
        if not isinstance(number, int) or isinstance(number, bool):
            return
        if number < self._number or number == self._number != 0:
            raise self._peer.broken(f"event {number} came after event {self._number}")
        self._number = number

    def _event(self, kind: str, data: dict[str, Any]) -> list[Piece]:
        name, _, step = kind.removeprefix("response.").rpartition(".")
        if name in _FRAGMENTS and step in ("delta", "done"):
            return self._grow(data, name, step)
        if not name and step in _ENDS:
            return self._end(step, as_object(data.get("response")))
        match kind:
            case "error":
                raise failure(self._peer, report(None, data))
            case "response.created":
                return self._start()
            case "response.output_item.added":
                return self._added(data.get("output_index"), as_object(data.get("item")))
            case "response.output_item.done":
                return self._done(data.get("output_index"), as_object(data.get("item")))
            case "response.reasoning_summary_part.added" if data.get("summary_index"):
                return reasoning_piece("\n\n")
            case _:
                # Signs of life, the frames of content parts, and whatever a later API adds.
                return []

    def _start(self) -> list[Piece]:
        if self._begun:
            raise self._peer.broken("it began a second response")
        self._begun = True
        self.progress += 1
        return []

    def _growing(self, index: object) -> _Item | None:
        """Return the newest item at an index: some servers give every item the index 0."""
        return next((item for item in reversed(self._items) if item.index == index), None)

    def _added(self, index: object, raw: dict[str, Any]) -> list[Piece]:
        before = self._growing(index)
        if not isinstance(index, int) or (before is not None and not before.whole):
            raise self._peer.broken("it began an output item out of order")
        self._items.append(_Item(index, raw))
        self.progress += 1
        return []

    def _done(self, index: object, raw: dict[str, Any]) -> list[Piece]:
        item = self._growing(index)
        if item is None or item.whole or as_text(raw.get("type")) not in ("", item.kind):
            raise self._peer.broken("it ended an output item that never began")
        item.end(raw)
        self.progress += 1
        part = item.part()
        if item.grown or part is None or isinstance(part, ToolCall):
            return []
        # A server that sends no fragments sends the whole at once.
        live = text_piece if isinstance(part, Text) else reasoning_piece
        return live(part.text)

    def _grow(self, data: dict[str, Any], name: str, step: str) -> list[Piece]:
        item = self._growing(data.get("output_index"))
        kind, member = _FRAGMENTS[name]
        if item is None:
            raise self._peer.broken("it continued an output item that never began")
        if item.whole:
            raise self._peer.broken("it continued an output item that was whole")
        if item.kind != kind:
            raise self._peer.broken("a fragment does not fit its output item")
        place = data.get("content_index", data.get("summary_index"))
        texts = item.grown.setdefault((as_count(place), name), [])
        fragment = as_text(data.get("delta" if step == "delta" else member))
        self.progress += bool(fragment)
        live = _LIVE.get(name, _nothing)(fragment) if step == "delta" or not texts else []
        if step == "done" and fragment:
            texts.clear()
        texts.append(fragment)
        return live

    def _end(self, event: str, response: dict[str, Any]) -> list[Piece]:
        status = event or as_text(response.get("status"))
        error = as_object(response.get("error"))
        if error or status in ("failed", "cancelled"):
            said = error or {"message": f"the response was {status}"}
            raise failure(self._peer, report(None, {"error": said}))
        pieces = self._missed(as_array(response.get("output")))
        self._response = {**response, "status": status}
        self._over = True
        self.progress += 1
        return pieces

    def _missed(self, output: list[Any]) -> list[Piece]:
        """Take from the whole response what its stream did not say."""
        pieces: list[Piece] = []
        known = {item.id for item in self._items if item.whole and item.id}
        for index, raw in enumerate(map(as_object, output)):
            item = self._growing(index)
            if as_text(raw.get("id")) in known or (item is not None and item.whole):
                continue
            pieces += self._added(index, raw) if item is None else []
            pieces += self._done(index, raw)
        return pieces

    def _why(self) -> str:
        """Return why the answer was cut, whatever a later API may name; empty where it was not."""
        if self._response.get("status") != "incomplete":
            return ""
        details = as_object(self._response.get("incomplete_details"))
        return as_text(details.get("reason")) or _LIMIT


def _is_part(part: object) -> bool:
    raw = as_object(part)
    kind = as_text(raw.get("type"))
    return bool(kind) and (kind not in _WORDS or isinstance(raw.get(_WORDS[kind]), str))


def _words(part: object, member: str) -> str:
    return as_text(as_object(part).get(member))


def _paragraphs(texts: list[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def _nothing(_: str) -> list[Piece]:
    return []


def _usage(response: dict[str, Any]) -> Usage:
    usage = as_object(response.get("usage"))
    read = as_object(usage.get("input_tokens_details"))
    written = as_object(usage.get("output_tokens_details"))
    return Usage(
        input=as_count(usage.get("input_tokens")),
        output=as_count(usage.get("output_tokens")),
        cache_read=as_count(read.get("cached_tokens")),
        cache_write=as_count(read.get("cache_write_tokens")),
        reasoning=as_count(written.get("reasoning_tokens")),
    )
