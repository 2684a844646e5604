"""HTTP to providers: one client for each endpoint, one request for each Attempt."""

from __future__ import annotations

import errno
import ipaddress
import math
import re
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import urlsplit

import anyio
import msgspec

from perdure.clock import Clock, SystemClock
from perdure.errors import AuthenticationFailed, InvalidRequest, ProviderError
from perdure.models.decoding import Decoder
from perdure.models.encoding import as_object, parse
from perdure.models.failures import Peer, Report, failure, report, response_report
from perdure.models.patience import GIVEN_UP, Patience
from perdure.models.sse import LIMIT, EventReader
from perdure.models.types import Endpoint, Piece

if TYPE_CHECKING:
    import httpx2

STREAM_LIMIT = 256 * 1024 * 1024
"""How many bytes one stream may have in all."""

_ERROR_LIMIT = 64 * 1024
_ERROR_PATIENCE = 10.0
_DRAIN_PATIENCE = 0.1
_KEPT_CONNECTIONS = 64
_EXHAUSTED = "too many open files in this process"

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


class Post(msgspec.Struct, frozen=True):
    """One Attempt's request. `headers` carry the key, so `repr` hides them."""

    endpoint: Endpoint
    model: str
    url: str
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"Post({self.peer!r}, {len(self.body)} bytes)"

    @property
    def peer(self) -> Peer:
        """Whom errors of this request name."""
        key = self.endpoint.api_key or ""
        secrets = [key] if len(key) >= 4 else []
        secrets += [value for value in self.endpoint.headers.values() if len(value) >= 8]
        return Peer(
            provider=self.endpoint.provider,
            model=self.model,
            address=address(self.url),
            key_env=self.endpoint.api_key_env,
            secrets=tuple(secrets),
        )


class Transport:
    """Post requests and read streams. Owns its HTTP clients; close it with `aclose`.

    Redirects are never followed, since they would carry the key along. Proxies from the
    environment are used except for loopback addresses.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._clients: dict[tuple[str, float], httpx2.AsyncClient] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection, even when cancelled."""
        with anyio.CancelScope(shield=True):
            while self._clients:
                _, client = self._clients.popitem()
                await client.aclose()

    @asynccontextmanager
    async def stream(
        self, post: Post, decoder: Decoder
    ) -> AsyncGenerator[AsyncGenerator[Piece, None]]:
        """Post and give the pieces of the answer, ending with the Answer.

        Raises ProviderError. Leaving the context or being cancelled closes the connection.
        """
        endpoint = post.endpoint
        patience = Patience(post.peer, endpoint.silence_timeout, endpoint.attempt_timeout)
        async with patience.watch(), aclosing(self._pieces(post, decoder, patience)) as pieces:
            yield pieces

    async def _pieces(
        self, post: Post, decoder: Decoder, patience: Patience
    ) -> AsyncGenerator[Piece, None]:
        response = await self._send(post, patience)
        post = msgspec.structs.replace(post, body=b"")  # which is large and has done its work
        body = _Body(post.peer, response, patience)
        try:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            await self._accept(post, response, kind, body)
            if kind.endswith("json"):
                for piece in _whole(post.peer, await body.read(LIMIT, patience), kind, decoder):
                    yield piece
            else:
                reader = EventReader(post.peer)
                while chunk := await body.next(decoder):
                    for event in reader.feed(chunk):
                        for piece in decoder.feed(event):
                            yield piece
                for piece in _rest(post.peer, reader, kind, decoder):
                    yield piece
            yield decoder.finish()
            await body.drain()
        finally:
            with anyio.move_on_after(2, shield=True):
                await body.aclose()
                await response.aclose()

    async def _send(self, post: Post, patience: Patience) -> httpx2.Response:
        import httpx2  # a third of our start-up time, needed only once a request goes out

        if not address(post.url):
            message = f"the base_url of {post.peer.provider} is no http or https address"
            raise post.peer.refuse(InvalidRequest, f"{message}; correct it in the configuration")
        headers = _headers(post) | {"Content-Length": str(len(post.body))}
        client = self._client(post)
        request = client.build_request(
            "POST", post.url, headers=headers, content=_sent_once(post.body)
        )
        try:
            return await patience.wait(client.send(request, stream=True))
        except httpx2.ConnectTimeout as error:
            reason = f"no connection within {post.endpoint.connect_timeout:g} s"
            raise _unreachable(post, reason) from error
        except (httpx2.HTTPError, OSError) as error:
            raise _unreachable(post, _reason(error)) from error

    def _client(self, post: Post) -> httpx2.AsyncClient:
        import httpx2  # a third of our start-up time, needed only once a request goes out

        endpoint = post.endpoint
        key = (endpoint.base_url, endpoint.connect_timeout)
        if key not in self._clients:
            local = is_loopback(post.url)
            plain = local and urlsplit(post.url).scheme == "http"
            self._clients[key] = httpx2.AsyncClient(
                timeout=httpx2.Timeout(None, connect=endpoint.connect_timeout),
                # A request that waited for another one's connection would seem silent.
                limits=httpx2.Limits(
                    max_connections=None, max_keepalive_connections=_KEPT_CONNECTIONS
                ),
                follow_redirects=False,
                trust_env=not local,
                verify=no_certificates() if plain else True,
            )
        return self._clients[key]

    async def _accept(self, post: Post, response: httpx2.Response, kind: str, body: _Body) -> None:
        """Raise the typed error of a response that is no answer."""
        status = response.status_code
        if 300 <= status < 400:
            moved = f"the address has moved to {response.headers.get('location', 'elsewhere')}"
            raise failure(post.peer, Report(status, "", moved))
        if not 200 <= status < 300:
            patience = Patience(post.peer, _ERROR_PATIENCE)
            words = await body.read(_ERROR_LIMIT, patience)
            raise failure(post.peer, response_report(status, words, self._retry_after(response)))
        if kind == "text/html":
            raise post.peer.broken("it answered with text/html instead of an event stream")

    def _retry_after(self, response: httpx2.Response) -> float | None:
        """Return the seconds that the provider asked to wait, however it wrote them."""
        exact = _seconds(response.headers.get("retry-after-ms", ""))
        if exact is not None:
            return exact / 1000
        value = response.headers.get("retry-after", "")
        seconds = _seconds(value)
        if seconds is not None:
            return seconds
        try:
            wait = (parsedate_to_datetime(value) - self._clock.now()).total_seconds()
        except (ValueError, TypeError):
            return None
        return max(wait, 0.0)


class _Body:
    """The bytes of a response, read within the bounds of our patience."""

    def __init__(self, peer: Peer, response: httpx2.Response, patience: Patience) -> None:
        self._peer = peer
        self._chunks = _chunks(response)
        self._patience = patience
        self._total = 0

    async def next(self, decoder: Decoder) -> bytes:
        """Return the next bytes, none when the answer is over or nothing more can come.

        A connection that breaks or falls silent after a whole answer has done no harm.
        """
        import httpx2  # already loaded by the request

        self._patience.heard(decoder.progress)
        if decoder.is_over:
            return b""
        if self._total > STREAM_LIMIT:
            raise self._peer.broken(f"it has more than {STREAM_LIMIT} bytes")
        try:
            # What is whole already stays so however the wait for the rest ends.
            wait = self._patience.wait if decoder.is_whole else self._patience.wait_watched
            chunk = await wait(anext(self._chunks, b""))
        except (httpx2.HTTPError, httpx2.StreamError, OSError, *GIVEN_UP) as error:
            if decoder.is_whole:
                return b""
            raise self._peer.broken(
                f"the connection broke, {self._peer.quote(_reason(error))}"
            ) from error
        self._total += len(chunk)
        return chunk

    async def read(self, limit: int, patience: Patience) -> bytes:
        """Return what comes, up to a limit, until it ends, breaks or takes too long."""
        import httpx2  # already loaded by the request

        data = bytearray()
        try:
            while len(data) < limit and (chunk := await patience.wait(anext(self._chunks, b""))):
                data += chunk
        except (httpx2.HTTPError, httpx2.StreamError, OSError, *GIVEN_UP):
            pass
        return bytes(data[:limit])

    async def aclose(self) -> None:
        """Stop reading."""
        await self._chunks.aclose()

    async def drain(self) -> None:
        """Read the little that follows a whole answer, so that the connection can be kept."""
        import httpx2  # already loaded by the request

        with suppress(httpx2.HTTPError, httpx2.StreamError, OSError):
            with anyio.move_on_after(_DRAIN_PATIENCE):
                while await anext(self._chunks, b""):
                    pass


def _chunks(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Return the body as it comes; without the layers for encodings that are hardly ever there.

    They take as long as reading the token itself.
    """
    plain = response.headers.get("content-encoding", "identity").strip().lower() == "identity"
    if plain and isinstance(response.stream, AsyncIterable):
        chunks = aiter(response.stream)
        if isinstance(chunks, AsyncGenerator):
            return cast("AsyncGenerator[bytes, None]", chunks)
    return response.aiter_bytes()


def _rest(peer: Peer, reader: EventReader, kind: str, decoder: Decoder) -> list[Piece]:
    """Return the pieces of an event that the end of the stream completes."""
    pieces: list[Piece] = []
    if not decoder.is_over:
        for event in reader.close():
            # Half an event is the mark of a cut stream, which is what `finish` then says.
            if parse(event.data) is not None or event.data.strip() == "[DONE]":
                pieces += decoder.feed(event)
    if decoder.progress == 0 and kind != "text/event-stream":
        raise peer.broken(f"it answered with {kind or 'no content type'} instead of events")
    return pieces


def _whole(peer: Peer, body: bytes, kind: str, decoder: Decoder) -> list[Piece]:
    """Return the pieces of an answer that did not come as a stream, or raise the error in it."""
    value = parse(body)
    found = as_object(value)
    if found.get("error"):
        raise failure(peer, report(None, found))
    pieces = decoder.feed_whole(found)
    if not decoder.is_whole:
        raise peer.broken(f"it answered with {kind} that is no answer instead of an event stream")
    return pieces


async def _sent_once(body: bytes) -> AsyncGenerator[bytes, None]:
    """Yield a body that nobody holds any more once it is sent: the answer may take long."""
    yield body


def _headers(post: Post) -> dict[str, str]:
    """Return the headers to send; those of the configuration win over ours."""
    ours = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
        "User-Agent": "perdure",
        **post.headers,
    }
    configured = {name.lower() for name in post.endpoint.headers}
    headers = {name: value for name, value in ours.items() if name.lower() not in configured}
    headers |= post.endpoint.headers
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise _unsendable(post, name)
    return headers


def _unsendable(post: Post, name: str) -> ProviderError:
    """Return the error for a header, without its value, which may be a key."""
    peer = post.peer
    if name in post.headers:
        where = peer.key_env or "the api_key_env of the provider"
        message = f"the key for {peer.provider} holds characters that no key has"
        return peer.refuse(AuthenticationFailed, f"{message}; set {where} to a valid key")
    message = f"the header {name!r} of {peer.provider} cannot be sent"
    return peer.refuse(InvalidRequest, f"{message}; correct it in the configuration")


def _unreachable(post: Post, reason: str) -> ProviderError:
    if reason == _EXHAUSTED:
        return post.peer.unreachable(reason, "raise its limit (ulimit -n) or run fewer sessions")
    if is_loopback(post.url):
        return post.peer.unreachable(reason, "is the server running?")
    return post.peer.unreachable(reason, "check the network and the base_url of the provider")


def _reason(error: BaseException) -> str:
    """Return why a connection failed, from the innermost error that says so."""
    seen: BaseException | None = error
    reason = str(error) or type(error).__name__
    while seen is not None:
        if isinstance(seen, ConnectionRefusedError):
            return "connection refused"
        if isinstance(seen, socket.gaierror):
            return "the host is not known"
        if isinstance(seen, ssl.SSLCertVerificationError):
            return f"its certificate is not valid, {seen.verify_message}"
        if isinstance(seen, OSError) and seen.errno in (errno.EMFILE, errno.ENFILE):
            return _EXHAUSTED
        seen = seen.__cause__ or seen.__context__
    return reason


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def no_certificates() -> ssl.SSLContext:
    """Return a context that trusts nobody: plain HTTP needs none, and loading all takes 30 ms."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def address(url: str) -> str:
    """Return the host and port of an http or https address, nothing where it is no such."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if not host or parts.scheme not in ("http", "https"):
        return ""
    name = f"[{host}]" if ":" in host else host
    return f"{name}:{port or (443 if parts.scheme == 'https' else 80)}"


def is_loopback(url: str) -> bool:
    """Tell whether an address is on this machine."""
    host = address(url).rpartition(":")[0].strip("[]")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
