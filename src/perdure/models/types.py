"""Requests and streams, whichever provider they go to or come from."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from perdure.history.content import Form, Part, StopReason, Usage
from perdure.history.events import RequestShape
from perdure.history.items import Frame, Item


class Endpoint(msgspec.Struct, frozen=True):
    """Where a provider answers.

    `api_key` is held in memory only; its `repr` hides it. `api_key_env` is the name of the variable
    that it came from, for messages. `connect_timeout`, `silence_timeout` (between two useful
    events) and `attempt_timeout` (all the waiting of one Attempt) are seconds.
    """

    provider: str
    protocol: str
    base_url: str
    api_key: str | None = None
    headers: Mapping[str, str] = {}
    connect_timeout: float = 10.0
    silence_timeout: float = 120.0
    attempt_timeout: float = 3600.0
    api_key_env: str = ""

    def __repr__(self) -> str:
        return f"Endpoint({self.provider!r}, {self.protocol!r}, {self.base_url!r})"


class ModelProfile(msgspec.Struct, frozen=True):
    """What is known of one model behind one provider.

    `context_window` and `max_output` are tokens. `system_messages` is the form in which System
    Messages go out. `images` tells whether it takes pictures. `known` is False where these are
    only defaults.
    """

    provider: str
    model: str
    context_window: int
    max_output: int
    system_messages: Form
    parameters: Mapping[str, object] = {}
    known: bool = True
    images: bool = False


class TextPiece(msgspec.Struct, frozen=True):
    """A live fragment of text."""

    text: str


class ReasoningPiece(msgspec.Struct, frozen=True):
    """A live fragment of visible reasoning."""

    text: str


class Answer(msgspec.Struct, frozen=True):
    """A whole answer: the last thing that a stream yields.

    `cache_miss` is the provider's own reason for a missed prompt cache, `response` its id of the
    answer where a later request may name it, `stopped` its word for a stop that is not known; they
    are empty where it gave none.
    """

    parts: tuple[Part, ...]
    stop: StopReason
    usage: Usage
    cache_miss: str = ""
    response: str = ""
    stopped: str = ""


Piece = TextPiece | ReasoningPiece | Answer

Stream = AbstractAsyncContextManager[AsyncGenerator[Piece, None]]
"""The pieces of one answer, while the context is open."""


class Request(msgspec.Struct, frozen=True):
    """One provider request, lowered.

    `write` writes the body. `blocks` and `digest` are the length and head of the digest chain,
    `prefix` and `cause` as in StepStarted. `forms` are the forms taken by the System Messages that
    no answer has bound yet, in order.
    """

    write: Callable[[], bytes]
    blocks: int
    digest: str
    prefix: bool | None
    cause: str
    forms: tuple[Form, ...]

    @property
    def body(self) -> bytes:
        """The exact JSON, the same each time; written anew, for it is as long as the history."""
        return self.write()


class Lowering(Protocol):
    """Lowers one epoch's history for one model; keeps what is settled encoded.

    Items up to the last assistant item are settled: they are encoded once and never again. The
    items behind it are lowered anew at each call, since nothing depends on them yet.
    """

    def request(
        self,
        items: Sequence[Item],
        extra: Iterable[Item] = (),
        *,
        previous: tuple[int, str] | None = None,
    ) -> Request:
        """Return the request for `items` followed by `extra`.

        `items` must begin with the items of every earlier call. `previous` is the (blocks, digest)
        of the epoch's last request, against which prefix and cause are decided.
        """
        ...


class WireProtocol(Protocol):
    """One provider protocol: how to lower, where to post, how to read the stream."""

    version: int

    def lowering(self, frame: Frame, shape: RequestShape) -> Lowering:
        """Begin the lowering of an epoch."""
        ...

    def stream(self, endpoint: Endpoint, model: str, body: bytes) -> Stream:
        """Post one Attempt and give its pieces, ending with exactly one Answer.

        Raises ProviderError. Leaving the context or being cancelled closes the connection.
        """
        ...
