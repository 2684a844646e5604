"""What the HTTP server, the protocols and the recorded requests share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from perdure.testing.script import Failure, Page, Reply
from perdure.testing.stream import Frame, Pause, Stop

_MODEL_IN_PATH = re.compile(r"/models/([^/:?]+):")

Step = Frame | Pause | Stop


class Rules(msgspec.Struct, frozen=True):
    """How strict the provider is, and what it has; see `ScriptedProvider`."""

    models: tuple[str, ...] | None = None
    api_key: str | None = None
    window: int | None = None
    template: str | None = None
    refuse_unknown_members: bool = False


class ReceivedRequest(msgspec.Struct, frozen=True):
    """One request as it arrived.

    `body` is the exact bytes and `json` what they say (None when they are no JSON). Header names
    are lower case. `remarks` tell what a real provider would have accepted silently.
    """

    index: int
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    json: Any = None
    remarks: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The model that is asked: it stands in the body, or in the path as Gemini has it."""
        named = self.json.get("model") if is_object(self.json) else None
        if isinstance(named, str):
            return named
        found = _MODEL_IN_PATH.search(self.target)
        return unquote(found[1]) if found else ""

    def __repr__(self) -> str:
        # Headers carry a key, and bodies are long.
        return f"<request {self.index}: {self.method} {self.target}, {len(self.body)} bytes>"


class Response(msgspec.Struct, frozen=True):
    """What to send: waits, then status and headers, then the steps of the body.

    Without a status the connection is reset. A `whole` body is sent at once, with its length.
    `request` is the index of the request for an answer that this is for.
    """

    status: int | None
    headers: tuple[tuple[str, str], ...] = ()
    steps: tuple[Step, ...] = ()
    before: tuple[Pause, ...] = ()
    whole: bool = False
    request: int | None = None


class Rejection(Exception):
    """The request is refused as the real provider would refuse it.

    Without a type, the usual one for the status goes out.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "",  # noqa: A002 - the word that both protocols use
        param: str | None = None,
        code: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.param = param
        self.code = code


class Wire(Protocol):
    """One protocol: what it refuses, and how it puts a reply."""

    def authorize(self, request: ReceivedRequest) -> None:
        """Raise Rejection when the headers do not say who asks."""
        ...

    def check(self, request: ReceivedRequest) -> Sequence[str]:
        """Return remarks about a request; raise Rejection when it is not acceptable."""
        ...

    def models(self, names: Sequence[str]) -> Any:
        """Return the body of the list of models."""
        ...

    def answer(self, request: ReceivedRequest, reply: Reply) -> Response:
        """Render a reply that has content."""
        ...

    def error_body(self, failure: Failure, param: str | None = None) -> Any:
        """Return the body of an error."""
        ...


def respond(wire: Wire, request: ReceivedRequest, reply: Reply) -> Response:
    """Render a reply, whatever kind it is."""
    if reply.instead is None:
        return replace(wire.answer(request, reply), before=reply.before)
    return replace(_instead(wire, reply.instead), before=reply.before)


def refuse(wire: Wire, rejection: Rejection, headers: Sequence[tuple[str, str]] = ()) -> Response:
    """Render a refusal."""
    failure = Failure(
        rejection.status, rejection.type, rejection.message, code=rejection.code or None
    )
    return document(rejection.status, wire.error_body(failure, rejection.param), headers)


def document(status: int, body: Any, headers: Sequence[tuple[str, str]] = ()) -> Response:
    """Return a whole JSON document."""
    data = Frame(msgspec.json.encode(body))
    return Response(status, (("content-type", "application/json"), *headers), (data,), whole=True)


def _instead(wire: Wire, instead: object) -> Response:
    if isinstance(instead, Failure):
        return document(instead.status, wire.error_body(instead), instead.headers)
    if isinstance(instead, Page):
        headers = (("content-type", instead.content_type), *instead.headers)
        return Response(instead.status, headers, (Frame(instead.body),), whole=True)
    return Response(status=None)


def identifier(request: ReceivedRequest, label: object = "") -> str:
    """Return sixteen characters that are the same for the same request and label only.

    Derived, not counted: a new provider that goes on with an old conversation must not give an id
    a second time.
    """
    return hashlib.sha256(request.body + f"#{label}".encode()).hexdigest()[:16]


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Tell whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Tell whether a JSON value is an array."""
    return isinstance(value, list)
