"""From a stream's events to an answer: the part that every wire protocol shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec.structs import astuple, replace

from perdure.errors import ContentRefused
from perdure.history.content import Part, Reasoning, StopReason, Text, ToolCall, Usage
from perdure.models.encoding import MOST, encode, mend, mend_all
from perdure.models.failures import Peer
from perdure.models.sse import ServerEvent
from perdure.models.types import Answer, Piece, ReasoningPiece, TextPiece


class Decoder(Protocol):
    """Decode one stream, without any I/O: whatever comes gives pieces or a ProviderError.

    `progress` counts the events that brought the answer forward. When `is_whole`, the answer lacks
    nothing even if the connection breaks; when `is_over`, nothing more is to be read.
    """

    progress: int

    @property
    def is_whole(self) -> bool: ...
    @property
    def is_over(self) -> bool: ...

    def feed(self, event: ServerEvent) -> list[Piece]:
        """Take the next event and return the live pieces in it."""
        ...

    def feed_whole(self, body: dict[str, Any]) -> list[Piece]:
        """Take an answer that came in one piece, from a server that does not stream."""
        ...

    def finish(self) -> Answer:
        """Return the answer; raise BrokenStream where it was cut, EmptyAnswer where it is empty."""
        ...


def text_piece(text: str) -> list[Piece]:
    """Return the live piece for a fragment of text, if it has any."""
    return [TextPiece(mend(text))] if text else []


def reasoning_piece(text: str) -> list[Piece]:
    """Return the live piece for a fragment of visible reasoning, if it has any."""
    return [ReasoningPiece(mend(text))] if text else []


def arguments_text(value: object) -> str:
    """Return tool arguments as JSON text; some servers send them as an object."""
    if isinstance(value, str):
        return value
    return "" if value is None else encode(mend_all(value)).decode()


def conclude(
    peer: Peer,
    parts: Sequence[Part],
    stop: StopReason,
    usage: Usage,
    why: str = "",
    *,
    unknown: str = "",
    own_words: bool = False,
) -> Answer:
    """Return a whole answer, its call ids made unique; raise where it says nothing or is refused.

    `why` is the provider's own explanation of a refusal, `unknown` its word for a stop that is not
    known here. What stood before a refusal is no answer, and its calls must not run; only where the
    model declines in its `own_words` are these the answer. One of reasoning alone counts only where
    a limit or a pause ended it: asking again would spend the same tokens once more.
    """
    parts = [_mended(part) for part in parts]
    calls = any(isinstance(part, ToolCall) for part in parts)
    words = any(isinstance(part, Text) and part.text.strip() for part in parts)
    reasoned = any(isinstance(part, Reasoning) for part in parts)
    if stop == "refusal" and (calls or not (words and own_words)):
        said = f": {peer.quote(why)}" if why else ""
        message = f"{peer.provider} declined to answer{said}; change the prompt"
        raise peer.refuse(ContentRefused, message, peer.quote(why))
    if not (calls or words) and not (reasoned and stop in ("length", "pause")):
        raise peer.empty(_why_empty(stop, reasoned))
    if stop in ("end", "tool_calls"):
        stop = "tool_calls" if calls else "end"
    # Numbers that are sensible one by one can have a sum that no export may hold.
    counted = Usage(*(min(count, MOST) for count in astuple(usage)))
    return Answer(tuple(_unique(parts)), stop, counted, stopped=peer.quote(unknown))


def _why_empty(stop: StopReason, reasoned: bool) -> str:
    if stop == "length":
        return " because the output limit was reached at once; raise max_output of the model"
    return " after reasoning; try again" if reasoned else "; try again"


def _mended(part: Part) -> Part:
    match part:
        case Text(text, opaque):
            return Text(mend(text), mend_all(opaque))
        case Reasoning(text, opaque):
            return Reasoning(mend(text), mend_all(opaque))
        case ToolCall(call, name, arguments, opaque):
            return ToolCall(mend(call), mend(name), mend(arguments), mend_all(opaque))


def _unique(parts: Sequence[Part]) -> list[Part]:
    """Give each call without an id, or with that of another call, one from its position."""
    taken: set[str] = set()
    result: list[Part] = []
    position = 0
    for part in parts:
        if isinstance(part, ToolCall):
            call = part.id if part.id and part.id not in taken else f"call_{position}"
            while call in taken:
                call += "_"
            taken.add(call)
            position += 1
            result.append(replace(part, id=call))
        else:
            result.append(part)
    return result
