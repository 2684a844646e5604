"""Thinking is bound to the conversation before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from perdure.testing import ScriptedProvider, say, think
from tests.testing.anthropic_wire import TOOL, assistant, cached, post, request, user

pytestmark = pytest.mark.anyio

Change = Callable[[dict[str, Any]], dict[str, Any]]

CHANGES: dict[str, tuple[Change, str]] = {
    "the system": (
        lambda body: body | {"system": "Other."},
        "The `system` prompt differs from the one this block was created with.",
    ),
    "the tools": (
        lambda body: body | {"tools": [TOOL, TOOL | {"name": "write"}]},
        "The `tools` list differs from the one this block was created with.",
    ),
    "an earlier message": (
        lambda body: body | {"messages": [user("Hi"), *body["messages"][1:]]},
        "The messages before this block differ from those it was created with.",
    ),
}


async def answered(client: httpx2.AsyncClient, provider: ScriptedProvider) -> dict[str, Any]:
    """Return the request that follows an answer with thinking."""
    first = request(user("Hello"), system="Be kind.", tools=[TOOL])
    content = (await post(client, provider, first)).json()["content"]
    return first | {"messages": [user("Hello"), assistant(*content), user("On")]}


@pytest.mark.parametrize("name", CHANGES)
async def test_thinking_is_refused_behind_a_changed_prefix(
    name: str, client: httpx2.AsyncClient
) -> None:
    change, words = CHANGES[name]
    async with ScriptedProvider([think("Hm.") + say("Hi."), say("Yes.")]) as provider:
        response = await post(client, provider, change(await answered(client, provider)))
        assert response.status_code == 400
        message = response.json()["error"]["message"]
    assert message.startswith("messages.1.content.0: Invalid `signature` in `thinking` block. The ")
    assert message.endswith(words)


@pytest.mark.parametrize("redacted", [False, True])
async def test_thinking_is_accepted_behind_the_same_prefix(
    redacted: bool, client: httpx2.AsyncClient
) -> None:
    reply = think("Hm.", redacted=redacted) + say("Hi.")
    async with ScriptedProvider([reply, say("Yes.")]) as provider:
        response = await post(client, provider, await answered(client, provider))
        assert response.status_code == 200, response.text


async def test_markers_and_left_out_thinking_do_not_break_a_binding(
    client: httpx2.AsyncClient,
) -> None:
    script = [think("Hm.") + say("Hi."), think("Hm!") + say("Ho."), say("Yes.")]
    async with ScriptedProvider(script) as provider:
        second = await answered(client, provider)
        content = (await post(client, provider, second)).json()["content"]
        hello, hi, on = second["messages"]
        bare = assistant(*hi["content"][1:])
        marked = user(cached(hello["content"][0]))
        third = second | {"messages": [marked, bare, on, assistant(*content), user("More")]}
        response = await post(client, provider, third)
        assert response.status_code == 200, response.text


async def test_altered_thinking_is_refused(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([think("Hm.") + say("Hi."), say("Yes.")]) as provider:
        body = await answered(client, provider)
        body["messages"][1]["content"][0]["thinking"] = "Hm!"
        response = await post(client, provider, body)
        assert response.status_code == 400
        words = "messages.1.content.0: Invalid `signature` in `thinking` block"
        assert response.json()["error"]["message"] == words


async def test_thinking_of_another_model_is_refused(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([think("Hm.") + say("Hi."), say("Yes.")]) as provider:
        body = await answered(client, provider) | {"model": "claude-opus-5-5"}
        assert (await post(client, provider, body)).status_code == 400


async def test_a_provider_that_starts_later_knows_the_signatures(
    client: httpx2.AsyncClient,
) -> None:
    async with ScriptedProvider([think("Hm.") + say("Hi.")]) as provider:
        body = await answered(client, provider)
    async with ScriptedProvider([say("Yes.")]) as provider:
        assert (await post(client, provider, body)).status_code == 200
        assert (await post(client, provider, body | {"system": "Other."})).status_code == 400
