"""How the scripted provider answers as OpenAI's Responses API does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import msgspec
import pytest

from perdure.history.content import Usage
from perdure.testing import Reply, ScriptedProvider, call, calls, empty, error, say, think
from tests.models.openai_types import check_event, check_response
from tests.testing.responses_wire import TOOL, assistant, developer, post, request, user

pytestmark = pytest.mark.anyio

Body = dict[str, Any]
Change = Callable[[Body], None]

EVERYTHING = (
    think("Which one? ")
    + say("I look at both.")
    + calls(("read", {"path": "a"}), ("read", {"path": "b"}))
)


def events(response: httpx2.Response) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for frame in response.text.removesuffix("\n\n").split("\n\n"):
        name, data = frame.split("\n")
        event = msgspec.json.decode(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


async def streamed(client: httpx2.AsyncClient, reply: Reply, **members: Any) -> list[Any]:
    async with ScriptedProvider([reply]) as provider:
        return events(await post(client, provider, request(stream=True, **members)))


async def whole(client: httpx2.AsyncClient, reply: Reply, **members: Any) -> dict[str, Any]:
    async with ScriptedProvider([reply]) as provider:
        return (await post(client, provider, request(**members))).json()


REPLIES = {
    "everything": EVERYTHING,
    "text": say("Hello."),
    "nothing": empty(),
    "redacted reasoning": think(redacted=True) + say("Yes."),
    "broken arguments": call("read", '{"path": '),
    "a cut answer": say("Hel", stop="length"),
    "no usage": say("Hello.", usage=None),
}


@pytest.mark.parametrize("name", REPLIES)
async def test_every_event_is_as_openais_own_library_knows_it(
    name: str, client: httpx2.AsyncClient
) -> None:
    for event in await streamed(client, REPLIES[name], tools=[TOOL]):
        check_event(event)


@pytest.mark.parametrize("name", REPLIES)
async def test_a_whole_answer_is_as_openais_own_library_knows_it(
    name: str, client: httpx2.AsyncClient
) -> None:
    check_response(await whole(client, REPLIES[name], tools=[TOOL]))


async def test_events_come_in_the_documented_order(client: httpx2.AsyncClient) -> None:
    found = await streamed(client, think("Hm.") + say("Hi.") + call("read"))
    kinds = [event["type"].removeprefix("response.") for event in found]
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))


async def test_a_whole_answer_says_what_its_stream_says(client: httpx2.AsyncClient) -> None:
    items = [
        event["item"]
        for event in await streamed(client, EVERYTHING)
        if event["type"] == "response.output_item.done"
    ]
    plain = await whole(client, EVERYTHING)

    def told(output: list[dict[str, Any]]) -> list[Any]:
        return [(item["type"], item.get("content"), item.get("arguments")) for item in output]

    assert told(items) == told(plain["output"])


async def test_reasoning_is_sealed_where_that_is_asked_for(client: httpx2.AsyncClient) -> None:
    asked = await whole(client, think("Hm.") + say("Hi."))
    plain = await whole(client, think("Hm.") + say("Hi."), include=[])
    assert asked["output"][0]["encrypted_content"]
    assert "encrypted_content" not in plain["output"][0]
    assert asked["output"][0]["summary"] == [{"type": "summary_text", "text": "Hm."}]


async def test_redacted_reasoning_has_no_summary(client: httpx2.AsyncClient) -> None:
    told = await whole(client, think("Hm.", redacted=True) + say("Hi."))
    assert told["output"][0]["summary"] == []


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("length", "max_output_tokens"), ("refusal", "content_filter"), ("odd", "odd")],
)
async def test_a_stop_reason_is_put_in_openais_word(
    stop: str, reason: str, client: httpx2.AsyncClient
) -> None:
    told = await whole(client, say("Hi", stop=stop))
    assert (told["status"], told["incomplete_details"]) == ("incomplete", {"reason": reason})
    last = (await streamed(client, say("Hi", stop=stop)))[-1]
    assert last["type"] == "response.incomplete"


async def test_usage_is_what_the_script_says(client: httpx2.AsyncClient) -> None:
    usage = Usage(input=100, output=7, cache_read=60, cache_write=5, reasoning=3)
    assert (await whole(client, say("Hi", usage=usage)))["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 107,
    }


def cached(response: httpx2.Response) -> int:
    return response.json()["usage"]["input_tokens_details"]["cached_tokens"]


async def test_cached_tokens_are_those_of_the_longest_known_prefix(
    client: httpx2.AsyncClient,
) -> None:
    first = request(developer("Base"), user("word " * 100))
    longer = request(developer("Base"), user("word " * 100), assistant("1"), user("On"))
    other = request(developer("Base"), user("other"))
    async with ScriptedProvider([say("1")] * 5) as provider:
        before = await post(client, provider, first)
        assert cached(before) == 0
        again = cached(await post(client, provider, longer))
        assert again == before.json()["usage"]["input_tokens"]
        assert 0 < cached(await post(client, provider, other)) < again
        assert cached(await post(client, provider, first | {"tools": [TOOL]})) == 0
        assert cached(await post(client, provider, first | {"reasoning": {"effort": "low"}})) == 0


async def test_an_error_has_openais_body(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([error(429, headers={"retry-after": "2"})]) as provider:
        response = await post(client, provider, request())
    assert response.headers["retry-after"] == "2"
    assert response.json()["error"]["code"] == "rate_limit_exceeded"


# Reasoning is bound to what stands before it.


async def continued(client: httpx2.AsyncClient, provider: ScriptedProvider) -> dict[str, Any]:
    """Return the request that follows an answer with reasoning."""
    first = request(user("Hello"), tools=[TOOL])
    answered = (await post(client, provider, first)).json()["output"]
    return first | {"input": [user("Hello"), *answered, user("On")]}


REASONED = think("Hm.") + say("Hi.")


async def follow(
    client: httpx2.AsyncClient, change: Change, reply: Reply = REASONED
) -> httpx2.Response:
    """Ask, change the request that would follow, and send it."""
    async with ScriptedProvider([reply, say("Yes.")]) as provider:
        body = await continued(client, provider)
        change(body)
        return await post(client, provider, body)


@pytest.mark.parametrize("reply", [REASONED, think(redacted=True) + say("Hi.")])
async def test_reasoning_is_accepted_behind_the_same_prefix(
    reply: Reply, client: httpx2.AsyncClient
) -> None:
    def nothing(body: Body) -> None:
        pass

    response = await follow(client, nothing, reply)
    assert response.status_code == 200, response.text


def forget(body: Body) -> None:
    """Leave the reasoning out, and with it the id of what it led to."""
    del body["input"][1]
    del body["input"][1]["id"]


def alter(body: Body) -> None:
    body["input"][1]["encrypted_content"] = "gAAAAabcdef"


def exchange(body: Body) -> None:
    body["input"][1]["id"] = "rs_0000000000000000"
    del body["input"][2]["id"]


def rewrite(body: Body) -> None:
    body["input"][0] = user("Hi")


def equip(body: Body) -> None:
    body["tools"] = [TOOL, TOOL | {"name": "write"}]


def switch(body: Body) -> None:
    body["model"] = "model-2"


async def test_reasoning_may_be_left_out_with_the_id_behind_it(client: httpx2.AsyncClient) -> None:
    assert (await follow(client, forget)).status_code == 200


SEAL = "Encrypted content could not be decrypted or parsed."
CHANGES: dict[str, tuple[Change, str]] = {
    "an earlier item": (rewrite, "The input before it differs from that it was created with."),
    "the tools": (equip, "The tools differ from those it was created with."),
    "the model": (switch, SEAL),
    "the seal": (alter, SEAL),
    "another item's seal": (exchange, SEAL),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_reasoning_is_refused_behind_a_change_of(
    name: str, client: httpx2.AsyncClient
) -> None:
    change, reason = CHANGES[name]
    response = await follow(client, change)
    assert response.status_code == 400
    said = response.json()["error"]
    assert said["code"] == "invalid_encrypted_content"
    assert said["message"].startswith("The encrypted content ")
    assert said["message"].endswith(f" could not be verified. Reason: {reason}")


async def test_a_provider_that_starts_later_knows_the_seals(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([REASONED]) as provider:
        body = await continued(client, provider)
    async with ScriptedProvider([say("Yes.")]) as provider:
        assert (await post(client, provider, body)).status_code == 200
        body["input"][0] = user("Hi")
        assert (await post(client, provider, body)).status_code == 400


async def test_what_an_item_began_with_is_no_seal(client: httpx2.AsyncClient) -> None:
    begun, *_ = (
        event["item"]
        for event in await streamed(client, REASONED)
        if event["type"] == "response.output_item.added"
    )

    def go_back(body: Body) -> None:
        body["input"][1] |= begun

    assert (await follow(client, go_back)).status_code == 400
