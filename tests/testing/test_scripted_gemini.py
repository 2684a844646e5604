"""How the scripted provider answers as Gemini does, held against the types of its own library."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest
from google.genai import types

from perdure.history.content import Usage
from perdure.testing import Reply, ScriptedProvider, call, calls, empty, error, say, think
from tests.testing.gemini_wire import TOOL, model, post, request, user

pytestmark = pytest.mark.anyio

Chunk = dict[str, Any]


def chunks(response: httpx2.Response) -> list[Chunk]:
    """Return the chunks of a stream; each must be one that the library knows whole."""
    lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
    found = [msgspec.json.decode(line.removeprefix("data: ")) for line in lines]
    for chunk in found:
        types.GenerateContentResponse.model_validate_json(msgspec.json.encode(chunk))
    return found


def parts(*found: Chunk) -> list[dict[str, Any]]:
    return [part for chunk in found for part in chunk["candidates"][0]["content"]["parts"]]


def finish(chunk: Chunk) -> str:
    return chunk["candidates"][0]["finishReason"]


async def streamed(
    client: httpx2.AsyncClient, reply: Reply, *contents: Any, name: str = "model-1"
) -> list[Chunk]:
    async with ScriptedProvider([reply]) as provider:
        return chunks(await post(client, provider, request(*contents), name=name))


async def test_the_stream_says_what_the_document_says(client: httpx2.AsyncClient) -> None:
    reply = think("Two files.") + say("Let me look.") + calls(("read", {"path": "a"}), ("list", {}))
    async with ScriptedProvider([reply, reply]) as provider:
        stream = chunks(await post(client, provider, request()))
        whole = (await post(client, provider, request(), stream=False)).json()
    types.GenerateContentResponse.model_validate_json(msgspec.json.encode(whole))
    assert parts(*stream) == parts(whole)
    assert finish(stream[-1]) == finish(whole) == "STOP"


async def test_texts_come_in_fragments_and_calls_whole(client: httpx2.AsyncClient) -> None:
    reply = think("Hm hm.") + say("Let me look.") + call("read", {"path": "a"}, id="f1")
    found = parts(*await streamed(client, reply))
    texts = [(part["text"], part.get("thought")) for part in found if "text" in part]
    assert texts == [("Hm ", True), ("hm.", True), ("Let ", None), ("me ", None), ("look.", None)]
    expected = {"name": "read", "args": {"path": "a"}, "id": "f1"}
    assert [part["functionCall"] for part in found if "functionCall" in part] == [expected]


async def test_only_the_first_of_several_calls_is_signed(client: httpx2.AsyncClient) -> None:
    found = parts(*await streamed(client, calls(("read", {}), ("list", {}))))
    assert ["thoughtSignature" in part for part in found] == [True, False]


async def test_thinking_without_calls_is_signed_in_an_empty_text(
    client: httpx2.AsyncClient,
) -> None:
    *_, last = await streamed(client, think(redacted=True) + say("So."))
    (part,) = parts(last)
    assert part["text"] == ""
    assert part["thoughtSignature"]
    assert finish(last) == "STOP"


async def test_models_before_gemini_3_give_neither_ids_nor_signatures(
    client: httpx2.AsyncClient,
) -> None:
    (part,) = parts(*await streamed(client, call("read"), name="gemini-2.5-flash"))
    assert part == {"functionCall": {"name": "read", "args": {}}}


async def test_ids_of_calls_are_new_for_each_request(client: httpx2.AsyncClient) -> None:
    first, again, other = [
        parts(*await streamed(client, call("read"), user(text)))[0]["functionCall"]["id"]
        for text in ("Hello", "Hello", "Goodbye")
    ]
    assert first == again != other


async def test_arguments_that_are_no_object_are_a_malformed_call(
    client: httpx2.AsyncClient,
) -> None:
    (last,) = await streamed(client, call("read", '{"path": '))
    assert finish(last) == "MALFORMED_FUNCTION_CALL"
    assert "read" in last["candidates"][0]["finishMessage"]
    assert parts(last) == []


@pytest.mark.parametrize(
    ("stop", "sent"),
    [(None, "STOP"), ("length", "MAX_TOKENS"), ("refusal", "SAFETY"), ("OTHER", "OTHER")],
)
async def test_a_stop_reason_goes_out_in_the_words_of_the_provider(
    client: httpx2.AsyncClient, stop: str | None, sent: str
) -> None:
    assert finish((await streamed(client, say("So.", stop=stop)))[-1]) == sent


async def test_an_empty_answer_is_a_whole_stream(client: httpx2.AsyncClient) -> None:
    (last,) = await streamed(client, empty())
    assert (parts(last), finish(last)) == ([], "STOP")


async def test_tokens_are_counted_and_can_be_given_or_left_out(client: httpx2.AsyncClient) -> None:
    given = Usage(input=90, output=12, cache_read=60, reasoning=5)
    (*_, counted) = await streamed(client, say("So.", usage=given))
    assert counted["usageMetadata"] == {
        "promptTokenCount": 90,
        "candidatesTokenCount": 7,
        "totalTokenCount": 102,
        "cachedContentTokenCount": 60,
        "thoughtsTokenCount": 5,
    }
    assert "usageMetadata" not in (await streamed(client, say("So.", usage=None)))[-1]


async def test_the_beginning_of_an_earlier_request_is_cached(client: httpx2.AsyncClient) -> None:
    facts = {"systemInstruction": {"parts": [{"text": "Facts. " * 40}]}, "tools": [TOOL]}
    first = request(user("Hello"), **facts)
    longer = request(user("Hello"), model("Hi."), user("Go on."), **facts)
    changed = request(user("Hello"), **facts, toolConfig={})
    async with ScriptedProvider([say("Hi.")] * 4) as provider:
        counts = [
            chunks(await post(client, provider, body, name=name))[-1]["usageMetadata"]
            for body, name in [(first, "a"), (longer, "a"), (longer, "b"), (changed, "a")]
        ]
    cached = [count.get("cachedContentTokenCount", 0) for count in counts]
    assert cached == [0, counts[0]["promptTokenCount"], 0, 0]


async def test_what_is_sampled_does_not_count_for_the_cache_but_how_it_thinks_does(
    client: httpx2.AsyncClient,
) -> None:
    settings: list[dict[str, Any]] = [
        {"temperature": 0},
        {"temperature": 1},
        {"thinkingConfig": {"thinkingLevel": "LOW"}},
    ]
    async with ScriptedProvider([say("Hi.")] * 3) as provider:
        found = [
            chunks(await post(client, provider, request(generationConfig=each)))[-1]
            for each in settings
        ]
    cached = ["cachedContentTokenCount" in each["usageMetadata"] for each in found]
    assert cached == [False, True, False]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (error(503), (503, "UNAVAILABLE", "The model is overloaded. Please try again later.")),
        (error(429, message="Slow down."), (429, "RESOURCE_EXHAUSTED", "Slow down.")),
        (error(400, "FAILED_PRECONDITION", "Not here."), (400, "FAILED_PRECONDITION", "Not here.")),
    ],
)
async def test_an_error_has_the_body_of_the_real_one(
    client: httpx2.AsyncClient, reply: Reply, expected: tuple[int, str, str]
) -> None:
    async with ScriptedProvider([reply]) as provider:
        response = await post(client, provider, request())
    code, status, message = expected
    assert response.status_code == code
    assert response.json() == {"error": {"code": code, "message": message, "status": status}}


async def test_the_models_are_listed(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([], models=["gemini-4-argon"], api_key="k") as provider:
        url = f"{provider.gemini_url}/models"
        response = await client.get(url, headers={"x-goog-api-key": "k"})
        refused = await client.get(url)
    assert [each["name"] for each in response.json()["models"]] == ["models/gemini-4-argon"]
    assert refused.status_code == 403


async def test_the_configuration_leads_to_it_with_a_key() -> None:
    async with ScriptedProvider([], api_key="k") as provider:
        config = provider.config("gemini", model="gemini-4-argon", max_output=9)
    assert config["model"] == "scripted/gemini-4-argon"
    (found,) = config["providers"].values()
    assert found == {
        "protocol": "gemini",
        "base_url": provider.gemini_url,
        "models": {"gemini-4-argon": {"max_output": 9}},
        "headers": {"x-goog-api-key": "k"},
    }
