"""What the client of a scripted provider sees when a reply goes wrong, on each protocol."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.testing import (
    Reply,
    ScriptedProvider,
    call,
    cut,
    disordered,
    empty,
    error,
    hold,
    html,
    malformed,
    nobody_listens,
    reset,
    say,
    stall,
    stream_error,
    think,
    trickle,
    unfinished,
)
from perdure.testing.stream import pieces, words
from tests.testing import anthropic_wire, chat_wire, gemini_wire, responses_wire

pytestmark = pytest.mark.anyio


class Form(msgspec.Struct, frozen=True):
    """How a protocol is asked, and what stands in its last frame and where an answer ends.

    `document` is the path where an answer comes whole, where the protocol has one for that.
    `in_pieces` tells whether a stream has an opening, and calls come in fragments.
    """

    path: str
    request: Callable[..., Any]
    last: bytes
    ends: bytes
    document: str = ""
    in_pieces: bool = True


def gemini_request(stream: bool) -> dict[str, Any]:
    """Return a request; whether its answer is streamed stands in the path."""
    return gemini_wire.request()


FORMS = {
    "openai-chat": Form(
        "v1/chat/completions", chat_wire.request, b"[DONE]", b'"finish_reason":"stop"'
    ),
    "openai-responses": Form(
        "v1/responses", responses_wire.request, b"response.completed", b"response.completed"
    ),
    "anthropic": Form("v1/messages", anthropic_wire.request, b'"message_stop"', b"end_turn"),
    "gemini": Form(
        "v1beta/models/m:streamGenerateContent?alt=sse",
        gemini_request,
        b'"finishReason":"STOP"',
        b'"finishReason":"STOP"',
        "v1beta/models/m:generateContent",
        in_pieces=False,
    ),
}


HEADERS = anthropic_wire.HEADERS | gemini_wire.HEADERS


class Seen:
    """What a client read of one answer before it ended, and how it ended."""

    def __init__(self) -> None:
        self.status = 0
        self.data = b""
        self.failure: httpx2.TransportError | None = None

    def frames(self) -> list[bytes]:
        """Return the data of the whole frames, as text, without the names of events."""
        return [line[6:] for line in self.data.splitlines() if line.startswith(b"data: ")]


class Client:
    """A client of one protocol."""

    def __init__(self, http: httpx2.AsyncClient, form: Form) -> None:
        self.http = http
        self.form = form

    def post(self, provider: ScriptedProvider, *, stream: bool = True) -> Any:
        path = self.form.path if stream else self.form.document or self.form.path
        url = f"{provider.anthropic_url}/{path}"
        body = self.form.request(stream=stream)
        return self.http.stream("POST", url, json=body, headers=HEADERS)

    async def read(self, provider: ScriptedProvider, *, stream: bool = True) -> Seen:
        seen = Seen()
        try:
            async with self.post(provider, stream=stream) as response:
                seen.status = response.status_code
                async for data in response.aiter_raw():
                    seen.data += data
        except httpx2.TransportError as failure:
            seen.failure = failure
        return seen

    async def ask(self, reply: Reply, *, stream: bool = True) -> Seen:
        async with ScriptedProvider([reply]) as provider:
            return await self.read(provider, stream=stream)

    def is_over(self, seen: Seen) -> bool:
        """Tell whether the last frame has come."""
        return self.form.last in seen.frames()[-1]


@pytest.fixture(params=FORMS)
def ask(request: pytest.FixtureRequest, client: httpx2.AsyncClient) -> Client:
    return Client(client, FORMS[request.param])


COUNTING = say("One two three four.")


async def test_a_cut_drops_the_connection_after_the_fragments(ask: Client) -> None:
    seen = await ask.ask(cut(COUNTING, after=2))
    assert isinstance(seen.failure, httpx2.RemoteProtocolError)
    assert b"One " in seen.data
    assert b"two " in seen.data
    assert b"three" not in seen.data


async def test_a_clean_cut_ends_the_body_properly(ask: Client) -> None:
    seen = await ask.ask(cut(COUNTING, after=2, clean=True))
    assert seen.failure is None
    assert b"two " in seen.data
    assert b"three" not in seen.data


async def test_a_cut_before_the_first_fragment_leaves_the_opening(ask: Client) -> None:
    seen = await ask.ask(cut(COUNTING, after=0))
    assert isinstance(seen.failure, httpx2.RemoteProtocolError)
    assert seen.status == 200
    assert (len(seen.frames()) >= 1) == ask.form.in_pieces
    assert b"One" not in seen.data


async def test_a_late_cut_leaves_out_only_the_ending(ask: Client) -> None:
    seen = await ask.ask(cut(COUNTING, after=99))
    assert b"four." in seen.data
    assert ask.form.ends not in seen.data


async def test_a_cut_document_is_half_a_document(ask: Client) -> None:
    seen = await ask.ask(cut(COUNTING), stream=False)
    assert isinstance(seen.failure, httpx2.RemoteProtocolError)
    assert seen.data.startswith(b"{")
    assert not seen.data.endswith(b"}")


async def test_a_call_can_be_cut_in_the_middle_of_its_arguments(ask: Client) -> None:
    seen = await ask.ask(cut(call("read", {"path": "a.txt"}), after=1))
    assert b"read" in seen.data
    assert (b"txt" not in seen.data) == ask.form.in_pieces


async def test_an_unfinished_stream_lacks_its_last_frame(ask: Client) -> None:
    whole, unended = await ask.ask(COUNTING), await ask.ask(unfinished(COUNTING))
    assert unended.failure is None
    assert ask.is_over(whole)
    assert unended.frames() == whole.frames()[:-1]


async def test_a_malformed_frame_comes_between_good_ones(ask: Client) -> None:
    whole, broken = await ask.ask(COUNTING), await ask.ask(malformed(COUNTING, after=2))
    assert b'{"broken": ' in broken.frames()
    assert [frame for frame in broken.frames() if frame != b'{"broken": '] == whole.frames()


async def test_any_bytes_can_be_put_into_a_stream(ask: Client) -> None:
    seen = await ask.ask(malformed(COUNTING, data=b"\xff\xfe\n\n", after=1))
    assert b"\xff\xfe\n\n" in seen.data


async def test_a_disordered_stream_has_its_last_fragment_behind_the_end(ask: Client) -> None:
    frames = (await ask.ask(disordered(COUNTING))).frames()
    late = max(i for i, frame in enumerate(frames) if b"four." in frame)
    end = next(i for i, frame in enumerate(frames) if ask.form.ends in frame)
    assert late == end + 1
    assert sorted(frames) == sorted((await ask.ask(COUNTING)).frames())


async def test_a_disordered_stream_loses_no_fragment_that_is_said_twice(ask: Client) -> None:
    again = say("la la la la ")
    frames = (await ask.ask(disordered(again))).frames()
    assert sorted(frames) == sorted((await ask.ask(again)).frames())


async def test_a_disordered_stream_without_fragments_is_as_it_was(ask: Client) -> None:
    assert (await ask.ask(disordered(empty()))).data == (await ask.ask(empty())).data


async def test_an_error_inside_the_stream_ends_it(ask: Client) -> None:
    seen = await ask.ask(stream_error(COUNTING, "overloaded_error", "Too busy", after=1))
    assert seen.status == 200
    assert seen.failure is None
    assert b"Too busy" in seen.frames()[-1]
    assert b"error" in seen.frames()[-1]
    assert b"two" not in seen.data


async def test_a_trickle_sends_the_same_bytes_one_at_a_time(ask: Client) -> None:
    whole, slow = await ask.ask(COUNTING), await ask.ask(trickle(COUNTING, seconds=0))
    assert slow.data == whole.data


async def test_a_trickle_is_as_slow_as_it_says(ask: Client) -> None:
    async with ScriptedProvider([trickle(seconds=1000)]) as provider:
        async with ask.post(provider) as response:
            read = response.aiter_raw()
            assert await anext(read) in {b"d", b"e"}
            with anyio.move_on_after(0.05) as waited:
                await anext(read)
    assert waited.cancelled_caught


async def test_a_reset_comes_before_any_header(ask: Client) -> None:
    seen = await ask.ask(reset())
    assert seen.status == 0
    assert isinstance(seen.failure, httpx2.ReadError | httpx2.RemoteProtocolError)


async def test_a_page_of_html_is_no_stream(ask: Client) -> None:
    seen = await ask.ask(html(502))
    assert seen.status == 502
    assert seen.data.startswith(b"<!doctype html>")


async def test_faults_can_be_combined(ask: Client) -> None:
    seen = await ask.ask(cut(trickle(malformed(COUNTING, after=1), seconds=0), after=3))
    assert seen.status == 200
    assert b'{"broken": ' in seen.data


async def test_what_is_held_waits_for_the_signal(ask: Client) -> None:
    signal = anyio.Event()
    async with ScriptedProvider([hold(signal, COUNTING)]) as provider:
        seen: list[Seen] = []

        async def read() -> None:
            seen.append(await ask.read(provider))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await provider.received(1)
            assert seen == []
            signal.set()
    assert ask.is_over(seen[0])


async def test_a_stream_can_be_held_in_the_middle(ask: Client) -> None:
    signal = threading.Event()
    async with ScriptedProvider([hold(signal, COUNTING, after=1)]) as provider:
        async with ask.post(provider) as response:
            text = response.aiter_text()
            read = ""
            while "One " not in read:
                read += await anext(text)
            assert "two" not in read
            signal.set()
            async for part in text:
                read += part
    assert "four." in read


Stall = Callable[[], Reply]


@pytest.mark.parametrize("stalled", [stall, lambda: stall(after=1), lambda: hold(anyio.Event())])
async def test_a_client_that_leaves_a_stalled_reply_is_noticed(stalled: Stall, ask: Client) -> None:
    async with ScriptedProvider([stalled(), say("Still here.")]) as provider:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask.read, provider)
            await provider.received(1)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(60):
            while not provider.abandoned:
                await anyio.sleep(0.002)
        assert provider.abandoned == [0]
        assert b"here." in (await ask.read(provider)).data


async def test_a_reply_that_was_read_whole_is_not_abandoned(ask: Client) -> None:
    async with ScriptedProvider([COUNTING, stall(COUNTING, seconds=0, after=1)]) as provider:
        for _ in range(2):
            assert ask.is_over(await ask.read(provider))
        assert provider.abandoned == []


async def test_leaving_the_provider_ends_a_stalled_reply(ask: Client) -> None:
    seen: list[Seen] = []

    async def read(provider: ScriptedProvider) -> None:
        seen.append(await ask.read(provider))

    async with anyio.create_task_group() as tasks:
        async with ScriptedProvider([stall()]) as provider:
            tasks.start_soon(read, provider)
            await provider.received(1)
    assert seen[0].failure is not None


async def test_nobody_listens_where_it_says_so(client: httpx2.AsyncClient) -> None:
    with nobody_listens() as url, pytest.raises(httpx2.ConnectError):
        await client.get(url)


def test_only_content_can_be_joined() -> None:
    with pytest.raises(TypeError, match="content"):
        _ = say("Hi") + error(500)


def test_joined_replies_keep_their_order_and_the_later_settings() -> None:
    joined = think("Hm.") + say("Hi", stop="length") + call("read", stop="odd", usage=None)
    assert [type(part).__name__ for part in joined.parts] == ["Thought", "Said", "Called"]
    assert (joined.stop, joined.usage) == ("odd", None)


@given(st.text())
def test_fragments_lose_nothing(text: str) -> None:
    assert "".join(words(text)) == text
    assert "".join(pieces(text)) == text
    assert len(words(text)) <= 24
    assert len(pieces(text)) <= 4
