"""What a scripted model says, and how its provider misbehaves.

A script is a sequence of replies. `say`, `call`, `calls` and `think` make replies, `+` joins them,
and the other functions here make a reply go wrong:

    [think("A file.") + call("read", {"path": "a.txt"}), cut(say("It says hello."), after=2)]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from perdure.history.content import Usage
from perdure.testing.stream import (
    Cut,
    Disorder,
    Fail,
    Fault,
    Frame,
    Insert,
    Pause,
    Signal,
    Trickle,
    Unfinished,
)


class Said(msgspec.Struct, frozen=True):
    """Text of the model."""

    text: str


class Called(msgspec.Struct, frozen=True):
    """A tool call; `arguments` is the JSON text as it goes out. Without an id, one is made."""

    name: str
    arguments: str
    id: str | None = None


class Thought(msgspec.Struct, frozen=True):
    """Reasoning, readable or redacted."""

    text: str
    redacted: bool = False


Part = Said | Called | Thought


class Failure(msgspec.Struct, frozen=True):
    """An HTTP error in the protocol's own body. Empty words stand for the provider's usual ones."""

    status: int
    type: str = ""
    message: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    code: str | None = None


class Page(msgspec.Struct, frozen=True):
    """A body sent as it is, such as a proxy's error page; `headers` go along."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Reset(msgspec.Struct, frozen=True):
    """A connection reset before any header."""


class Reply(msgspec.Struct, frozen=True):
    """One answer of the provider.

    `stop` is one of Perdure's stop reasons, or the provider's own word, sent as it is; without it
    the fitting one is sent. `usage` left out is computed, None is not sent. `before` are waits
    ahead of the headers, `faults` change the stream, `instead` replaces the whole answer.
    """

    parts: tuple[Part, ...] = ()
    stop: str | None = None
    usage: Usage | UnsetType | None = UNSET
    faults: tuple[Fault, ...] = ()
    before: tuple[Pause, ...] = ()
    instead: Failure | Page | Reset | None = None

    def __add__(self, other: Reply) -> Reply:
        """Return one reply that says both, in order; where both set a thing, the later wins."""
        if self.instead or other.instead:
            raise TypeError("only replies with content can be joined with +")
        return Reply(
            parts=self.parts + other.parts,
            stop=other.stop if other.stop is not None else self.stop,
            usage=self.usage if other.usage is UNSET else other.usage,
            faults=self.faults + other.faults,
            before=self.before + other.before,
        )


def say(text: str, *, stop: str | None = None, usage: Usage | UnsetType | None = UNSET) -> Reply:
    """Answer with text."""
    return Reply((Said(text),), stop, usage)


def call(
    name: str,
    arguments: Mapping[str, Any] | str = "{}",
    id: str | None = None,  # noqa: A002 - the word that both protocols use
    *,
    stop: str | None = None,
    usage: Usage | UnsetType | None = UNSET,
) -> Reply:
    """Call one tool. Arguments given as text go out as they are, broken or not."""
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return Reply((Called(name, text, id),), stop, usage)


def calls(*each: Reply | tuple[str, Mapping[str, Any]]) -> Reply:
    """Call several tools at once: `calls(("read", {"path": "a"}), ("list", {"path": "."}))`."""
    joined = Reply()
    for one in each:
        joined += one if isinstance(one, Reply) else call(*one)
    return joined


def think(text: str = "", *, redacted: bool = False) -> Reply:
    """Reason before what follows: `think("Which file?") + say("a.txt")`.

    Anthropic sends a thinking block, signed and bound to the conversation before it, or a redacted
    one. Responses sends a reasoning item, bound likewise, with a summary unless it is redacted.
    Gemini sends thoughts, unless they are redacted, and signs what follows. Chat Completions sends
    `reasoning_content`, and nothing when it is redacted.
    """
    return Reply((Thought(text, redacted),))


def empty() -> Reply:
    """Answer with a whole stream that says nothing and calls nothing."""
    return Reply()


def error(
    status: int,
    type: str = "",  # noqa: A002 - the word that both protocols use
    message: str = "",
    headers: Mapping[str, str] | None = None,
    *,
    code: str | None = None,
) -> Reply:
    """Answer with an HTTP error; without words, those that the provider uses for the status."""
    pairs = tuple((headers or {}).items())
    return Reply(instead=Failure(status, type, message, pairs, code))


def html(status: int = 200) -> Reply:
    """Answer with a page of HTML, as proxies and captive portals do."""
    body = b"<!doctype html><html><body><h1>Please sign in</h1></body></html>"
    return Reply(instead=Page(status, "text/html; charset=utf-8", body))


def raw(
    body: bytes,
    status: int = 200,
    content_type: str = "text/event-stream",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Answer with these bytes, whatever the protocol: a stream written by hand, or garbage."""
    return Reply(instead=Page(status, content_type, body, tuple((headers or {}).items())))


def reset() -> Reply:
    """Reset the connection before any header."""
    return Reply(instead=Reset())


def cut(reply: Reply | None = None, *, after: int = 1, clean: bool = False) -> Reply:
    """Drop the connection after `after` fragments of the reply.

    0 is just before the first fragment; a number that is too large is just before the stream's
    ending. A `clean` cut ends the HTTP body properly, as a proxy may, so that only the protocol
    can tell that something is missing.
    """
    return _faulty(reply, Cut(after, clean))


def unfinished(reply: Reply | None = None) -> Reply:
    """Leave out the last frame (`[DONE]`, `message_stop` ...) and end the body properly."""
    return _faulty(reply, Unfinished())


def malformed(
    reply: Reply | None = None, *, data: bytes = b'data: {"broken": \n\n', after: int = 1
) -> Reply:
    """Send `data` as it is after `after` fragments; what follows still comes."""
    return _faulty(reply, Insert(Frame(data), after))


def disordered(reply: Reply | None = None) -> Reply:
    """Send the last fragment after the frame that ends the message."""
    return _faulty(reply, Disorder())


def trickle(reply: Reply | None = None, *, seconds: float = 1.0) -> Reply:
    """Send the body one byte at a time, with a wait after each byte.

    With 0 seconds it comes at once but in single bytes: a test of the decoder's seams.
    """
    return _faulty(reply, Trickle(seconds))


def stream_error(
    reply: Reply | None = None,
    type: str = "overloaded_error",  # noqa: A002 - the word that both protocols use
    message: str = "Overloaded",
    *,
    after: int = 1,
) -> Reply:
    """Report an error inside the stream after `after` fragments, and end it."""
    return _faulty(reply, Fail(type, message, after))


def stall(
    reply: Reply | None = None, *, seconds: float | None = None, after: int | None = None
) -> Reply:
    """Say nothing for some seconds, or, without seconds, until the client goes away.

    It happens ahead of the headers, or after `after` fragments; what is left of the reply follows.
    """
    return _waiting(reply, Pause(seconds=seconds), after)


def hold(signal: Signal, reply: Reply | None = None, *, after: int | None = None) -> Reply:
    """Wait until a signal is set (an event of anyio, asyncio or threading), then go on.

    It happens ahead of the headers, or after `after` fragments.
    """
    return _waiting(reply, Pause(until=signal), after)


_TEXT = "One two three four five six seven."


def _faulty(reply: Reply | None, fault: Fault) -> Reply:
    reply = reply or say(_TEXT)
    return replace(reply, faults=(*reply.faults, fault))


def _waiting(reply: Reply | None, pause: Pause, after: int | None) -> Reply:
    reply = reply or say(_TEXT)
    if after is None:
        return replace(reply, before=(*reply.before, pause))
    return replace(reply, faults=(*reply.faults, Insert(pause, after)))
