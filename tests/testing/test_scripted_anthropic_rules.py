"""What the scripted provider refuses as Anthropic's Messages API does, and in its words."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from perdure.testing import ScriptedProvider, say
from tests.testing.anthropic_wire import (
    HEADERS,
    RESULT,
    TOOL,
    assistant,
    cached,
    post,
    request,
    system,
    text,
    use,
    user,
)

pytestmark = pytest.mark.anyio


async def refusal(client: httpx2.AsyncClient, body: Any, **options: Any) -> str:
    async with ScriptedProvider([say("Never said.")], **options) as provider:
        response = await post(client, provider, body)
        assert response.status_code == 400, response.text
        assert response.json()["error"]["type"] == "invalid_request_error"
        message = response.json()["error"]["message"]
        assert provider.refused[0].message == message
        assert provider.remaining == 1
        return message


async def accepts(client: httpx2.AsyncClient, body: Any) -> None:
    async with ScriptedProvider([say("Yes.")]) as provider:
        response = await post(client, provider, body)
        assert response.status_code == 200, response.text
        assert provider.refused == []


def unanswered(at: str, given: str) -> str:
    return (
        f"{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {given}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown member": (request(prompt="x"), "prompt: Extra inputs are not permitted"),
    "no messages": ({**request(), "messages": []}, "messages: at least one message is required"),
    "an unknown role": (
        request({"role": "tool", "content": "x"}),
        'messages: Unexpected role "tool". Allowed roles are "user", "assistant" or "system"',
    ),
    "an assistant first": (
        request(assistant("Hi"), user("Hello")),
        'messages: first message must use the "user" role',
    ),
    "empty content": (
        request(user()),
        (
            "messages.0: all messages must have non-empty content except for the optional final "
            "assistant message"
        ),
    ),
    "empty text": (request(user("")), "messages: text content blocks must be non-empty"),
    "white text": (
        request(user(" \n")),
        "messages: text content blocks must contain non-whitespace text",
    ),
    "empty text in the system": (
        request(system=[text("")]),
        "system: text content blocks must be non-empty",
    ),
    "a marker on empty text": (
        request(user(cached(text("")))),
        "messages.0.content.0.text: cache_control cannot be set for empty text blocks",
    ),
    "a last message of the assistant": (
        request(user("Hello"), assistant("Hi")),
        (
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        ),
    ),
    "white space at the end of a prefill": (
        request(user("Hello"), assistant("Hi "), model="claude-sonnet-4-5-20250929"),
        "messages: final assistant content cannot end with trailing whitespace",
    ),
    "a call in a user message": (
        request(user(use())),
        "messages.0: `tool_use` blocks can only be in `assistant` messages",
    ),
    "an unknown block member": (
        request(user({**text("Hi"), "id": "1"})),
        "messages.0.content.0.text.id: Extra inputs are not permitted",
    ),
    "a call without a result": (
        request(user("Go"), assistant(use()), user("And?")),
        unanswered("messages.1", "toolu_1"),
    ),
    "a call at the end": (
        request(user("Go"), assistant(use()), model="claude-haiku-4-5"),
        unanswered("messages.1", "toolu_1"),
    ),
    "words before a result": (
        request(user("Go"), assistant(use()), user("Here:", RESULT)),
        unanswered("messages.1", "toolu_1"),
    ),
    "a result of no call": (
        request(user("Go"), assistant("Gone"), user(RESULT)),
        (
            "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: "
            "toolu_1. Each `tool_result` block must have a corresponding `tool_use` block in the "
            "previous message."
        ),
    ),
    "two results of a call": (
        request(user("Go"), assistant(use()), user(RESULT, RESULT)),
        (
            "messages.2.content.1: each tool_use must have a single result. Found multiple "
            "`tool_result` blocks with id: toolu_1"
        ),
    ),
    "an id used twice": (
        request(user("Go"), assistant(use()), user(RESULT), assistant(use()), user(RESULT)),
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "an id with other characters": (
        request(user("Go"), assistant(use("a.b")), user(RESULT)),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "arguments as text": (
        request(user("Go"), assistant(use() | {"input": "{}"}), user(RESULT)),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "an error without words": (
        request(user("Go"), assistant(use()), user(RESULT | {"is_error": True, "content": ""})),
        "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
    ),
    "five markers": (
        request(user(*[cached(text("a"))] * 4), system=[cached(text("s"))]),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "a marker on thinking": (
        request(
            user("Go"),
            assistant(cached({"type": "thinking", "thinking": "", "signature": "s"}), "Hi"),
            user("On"),
        ),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    "a long marker after a short one": (
        request(user(cached(text("a"), "1h")), tools=[cached(TOOL)]),
        (
            "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come "
            "after a ttl='5m' cache_control block. Note that blocks are processed in the following "
            "order: `tools`, `system`, `messages`."
        ),
    ),
    "a tool name with a dot": (
        request(tools=[TOOL | {"name": "files.read"}]),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    "two tools of one name": (
        request(tools=[TOOL, TOOL]),
        "tools: Tool names must be unique.",
    ),
    "a tool without a schema": (
        request(tools=[{"name": "read"}]),
        "tools.0.custom.input_schema: Field required",
    ),
    "a schema of no object": (
        request(tools=[TOOL | {"input_schema": {"type": "string"}}]),
        "tools.0.custom.input_schema.type: Input should be 'object'",
    ),
    "thinking that nobody signed": (
        request(
            user("Go"),
            assistant({"type": "thinking", "thinking": "Hm", "signature": "c2ln"}, "Hi"),
            user("On"),
        ),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_rule_is_refused_in_the_words_of_the_api(
    name: str, client: httpx2.AsyncClient
) -> None:
    body, words = BROKEN[name]
    assert await refusal(client, body) == words


@pytest.mark.parametrize("member", ["model", "max_tokens", "messages"])
async def test_a_missing_member_is_refused(member: str, client: httpx2.AsyncClient) -> None:
    body = {key: value for key, value in request().items() if key != member}
    assert await refusal(client, body) == f"{member}: Field required"


ANYWHERE = "; the directive-only form (content: [] with output_config) is accepted at any position"
FOLLOW = (
    "role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool "
    f"result{ANYWHERE}"
)
PRECEDE = f"role 'system' must precede an 'assistant' message or end the array{ANYWHERE}"
MISPLACED: dict[str, tuple[list[Any], str]] = {
    "first": (
        [system("New"), user("Hello")],
        "messages.0: use the top-level 'system' parameter for the initial system prompt" + ANYWHERE,
    ),
    "after an assistant": (
        [user("Hello"), assistant("Hi"), system("New")],
        f"messages.2: {FOLLOW}",
    ),
    "before a user": ([user("Hello"), system("New"), user("On")], f"messages.1: {PRECEDE}"),
    "two in a row": ([user("Hello"), system("New"), system("Newer")], f"messages.1: {PRECEDE}"),
    "between a call and its result": (
        [user("Hello"), assistant(use()), system("New"), user(RESULT)],
        f"messages.2: {FOLLOW}",
    ),
    "empty": (
        [user("Hello"), system([])],
        "messages.1: system content must contain at least one block",
    ),
    "empty text": (
        [user("Hello"), system([text("")])],
        "messages: text content blocks must be non-empty",
    ),
    "a block that is no text": (
        [user("Hello"), system([RESULT])],
        "messages.1: role 'system' supports text, tool_addition, and tool_removal blocks only",
    ),
}


@pytest.mark.parametrize("name", MISPLACED)
async def test_a_misplaced_system_entry_is_refused(name: str, client: httpx2.AsyncClient) -> None:
    messages, words = MISPLACED[name]
    assert await refusal(client, request(*messages)) == words


@pytest.mark.parametrize(
    "messages",
    [
        [user("Hello"), system("New")],
        [user("Hello"), system([text("New"), text("Newer")]), assistant("Hi"), user("On")],
        [user("Go"), assistant(use()), user(RESULT), system("New")],
    ],
)
async def test_a_system_entry_after_a_user_turn_is_accepted(
    messages: list[Any], client: httpx2.AsyncClient
) -> None:
    await accepts(client, request(*messages))


@pytest.mark.parametrize(
    "model",
    ["claude-opus-4-8", "claude-opus-5-5", "claude-fable-5-1", "claude-haiku-5-5-20261001"],
)
async def test_newer_models_take_system_entries(model: str, client: httpx2.AsyncClient) -> None:
    await accepts(client, request(user("Hello"), system("New"), model=model))


@pytest.mark.parametrize(
    "model", ["claude-opus-4-7", "claude-sonnet-4-6", "claude-haiku-4-5", "model-1"]
)
async def test_older_and_unknown_models_refuse_system_entries(
    model: str, client: httpx2.AsyncClient
) -> None:
    body = request(user("Hello"), system("New"), model=model)
    assert await refusal(client, body) == "role 'system' is not supported on this model"


async def test_sonnet_5_accepts_a_system_entry_and_is_known_to_ignore_it(
    client: httpx2.AsyncClient,
) -> None:
    async with ScriptedProvider([say("Yes.")]) as provider:
        body = request(user("Hello"), system("New"), model="claude-sonnet-5")
        assert (await post(client, provider, body)).status_code == 200
        assert provider.requests[0].remarks == ("this model ignores the system entries messages.1",)


async def test_user_messages_in_a_row_are_one_turn_and_remarked(
    client: httpx2.AsyncClient,
) -> None:
    async with ScriptedProvider([say("Yes.")]) as provider:
        body = request(user("Go"), assistant(use()), user(RESULT), user("And on."))
        assert (await post(client, provider, body)).status_code == 200
        assert provider.requests[0].remarks == (
            "messages.2 to messages.3 have one role and are read as one turn",
        )


async def test_results_and_then_words_are_accepted(client: httpx2.AsyncClient) -> None:
    result = RESULT | {"content": [text("done")], "is_error": False}
    await accepts(client, request(user("Go"), assistant("So:", use()), user(result, "And on.")))


@pytest.mark.parametrize(
    ("headers", "status", "kind", "words"),
    [
        ({}, 401, "authentication_error", "x-api-key header is required"),
        ({"x-api-key": "wrong"}, 401, "authentication_error", "invalid x-api-key"),
        (
            {"x-api-key": "right"},
            400,
            "invalid_request_error",
            "anthropic-version: header is required",
        ),
    ],
)
async def test_a_key_and_a_version_are_required(
    headers: dict[str, str], status: int, kind: str, words: str, client: httpx2.AsyncClient
) -> None:
    async with ScriptedProvider([say("Hi")], api_key="right") as provider:
        response = await post(client, provider, request(), headers)
        assert response.status_code == status
        assert response.json()["error"] == {"type": kind, "message": words}


async def test_an_unknown_model_is_not_found(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([say("Hi")], models=["claude-opus-5"]) as provider:
        response = await post(client, provider, request(model="claude-none"))
        assert response.status_code == 404
        assert response.json()["error"]["message"] == "model: claude-none"


async def test_a_prompt_over_the_window_is_refused(client: httpx2.AsyncClient) -> None:
    words = await refusal(client, request(user("word " * 1000)), window=1000)
    assert words.startswith("prompt is too long: ")
    assert words.endswith(" tokens > 1000 maximum")


async def test_a_prompt_that_leaves_no_room_to_answer_is_refused(
    client: httpx2.AsyncClient,
) -> None:
    words = await refusal(client, request(), window=900)
    assert words.startswith("input length and `max_tokens` exceed context limit: ")


async def test_a_body_that_is_no_json_is_refused(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([say("Hi")]) as provider:
        url = f"{provider.anthropic_url}/v1/messages"
        response = await client.post(url, content=b"{", headers=HEADERS)
        assert response.status_code == 400
        assert provider.requests[0].json is None
        assert provider.requests[0].body == b"{"
