"""Requests and streams over real connections."""

from __future__ import annotations

import gzip
import os
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anyio
import msgspec
import pytest
from anyio.abc import SocketStream
from msgspec.structs import replace

from perdure import errors
from perdure.clock import SystemClock
from perdure.history.content import Text, ToolCall
from perdure.models.protocols import wire_protocols
from perdure.models.transport import Transport, address, is_loopback
from perdure.models.types import Answer, Endpoint, Piece, Stream, TextPiece
from perdure.testing import nobody_listens
from tests.models.loopback import Act, head, serving
from tests.models.streams import (
    CHAT_HELLO,
    HELLO,
    MESSAGES_HELLO,
    RESPONSES_HELLO,
    delta,
    frames,
)

pytestmark = pytest.mark.anyio

ALL = pytest.mark.parametrize("protocol", sorted(HELLO))
JSON = head(content_type="application/json")
NOON = datetime(2026, 11, 5, 12, 0, tzinfo=UTC)


class NoonClock(SystemClock):
    def now(self) -> datetime:
        return NOON


@pytest.fixture
async def transport() -> AsyncGenerator[Transport]:
    async with Transport(NoonClock()) as transport:
        yield transport


Skip = Callable[[float], None]


@pytest.fixture
def skip(monkeypatch: pytest.MonkeyPatch) -> Skip:
    """Let seconds pass at once, for all that measures them in this process.

    So no test needs a timeout that a busy machine could reach by itself.
    """

    def pass_by(seconds: float) -> None:
        before = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: before() + seconds)

    return pass_by


def aging(skip: Skip, drip: bytes = b"") -> Act:
    """Let a second pass at each turn of the event loop, and send something at each."""

    async def act(connection: SocketStream) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_age, skip, connection, drip)
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await connection.receive()
            group.cancel_scope.cancel()
        raise anyio.EndOfStream

    return act


async def _age(skip: Skip, connection: SocketStream, drip: bytes) -> None:
    with suppress(anyio.BrokenResourceError):
        while True:
            if drip:
                await connection.send(drip)
            skip(1.0)
            await anyio.sleep(0)


def stream(
    transport: Transport, url: str, protocol: str = "openai-chat", **members: object
) -> Stream:
    endpoint = Endpoint("acme", protocol, url, "secret-key", silence_timeout=60.0)
    endpoint = replace(endpoint, **{"api_key_env": "ACME_KEY", **members})
    return wire_protocols(transport)[protocol].stream(endpoint, "m", b'{"model":"m"}')


async def collect(opened: Stream) -> list[Piece]:
    async with opened as pieces:
        return [piece async for piece in pieces]


async def failing(opened: Stream, kind: type[errors.ProviderError]) -> str:
    """Return the message of the error, which must hold no key and be one line."""
    with pytest.raises(kind) as caught:
        await collect(opened)
    message = str(caught.value)
    assert "secret-key" not in message
    assert message.isprintable()
    return message


@ALL
async def test_a_stream_comes_in_pieces_and_ends_with_one_answer(
    transport: Transport, protocol: str
) -> None:
    async with serving([head(), HELLO[protocol]]) as server:
        *pieces, answer = await collect(stream(transport, server.url, protocol))
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextPiece)) == "Hello"
    assert isinstance(answer, Answer)
    assert answer.parts == (Text("Hello"),)


async def test_a_stream_that_comes_packed_all_the_same_is_unpacked(transport: Transport) -> None:
    packed = gzip.compress(CHAT_HELLO)
    acts = [head(Content_Encoding="gzip"), *(packed[at : at + 1] for at in range(len(packed)))]
    async with serving(acts) as server:
        *_, answer = await collect(stream(transport, server.url))
    assert isinstance(answer, Answer)
    assert answer.parts == (Text("Hello"),)


async def test_anthropic_is_asked_as_it_wants_to_be(transport: Transport) -> None:
    async with serving([head(), MESSAGES_HELLO]) as server:
        await collect(stream(transport, server.url + "/", "anthropic"))
    lines, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert lines.startswith(b"POST /v1/messages HTTP/1.1\r\n")
    assert b"\r\nx-api-key: secret-key\r\n" in lines
    assert b"\r\nanthropic-version: 2023-06-01\r\n" in lines
    assert body == b'{"model":"m"}'


async def test_a_base_url_that_already_has_v1_is_forgiven(transport: Transport) -> None:
    async with serving([head(), MESSAGES_HELLO]) as server:
        await collect(stream(transport, server.url + "/v1", "anthropic"))
    assert server.requests[0].startswith(b"POST /v1/messages ")


async def test_chat_completions_are_asked_with_a_bearer_key(transport: Transport) -> None:
    async with serving([head(), CHAT_HELLO]) as server:
        await collect(stream(transport, server.url + "/v1"))
        await collect(stream(transport, server.url + "/v1", api_key=None))
    assert server.requests[0].startswith(b"POST /v1/chat/completions ")
    assert b"\r\nAuthorization: Bearer secret-key\r\n" in server.requests[0]
    assert b"Authorization" not in server.requests[1]


async def test_responses_are_asked_with_a_bearer_key(transport: Transport) -> None:
    async with serving([head(), RESPONSES_HELLO]) as server:
        await collect(stream(transport, server.url + "/v1/", "openai-responses"))
    assert server.requests[0].startswith(b"POST /v1/responses HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer secret-key\r\n" in server.requests[0]


async def test_configured_headers_win_over_ours(transport: Transport) -> None:
    given = {"authorization": "Key other", "X-Team": "blue"}
    async with serving([head(), CHAT_HELLO]) as server:
        await collect(stream(transport, server.url, headers=given))
    assert b"authorization: Key other\r\n" in server.requests[0]
    assert b"X-Team: blue\r\n" in server.requests[0]
    assert b"secret-key" not in server.requests[0]


async def test_a_refused_connection_names_the_address(transport: Transport) -> None:
    with nobody_listens() as url:
        message = await failing(stream(transport, url), errors.ConnectionFailed)
    where = url.removeprefix("http://")
    expected = f"no connection to {where} for acme: connection refused; is the server running?"
    assert message == expected


async def test_a_host_that_nobody_knows_says_so(transport: Transport) -> None:
    pieces = stream(transport, "http://nowhere.invalid/v1", connect_timeout=2.0)
    message = await failing(pieces, errors.ConnectionFailed)
    assert message.startswith("no connection to nowhere.invalid:80 for acme: ")
    assert message.endswith("; check the network and the base_url of the provider")


@pytest.mark.skipif(sys.platform != "linux", reason="how a full queue behaves is the system's own")
async def test_a_server_that_never_accepts_is_given_up_in_time(transport: Transport) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        # The queue of connections is full, so that the next one is never accepted.
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        pieces = stream(transport, url, connect_timeout=0.2)
        message = await failing(pieces, errors.ConnectionFailed)
        for each in waiting:
            each.close()
    assert "no connection within 0.2 s" in message


async def test_a_connection_that_breaks_before_an_answer_has_failed(transport: Transport) -> None:
    async with serving(["leave"]) as server:
        await failing(stream(transport, server.url), errors.ConnectionFailed)


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://host/v1", "http://", "http://h:x/v1"])
async def test_an_address_that_is_none_is_an_invalid_request(
    transport: Transport, url: str
) -> None:
    message = await failing(stream(transport, url), errors.InvalidRequest)
    assert message.startswith("the base_url of acme is no http or https address;")


@pytest.mark.parametrize("key", ["secret-key\n", "secret-key\x00", "secret-keyé"])
async def test_a_key_that_no_header_can_carry_is_never_shown(
    transport: Transport, key: str
) -> None:
    pieces = stream(transport, "http://127.0.0.1:9", api_key=key)
    message = await failing(pieces, errors.AuthenticationFailed)
    assert message.endswith("; set ACME_KEY to a valid key")


async def test_a_header_that_cannot_be_sent_is_named_without_its_value(
    transport: Transport,
) -> None:
    pieces = stream(transport, "http://127.0.0.1:9", headers={"X-A": "secret-key\r\nX-B: 1"})
    assert "the header 'X-A' of acme cannot be sent" in await failing(pieces, errors.InvalidRequest)


async def test_an_error_response_is_typed_with_the_providers_words(transport: Transport) -> None:
    body = b'{"error": {"type": "authentication_error", "message": "bad key secret-key"}}'
    async with serving([head(401, "application/json"), body]) as server:
        message = await failing(stream(transport, server.url), errors.AuthenticationFailed)
    assert message == "acme answered 401: bad key ***; set ACME_KEY to a valid key"


async def test_an_error_response_that_breaks_off_is_typed_by_its_status(
    transport: Transport,
) -> None:
    async with serving([head(503, Content_Length="999"), b"{"]) as server:
        await failing(stream(transport, server.url), errors.ProviderOverloaded)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": "1.5"}, 1.5),
        ({"Retry_After": format_datetime(NOON + timedelta(seconds=30), usegmt=True)}, 30.0),
        ({"Retry_After": format_datetime(NOON - timedelta(seconds=30), usegmt=True)}, 0.0),
        ({"Retry_After": "7", "retry_after_ms": "250"}, 0.25),
        ({"Retry_After": "soon"}, None),
        ({"Retry_After": "nan"}, None),
        ({"Retry_After": "-5"}, None),
        ({}, None),
    ],
)
async def test_the_wish_to_wait_is_read_however_it_is_written(
    transport: Transport, headers: dict[str, str], seconds: float | None
) -> None:
    async with serving([head(429, **headers), b"slow down"]) as server:
        with pytest.raises(errors.RateLimited) as caught:
            await collect(stream(transport, server.url))
    assert caught.value.retry_after == seconds


async def test_a_redirect_is_not_followed(transport: Transport) -> None:
    async with serving([head(), CHAT_HELLO]) as other:
        moved = head(307, Location=f"{other.url}/v1/chat/completions")
        async with serving([moved]) as server:
            message = await failing(stream(transport, server.url), errors.InvalidRequest)
        assert other.requests == []
    assert f"the address has moved to {other.url}" in message
    assert "set base_url to the new address" in message


async def test_a_stream_that_is_cut_says_so(transport: Transport) -> None:
    async with serving([head(), frames(delta(content="Hel"))]) as server:
        message = await failing(stream(transport, server.url), errors.BrokenStream)
    assert message == (
        "acme sent a broken stream: it was cut before the answer was whole; try again"
    )


async def test_half_an_event_at_the_end_is_a_cut(transport: Transport) -> None:
    async with serving([head(), CHAT_HELLO[:30]]) as server:
        assert "cut" in await failing(stream(transport, server.url), errors.BrokenStream)


async def test_pieces_come_before_the_stream_breaks(transport: Transport) -> None:
    cut = frames(delta(content="Hel"))
    async with serving([head(Content_Length="999"), cut]) as server:
        async with stream(transport, server.url) as pieces:
            assert await anext(pieces) == TextPiece("Hel")
            with pytest.raises(errors.BrokenStream, match="the connection broke"):
                await anext(pieces)


@pytest.mark.parametrize("last", ["silence", "break"])
async def test_after_a_finish_reason_a_break_or_a_silence_does_no_harm(
    transport: Transport, skip: Skip, last: str
) -> None:
    then = aging(skip) if last == "silence" else b""
    acts: list[Act] = [head(Content_Length="999"), frames(delta("stop", content="Hi")), then]
    async with serving(acts) as server:
        *_, answer = await collect(stream(transport, server.url))
    assert isinstance(answer, Answer)
    assert answer.parts == (Text("Hi"),)


@pytest.mark.parametrize("begin", [[], [head()], [head(), frames(delta(content="Hi"))]])
async def test_a_provider_that_falls_silent_is_given_up(
    transport: Transport, skip: Skip, begin: list[bytes]
) -> None:
    async with serving([*begin, aging(skip)]) as server:
        message = await failing(stream(transport, server.url), errors.SilentStream)
        await server.left.wait()
    assert message.startswith("acme sent nothing for 60 s; try again")


@pytest.mark.parametrize(
    "noise", [b": ping\n\n", b'event: ping\ndata: {"type": "ping"}\n\n', b"x", frames(delta())]
)
async def test_noise_does_not_count_as_an_answer(
    transport: Transport, skip: Skip, noise: bytes
) -> None:
    async with serving([head(), aging(skip, noise)]) as server:
        await failing(stream(transport, server.url), errors.SilentStream)
        await server.left.wait()


async def test_a_slow_answer_may_take_longer_than_one_silence(
    transport: Transport, skip: Skip
) -> None:
    seen = [anyio.Event() for _ in range(6)]
    order = iter(seen)

    async def wait(_: SocketStream) -> None:
        await next(order).wait()
        skip(40)

    slow: list[Act] = [frames(delta(content="a")), wait] * len(seen)
    async with serving([head(), *slow, CHAT_HELLO]) as server:
        async with stream(transport, server.url) as pieces:
            for event in seen:
                assert await anext(pieces) == TextPiece("a")
                event.set()
            *_, answer = [piece async for piece in pieces]
    assert isinstance(answer, Answer)
    assert answer.parts == (Text("aaaaaaHello"),)


async def test_an_answer_that_drips_for_ever_is_given_up(transport: Transport, skip: Skip) -> None:
    drip = frames(delta(content="a"))
    async with serving([head(), aging(skip, drip)]) as server:
        pieces = stream(transport, server.url, silence_timeout=600.0, attempt_timeout=60.0)
        message = await failing(pieces, errors.SlowStream)
        await server.left.wait()
    assert message.startswith("acme did not end its answer within 60 s")
    assert "attempt_timeout" in message


async def test_a_byte_at_a_time_does_not_count_as_an_answer(
    transport: Transport, skip: Skip
) -> None:
    line = b": nothing but a comment that never ends"
    async with serving([head(), line, aging(skip, b".")]) as server:
        await failing(stream(transport, server.url), errors.SilentStream)
        await server.left.wait()


async def test_headers_that_never_end_are_given_up(transport: Transport, skip: Skip) -> None:
    begun = b"HTTP/1.1 200 OK\r\n"
    async with serving([begun, aging(skip, b"X-More: and more\r\n")]) as server:
        await failing(stream(transport, server.url), errors.SilentStream)
        await server.left.wait()


@pytest.mark.parametrize("huge", [b"X-More: and more\r\n" * 20_000, b"X: " + b"a" * 300_000])
async def test_headers_without_an_end_in_sight_are_refused(
    transport: Transport, huge: bytes
) -> None:
    async with serving([b"HTTP/1.1 200 OK\r\n" + huge, "hold"]) as server:
        await failing(stream(transport, server.url), errors.ConnectionFailed)
        await server.left.wait()


async def test_time_that_the_reader_takes_is_not_the_providers_silence(
    transport: Transport, skip: Skip
) -> None:
    async with serving([head(), frames(delta(content="a")), CHAT_HELLO]) as server:
        async with stream(transport, server.url) as pieces:
            await anext(pieces)
            skip(100)
            for _ in range(10):  # whoever watches the time may look
                await anyio.sleep(0)
            rest = [piece async for piece in pieces]
    assert isinstance(rest[-1], Answer)


async def test_no_request_waits_for_the_connection_of_another(transport: Transport) -> None:
    async with serving([head(), frames(delta(content="a")), "hold"]) as server:
        async with AsyncExitStack() as opened:
            for _ in range(110):  # all of them stay open
                pieces = await opened.enter_async_context(stream(transport, server.url))
                assert await anext(pieces) == TextPiece("a")
            assert server.connections == 110


async def test_a_process_that_may_open_no_connection_is_told_so(transport: Transport) -> None:
    import resource

    async with serving([head(), CHAT_HELLO]) as server:
        await collect(stream(transport, server.url))
        most = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, most[1]))
        try:
            message = await failing(stream(transport, server.url), errors.ConnectionFailed)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, most)
        assert "too many open files in this process; raise its limit" in message
        await collect(stream(transport, server.url))


async def test_leaving_a_stream_closes_the_connection(transport: Transport) -> None:
    async with serving([head(), frames(delta(content="a")), "hold"]) as server:
        async with stream(transport, server.url) as pieces:
            await anext(pieces)
        with anyio.fail_after(60):
            await server.left.wait()


async def test_cancelling_closes_the_connection(transport: Transport) -> None:
    async with serving([head(), frames(delta(content="a")), "hold"]) as server:
        with anyio.CancelScope() as scope:
            async with stream(transport, server.url) as pieces:
                await anext(pieces)
                scope.cancel()
                await anext(pieces)
        assert scope.cancelled_caught
        with anyio.fail_after(60):
            await server.left.wait()


async def test_a_page_instead_of_a_stream_names_its_content_type(transport: Transport) -> None:
    async with serving([head(content_type="text/html; charset=utf-8"), b"<html>"]) as server:
        message = await failing(stream(transport, server.url), errors.BrokenStream)
    assert "it answered with text/html instead of an event stream" in message


async def test_anything_without_events_names_its_content_type(transport: Transport) -> None:
    async with serving([head(content_type="text/plain"), b"welcome\n"]) as server:
        message = await failing(stream(transport, server.url), errors.BrokenStream)
    assert "it answered with text/plain instead of events" in message


async def test_a_stream_with_another_content_type_is_read_all_the_same(
    transport: Transport,
) -> None:
    async with serving([head(content_type="text/plain"), CHAT_HELLO]) as server:
        *_, answer = await collect(stream(transport, server.url))
    assert isinstance(answer, Answer)


async def test_a_whole_chat_completion_is_an_answer(transport: Transport) -> None:
    function = {"name": "read", "arguments": "{}"}
    message = {"role": "assistant", "content": "Hi", "tool_calls": [{"function": function}]}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    async with serving([JSON, msgspec.json.encode(body)]) as server:
        *pieces, answer = await collect(stream(transport, server.url))
    assert pieces == [TextPiece("Hi")]
    assert isinstance(answer, Answer)
    assert answer.parts == (Text("Hi"), ToolCall("call_0", "read", "{}"))
    assert answer.stop == "tool_calls"


async def test_a_whole_message_is_an_answer(transport: Transport) -> None:
    body = {
        "type": "message",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    async with serving([JSON, msgspec.json.encode(body)]) as server:
        *pieces, answer = await collect(stream(transport, server.url, "anthropic"))
    assert pieces == [TextPiece("Hi")]
    assert isinstance(answer, Answer)
    assert answer.usage.input == 3


@ALL
async def test_an_error_with_status_200_is_typed(transport: Transport, protocol: str) -> None:
    body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}'
    async with serving([JSON, body]) as server:
        pieces = stream(transport, server.url, protocol)
        await failing(pieces, errors.ProviderOverloaded)


@ALL
@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"{broken", b'{"choices": []}'])
async def test_json_that_is_no_answer_names_its_content_type(
    transport: Transport, protocol: str, body: bytes
) -> None:
    async with serving([JSON, body]) as server:
        message = await failing(stream(transport, server.url, protocol), errors.BrokenStream)
    assert "application/json that is no answer" in message


async def test_a_proxy_of_the_environment_does_not_see_loopback(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving([head(502)]) as proxy, serving([head(), CHAT_HELLO]) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        await collect(stream(transport, server.url))
        assert proxy.requests == []


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\n%s\r\n0\r\n\r\n" % (len(CHAT_HELLO), CHAT_HELLO)
)


async def test_one_connection_serves_several_attempts(transport: Transport) -> None:
    async with serving([CHUNKED, "next", CHUNKED, "hold"]) as server:
        await collect(stream(transport, server.url))
        await collect(stream(transport, server.url))
        assert (server.connections, len(server.requests)) == (1, 2)


async def test_closing_the_transport_closes_its_connections(transport: Transport) -> None:
    async with serving([CHUNKED, "hold"]) as server:
        await collect(stream(transport, server.url))
        await transport.aclose()
        with anyio.fail_after(60):
            await server.left.wait()


def test_no_repr_shows_a_key() -> None:
    endpoint = Endpoint("acme", "anthropic", "http://h", "secret-key", {"X": "secret-header"})
    assert "secret" not in repr(endpoint)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:11434/v1", "127.0.0.1:11434"),
        ("https://user:word@api.example.com/v1", "api.example.com:443"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("http://host:99999", ""),
        ("host:80", ""),
    ],
)
def test_an_address_is_host_and_port(url: str, expected: str) -> None:
    assert address(url) == expected


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:8080", True),
        ("http://model.localhost", True),
        ("http://127.0.0.1.example.com", False),
        ("http://192.168.0.1", False),
        ("nonsense", False),
    ],
)
def test_loopback_is_this_machine_only(url: str, local: bool) -> None:
    assert is_loopback(url) is local
