"""How the scripted provider answers as Chat Completions servers do."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from perdure.history.content import Usage
from perdure.testing import ScriptedProvider, call, calls, empty, error, say, think
from tests.testing.chat_wire import TOOL, post, request, system, user

pytestmark = pytest.mark.anyio


def chunks(response: httpx2.Response) -> list[dict[str, Any]]:
    lines = response.text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [msgspec.json.decode(line.removeprefix("data: ")) for line in lines[:-2]]


def assembled(response: httpx2.Response) -> dict[str, Any]:
    """Put the deltas of a stream together, in this test's own way."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": {}}
    for choice in (choice for chunk in chunks(response) for choice in chunk["choices"]):
        delta = choice["delta"]
        message["content"] += delta.get("content") or ""
        message["reasoning_content"] += delta.get("reasoning_content") or ""
        for part in delta.get("tool_calls", ()):
            known = message["tool_calls"].setdefault(part["index"], {"arguments": ""})
            known["arguments"] += part["function"]["arguments"]
            if "id" in part:
                known |= {"id": part["id"], "name": part["function"]["name"]}
    return message


async def test_the_stream_says_what_the_document_says(client: httpx2.AsyncClient) -> None:
    reply = think("Two files.") + say("Let me look.") + calls(("read", {"path": "a"}), ("list", {}))
    async with ScriptedProvider([reply, reply]) as provider:
        whole = (await post(client, provider, request())).json()["choices"][0]
        stream = await post(client, provider, request(stream=True))
    told = assembled(stream)
    assert told["content"] == whole["message"]["content"] == "Let me look."
    assert told["reasoning_content"] == whole["message"]["reasoning_content"] == "Two files."
    assert [(c["name"], c["arguments"]) for c in told["tool_calls"].values()] == [
        (c["function"]["name"], c["function"]["arguments"]) for c in whole["message"]["tool_calls"]
    ]
    assert whole["finish_reason"] == "tool_calls"
    assert chunks(stream)[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_redacted_thinking_is_left_out(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([think(redacted=True) + say("Hi")]) as provider:
        message = (await post(client, provider, request())).json()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "Hi"}


async def test_an_empty_answer_is_a_whole_stream(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([empty()]) as provider:
        response = await post(client, provider, request(stream=True))
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks(response)] == [None, "stop"]


async def test_broken_arguments_go_out_as_they_are(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([call("read", '{"path": ')]) as provider:
        told = assembled(await post(client, provider, request(stream=True)))
    assert told["tool_calls"][0]["arguments"] == '{"path": '


async def test_usage_comes_last_and_only_when_it_is_asked_for(client: httpx2.AsyncClient) -> None:
    usage = Usage(input=100, output=7, cache_read=60, reasoning=3)
    async with ScriptedProvider([say("Hi", usage=usage)] * 2) as provider:
        options = {"include_usage": True}
        asked = await post(client, provider, request(stream=True, stream_options=options))
        plain = await post(client, provider, request(stream=True))
    assert all("usage" not in chunk for chunk in chunks(plain))
    assert all(chunk["usage"] is None for chunk in chunks(asked)[:-1])
    last = chunks(asked)[-1]
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 0},
    }


async def test_usage_can_be_missing_though_it_is_asked_for(client: httpx2.AsyncClient) -> None:
    options = {"include_usage": True}
    async with ScriptedProvider([say("Hi", usage=None)]) as provider:
        response = await post(client, provider, request(stream=True, stream_options=options))
    assert all("usage" not in chunk for chunk in chunks(response))


def cached_tokens(response: httpx2.Response) -> int:
    return response.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


async def test_cached_tokens_are_those_of_the_longest_known_prefix(
    client: httpx2.AsyncClient,
) -> None:
    first = request(system("Base"), user("word " * 100))
    answer = {"role": "assistant", "content": "1"}
    longer = request(system("Base"), user("word " * 100), answer, user("On"))
    other = request(system("Base"), user("other"))
    async with ScriptedProvider([say("1")] * 4) as provider:
        whole = await post(client, provider, first)
        assert cached_tokens(whole) == 0
        again = cached_tokens(await post(client, provider, longer))
        assert again == whole.json()["usage"]["prompt_tokens"]
        assert 0 < cached_tokens(await post(client, provider, other)) < again
        assert cached_tokens(await post(client, provider, first | {"tools": [TOOL]})) == 0


@pytest.mark.parametrize(
    ("stop", "word"), [("length", "length"), ("refusal", "content_filter"), ("odd", "odd")]
)
async def test_a_stop_reason_is_put_in_openais_word(
    stop: str, word: str, client: httpx2.AsyncClient
) -> None:
    async with ScriptedProvider([say("Hi", stop=stop)]) as provider:
        response = await post(client, provider, request())
    assert response.json()["choices"][0]["finish_reason"] == word


async def test_an_error_has_openais_body(client: httpx2.AsyncClient) -> None:
    quota = error(429, "insufficient_quota", "You exceeded your current quota.")
    async with ScriptedProvider([error(429, headers={"retry-after": "2"}), quota]) as provider:
        limited = await post(client, provider, request())
        spent = await post(client, provider, request())
    assert limited.status_code == 429
    assert limited.headers["retry-after"] == "2"
    assert limited.json()["error"]["code"] == "rate_limit_exceeded"
    assert spent.json()["error"] == {
        "message": "You exceeded your current quota.",
        "type": "insufficient_quota",
        "param": None,
        "code": "insufficient_quota",
    }


async def test_models_are_listed_in_openais_form(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([], models=["a", "b"], api_key="k") as provider:
        refused = await client.get(f"{provider.openai_url}/models")
        headers = {"authorization": "Bearer k"}
        listed = await client.get(f"{provider.openai_url}/models", headers=headers)
    assert refused.status_code == 401
    assert [model["id"] for model in listed.json()["data"]] == ["a", "b"]
