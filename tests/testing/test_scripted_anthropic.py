"""How the scripted provider answers as Anthropic's Messages API does."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from perdure.history.content import Usage
from perdure.testing import ScriptedProvider, call, calls, empty, error, say, think
from tests.testing.anthropic_wire import CACHED, HEADERS, TOOL, cached, post, request, text, user

pytestmark = pytest.mark.anyio


def events(response: httpx2.Response) -> list[dict[str, Any]]:
    lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
    return [msgspec.json.decode(line.removeprefix("data: ")) for line in lines]


def assembled(response: httpx2.Response) -> list[dict[str, Any]]:
    """Put the content blocks of a stream together, in this test's own way."""
    blocks: list[dict[str, Any]] = []
    for event in events(response):
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            for key, value in delta.items():
                name = {"partial_json": "json"}.get(key, key)
                if key != "type":
                    blocks[event["index"]][name] += value
    for block in blocks:
        arguments = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = msgspec.json.decode(arguments)
    return blocks


async def test_the_stream_says_what_the_document_says(client: httpx2.AsyncClient) -> None:
    reply = think("Two files.") + say("Let me look.") + calls(("read", {"path": "a"}), ("list", {}))
    async with ScriptedProvider([reply, reply]) as provider:
        whole = await post(client, provider, request())
        stream = await post(client, provider, request() | {"stream": True})
    content = whole.json()["content"]
    kinds = ["thinking", "text", "tool_use", "tool_use"]
    assert [block["type"] for block in content] == kinds
    assert [b | {"id": ""} for b in assembled(stream)] == [b | {"id": ""} for b in content]
    assert whole.json()["stop_reason"] == "tool_use"
    assert events(stream)[-2]["delta"]["stop_reason"] == "tool_use"


async def test_a_stream_has_the_frames_of_the_real_one(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([say("Hello")]) as provider:
        response = await post(client, provider, request(stream=True))
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert [event["type"] for event in events(response)] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert response.text.startswith("event: message_start\ndata: {")


async def test_an_empty_answer_is_a_whole_stream(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([empty()]) as provider:
        response = await post(client, provider, request(stream=True))
    kinds = [event["type"] for event in events(response)]
    assert kinds == ["message_start", "message_delta", "message_stop"]


async def test_ids_of_calls_can_be_given_and_are_otherwise_new_for_each_request(
    client: httpx2.AsyncClient,
) -> None:
    async with ScriptedProvider([call("a", id="toolu_mine"), call("a"), call("a")]) as provider:
        ids = [
            (await post(client, provider, request(user(words)))).json()["content"][0]["id"]
            for words in ("one", "two", "three")
        ]
    assert ids[0] == "toolu_mine"
    assert len({*ids}) == 3


async def test_usage_is_reported_as_anthropic_splits_it(client: httpx2.AsyncClient) -> None:
    usage = Usage(input=100, output=7, cache_read=60, cache_write=30)
    async with ScriptedProvider([say("Hi", usage=usage)]) as provider:
        response = await post(client, provider, request(stream=True))
    told = events(response)[0]["message"]["usage"]
    assert told["input_tokens"] == 10
    assert told["cache_read_input_tokens"] == 60
    assert told["cache_creation_input_tokens"] == 30
    assert events(response)[-2]["usage"] == {"output_tokens": 7}


async def test_usage_can_be_missing(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([say("Hi", usage=None)]) as provider:
        response = await post(client, provider, request(stream=True))
    assert all("usage" not in event for event in events(response))
    assert "usage" not in events(response)[0]["message"]


@pytest.mark.parametrize(
    ("stop", "word"), [("length", "max_tokens"), ("pause", "pause_turn"), ("odd", "odd")]
)
async def test_a_stop_reason_is_put_in_anthropics_word(
    stop: str, word: str, client: httpx2.AsyncClient
) -> None:
    async with ScriptedProvider([say("Hi", stop=stop)]) as provider:
        assert (await post(client, provider, request())).json()["stop_reason"] == word


@pytest.mark.parametrize(
    ("status", "kind"), [(429, "rate_limit_error"), (500, "api_error"), (529, "overloaded_error")]
)
async def test_an_error_has_anthropics_body(
    status: int, kind: str, client: httpx2.AsyncClient
) -> None:
    async with ScriptedProvider([error(status, headers={"retry-after": "3"})]) as provider:
        response = await post(client, provider, request())
    assert response.status_code == status
    assert response.json()["type"] == "error"
    assert response.json()["error"]["type"] == kind
    assert response.headers["retry-after"] == "3"


def usage_of(response: httpx2.Response) -> tuple[int, int, int]:
    usage = response.json()["usage"]
    return (
        usage["input_tokens"],
        usage["cache_read_input_tokens"],
        usage["cache_creation_input_tokens"],
    )


async def test_a_marked_prefix_is_written_once_and_then_read(client: httpx2.AsyncClient) -> None:
    marked = request(user(cached(text("a" * 400))), system=[cached(text("b" * 400))])
    async with ScriptedProvider([say("1"), say("2")]) as provider:
        fresh, read, written = usage_of(await post(client, provider, marked))
        assert (fresh, read) == (0, 0)
        assert written > 200
        again = usage_of(await post(client, provider, marked))
    assert again == (0, written, 0)


async def test_an_older_entry_within_twenty_blocks_is_found(client: httpx2.AsyncClient) -> None:
    first = request(user("1", cached(text("2"))))
    near = request(user("1", "2", *"abc", cached(text("end"))))
    far = request(user("1", "2", *"abcdefghijklmnopqrst", cached(text("end"))))
    async with ScriptedProvider([say("1"), say("2"), say("3")]) as provider:
        _, _, written = usage_of(await post(client, provider, first))
        assert usage_of(await post(client, provider, near))[1] == written
        assert usage_of(await post(client, provider, far))[1] == 0


@pytest.mark.parametrize(
    "change",
    [{"tools": [TOOL]}, {"system": "Other"}, {"model": "claude-opus-4-8"}, {"thinking": {}}],
)
async def test_a_change_at_the_front_loses_the_cache(
    change: dict[str, Any], client: httpx2.AsyncClient
) -> None:
    marked = request(user(cached(text("a" * 400))))
    async with ScriptedProvider([say("1"), say("2")]) as provider:
        await post(client, provider, marked)
        assert usage_of(await post(client, provider, marked | change))[1] == 0


async def test_the_automatic_marker_marks_the_last_block(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([say("1")]) as provider:
        fresh, _, written = usage_of(await post(client, provider, request(cache_control=CACHED)))
    assert fresh == 0
    assert written > 0


async def test_models_are_listed_in_anthropics_form(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([], models=["claude-opus-5"]) as provider:
        response = await client.get(f"{provider.anthropic_url}/v1/models", headers=HEADERS)
        assert [model["id"] for model in response.json()["data"]] == ["claude-opus-5"]
        assert response.json()["last_id"] == "claude-opus-5"
        assert provider.requests == []
        assert [other.target for other in provider.others] == ["/v1/models"]
