"""The scripted provider: real HTTP on loopback, scripted answers, a real provider's strictness."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from types import TracebackType
from typing import Any, Literal, Self, get_args

import anyio
import msgspec
from anyio.from_thread import start_blocking_portal
from msgspec.structs import replace

from perdure.session.titles import INSTRUCTION
from perdure.testing.anthropic import AnthropicMessages
from perdure.testing.gemini import GeminiContents
from perdure.testing.gemini_rules import PATH
from perdure.testing.openai_chat import OpenAIChat
from perdure.testing.openai_responses import OpenAIResponses
from perdure.testing.script import Reply
from perdure.testing.server import HttpRequest, serving
from perdure.testing.wire import (
    ReceivedRequest,
    Rejection,
    Response,
    Rules,
    Wire,
    document,
    refuse,
    respond,
)

Script = Sequence[Reply] | Callable[[ReceivedRequest, int], Reply]
"""The replies in order, or a function of a request and the number of replies given before."""

ProtocolName = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]

PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)
"""Every protocol that the provider speaks."""

Template = Literal["late-system-refused", "gemma"]

_KEY_HEADERS: Mapping[str, str] = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}
"""Where a key goes in the protocols that have a header of their own for it."""

DEFAULT_KEY = "scripted-key"


class Refused(msgspec.Struct, frozen=True):
    """One request that was refused: which, with what status, in what words."""

    index: int
    status: int
    message: str


class _Replies:
    """A script and how far it has come."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.given = 0

    @property
    def remaining(self) -> int:
        return 0 if callable(self._script) else max(0, len(self._script) - self.given)

    def next(self, request: ReceivedRequest) -> Reply | None:
        """Return the reply to a request, None at the end of the script."""
        if callable(self._script):
            reply = self._script(request, self.given)
        elif self.remaining:
            reply = self._script[self.given]
        else:
            return None
        self.given += 1
        return reply


class ScriptedProvider:
    """Serve a script over HTTP on loopback, in the protocol that each request speaks.

    Use it as an async context manager inside a test, or through `serve_in_thread`. A request that
    a real provider would refuse is refused in its words and takes no reply from the script.

    `models` are the only model names accepted (by default every name is). `api_key` is the key
    that must come; by default OpenAI's protocols need none and the others take any. `window`
    is the context window in tokens. `template` makes OpenAI's protocols behave like a local server
    whose chat template refuses system messages: late ones, or all of them ("gemma").
    `refuse_unknown_members` refuses body members that OpenAI's own API does not know. `titles` is a
    script of its own for the requests in which titles of sessions are asked for, which come at any
    time; without it they are requests like all others.

    `requests` are all requests for an answer, in order of arrival; `refused` tells which of them
    broke a rule; `unexpected` are those that came after the end of the script, answered with
    HTTP 500; `abandoned` are the indexes of those whose client left before the whole answer was
    sent; `others` are requests for anything else, such as the list of models. `title_requests` are
    those that `titles` answers; of the lists above they are only in `refused` and `unexpected`.
    """

    def __init__(
        self,
        script: Script,
        *,
        models: Sequence[str] | None = None,
        api_key: str | None = None,
        window: int | None = None,
        template: Template | None = None,
        refuse_unknown_members: bool = False,
        titles: Script | None = None,
    ) -> None:
        names = None if models is None else tuple(models)
        rules = Rules(names, api_key, window, template, refuse_unknown_members)
        self._replies = _Replies(script)
        self._titles = None if titles is None else _Replies(titles)
        self._rules = rules
        self._anthropic: Wire = AnthropicMessages(rules)
        self._chat: Wire = OpenAIChat(rules)
        self._responses: Wire = OpenAIResponses(rules)
        self._gemini: Wire = GeminiContents(rules)
        self._port = 0
        self._stack = AsyncExitStack()
        self.requests: list[ReceivedRequest] = []
        self.refused: list[Refused] = []
        self.unexpected: list[ReceivedRequest] = []
        self.abandoned: list[int] = []
        self.others: list[ReceivedRequest] = []
        self.title_requests: list[ReceivedRequest] = []

    async def __aenter__(self) -> Self:
        self._port = await self._stack.enter_async_context(serving(self._respond, self._left))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if isinstance(error, anyio.get_cancelled_exc_class()):
            return await self._stack.__aexit__(kind, error, traceback)
        # What fails in a test is the test's own affair: the server's task group, which would wrap
        # it in a group, does not hear of it.
        await self._stack.__aexit__(None, None, None)
        return None

    @property
    def openai_url(self) -> str:
        """The base URL for the OpenAI protocols, with `/v1`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL for Anthropic's protocol, without `/v1`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def gemini_url(self) -> str:
        """The base URL for Gemini's protocol, with `/v1beta`."""
        return f"http://127.0.0.1:{self._port}/v1beta"

    @property
    def remaining(self) -> int:
        """How many replies of the script are still to be given; 0 for a function."""
        return self._replies.remaining

    def config(
        self,
        protocol: ProtocolName = "openai-chat",
        *,
        name: str = "scripted",
        model: str = "model-1",
        api_key_env: str | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Return a configuration, shaped like the TOML file, with this as the only provider.

        `settings` are those of the model (`context_window`, `max_output`, `system_messages`). The
        key goes along as a header, unless `api_key_env` names a variable of the environment.
        """
        header, base_url = _KEY_HEADERS.get(protocol, ""), self.openai_url
        if header:
            base_url = self.gemini_url if protocol == "gemini" else self.anthropic_url
        provider: dict[str, Any] = {
            "protocol": protocol,
            "base_url": base_url,
            "models": {model: settings},
        }
        key = self._rules.api_key or (DEFAULT_KEY if header else None)
        if api_key_env:
            provider["api_key_env"] = api_key_env
        elif key:
            provider["headers"] = {header: key} if header else {"authorization": f"Bearer {key}"}
        return {"model": f"{name}/{model}", "providers": {name: provider}}

    async def received(self, count: int, timeout: float = 60.0) -> None:
        """Wait until `count` requests for an answer have come; TimeoutError after the timeout."""
        with anyio.fail_after(timeout):
            # They may come from another thread, so there is no event to wait for.
            while len(self.requests) < count:  # noqa: ASYNC110
                await anyio.sleep(0.002)

    def wait_until_received(self, count: int, timeout: float = 60.0) -> None:
        """Do the same as `received`, blocking: for a provider that is served in a thread."""
        deadline = time.monotonic() + timeout
        while len(self.requests) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.requests)} of {count} requests came")
            time.sleep(0.002)

    def _respond(self, http: HttpRequest) -> Response:
        path = http.target.partition("?")[0]
        match http.method, path:
            case "POST", "/v1/chat/completions":
                return self._answer(self._chat, http)
            case "POST", "/v1/responses":
                return self._answer(self._responses, http)
            case "POST", "/v1/messages":
                return self._answer(self._anthropic, http)
            case "POST", _ if PATH.fullmatch(path):
                return self._answer(self._gemini, http)
            case _:
                return self._answer_other(http, path)

    def _answer_other(self, http: HttpRequest, path: str) -> Response:
        request = _received(len(self.others), http)
        self.others.append(request)
        anthropic = request.headers.keys() & {"anthropic-version", "x-api-key"}
        wire = self._anthropic if anthropic else self._chat
        if path.startswith("/v1beta/"):
            wire = self._gemini
        try:
            wire.authorize(request)
        except Rejection as rejection:
            return refuse(wire, rejection)
        if (http.method, path) in (("GET", "/v1/models"), ("GET", "/v1beta/models")):
            return document(200, wire.models(self._rules.models or ("model-1",)))
        return refuse(wire, Rejection(404, f"Invalid URL ({http.method} {path})"))

    def _answer(self, wire: Wire, http: HttpRequest) -> Response:
        if self._titles is not None and asks_for_title(http):
            response = self._checked(wire, http, self.title_requests, self._titles)
            return replace(response, request=None)
        return self._checked(wire, http, self.requests, self._replies)

    def _checked(
        self, wire: Wire, http: HttpRequest, received: list[ReceivedRequest], replies: _Replies
    ) -> Response:
        request = _received(len(received), http)
        received.append(request)
        try:
            wire.authorize(request)
            remarks = tuple(wire.check(request))
        except Rejection as rejection:
            self.refused.append(Refused(request.index, rejection.status, rejection.message))
            response = refuse(wire, rejection)
        else:
            request = received[-1] = replace(request, remarks=remarks)
            response = self._scripted(wire, request, replies)
        return replace(response, request=request.index)

    def _scripted(self, wire: Wire, request: ReceivedRequest, replies: _Replies) -> Response:
        reply = replies.next(request)
        if reply is not None:
            return respond(wire, request, reply)
        self.unexpected.append(request)
        words = (
            f"The script is exhausted: it has {replies.given} replies, and request {request.index} "
            "asks for one more."
        )
        # Clients that honour this header do not repeat a request that cannot succeed.
        return refuse(wire, Rejection(500, words), [("x-should-retry", "false")])

    def _left(self, response: Response) -> None:
        if response.request is not None:
            self.abandoned.append(response.request)


@contextmanager
def serve_in_thread(
    script: Script,
    *,
    models: Sequence[str] | None = None,
    api_key: str | None = None,
    window: int | None = None,
    template: Template | None = None,
    refuse_unknown_members: bool = False,
    titles: Script | None = None,
) -> Generator[ScriptedProvider]:
    """Serve a script from a thread with its own event loop, for tests of other processes.

    The options are those of `ScriptedProvider`. What the provider recorded can be read from the
    calling thread at any time.
    """
    provider = ScriptedProvider(
        script,
        models=models,
        api_key=api_key,
        window=window,
        template=template,
        refuse_unknown_members=refuse_unknown_members,
        titles=titles,
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(provider):
        yield provider


@contextmanager
def nobody_listens() -> Generator[str]:
    """Yield a URL on loopback that refuses every connection while the context is open."""
    # Bound but not listening, the port is taken, so that nothing else can come to listen there.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def asks_for_title(request: HttpRequest | ReceivedRequest) -> bool:
    """Tell whether a request asks for the title of a session, and is no request of a Step."""
    # The instruction has no character that JSON would write in another way.
    return INSTRUCTION.encode() in request.body


def _received(index: int, http: HttpRequest) -> ReceivedRequest:
    try:
        content = msgspec.json.decode(http.body)
    except msgspec.DecodeError:
        content = None
    return ReceivedRequest(index, http.method, http.target, http.headers, http.body, content)
