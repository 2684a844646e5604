"""Every kind of stream that the scripted provider plays, held against the providers' libraries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import msgspec
import pytest

from perdure.testing import Reply, ScriptedProvider, calls, empty, say, stream_error, think
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.models.sdk_types import check_event, check_request
from tests.testing import anthropic_wire, chat_wire, gemini_wire, openai_wire, responses_wire

pytestmark = pytest.mark.anyio

Post = Callable[[httpx2.AsyncClient, ScriptedProvider, Any], Awaitable[httpx2.Response]]

ASKED: dict[ProtocolName, tuple[Post, Any]] = {
    "openai-chat": (
        chat_wire.post,
        chat_wire.request(
            openai_wire.user("Hi"), stream=True, stream_options={"include_usage": True}
        ),
    ),
    "openai-responses": (responses_wire.post, responses_wire.request(stream=True)),
    "anthropic": (anthropic_wire.post, anthropic_wire.request(stream=True)),
    "gemini": (gemini_wire.post, gemini_wire.request(generationConfig={"maxOutputTokens": 100})),
}
SAID = think("Two files.") + say("Let me look.")
CALLS = calls(("read", {"path": "a"}), ("list", {}))
REPLIES = {
    "words": say("Hello there."),
    "reasoning and calls": SAID + CALLS,
    "sealed reasoning": think(redacted=True) + CALLS,
    "nothing": empty(),
    "cut at the limit": say("Hello there.", stop="length"),
    "refused": say("No.", stop="refusal"),
    "broken off": stream_error(SAID + CALLS, after=3),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_event_is_one_that_the_providers_library_knows(
    client: httpx2.AsyncClient, protocol: ProtocolName, reply: Reply
) -> None:
    post, body = ASKED[protocol]
    check_request(protocol, body)
    async with ScriptedProvider([reply]) as provider:
        response = await post(client, provider, body)
    lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
    events = [line.removeprefix("data: ") for line in lines if line != "data: [DONE]"]
    assert events
    for event in events:
        check_event(protocol, msgspec.json.decode(event))


def test_a_member_that_a_library_lacks_is_noticed() -> None:
    for protocol in ("openai-chat", "anthropic"):
        _, body = ASKED[protocol]
        (message,) = body["messages"]
        with pytest.raises(AssertionError):
            check_request(protocol, body | {"messages": [message | {"mood": "good"}]})
