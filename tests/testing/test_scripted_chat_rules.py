"""What the scripted provider refuses as Chat Completions servers do, and in their words."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx2
import pytest

from perdure.testing import ScriptedProvider, say
from tests.testing.chat_wire import TOOL, asks, post, request, result, system, user
from tests.testing.openai_wire import accepted, refused

pytestmark = pytest.mark.anyio


refusal = partial(refused, post)
accepts = partial(accepted, post)


def unanswered(given: str) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: " + given
    )


def empty_array(at: str) -> str:
    return (
        f"Invalid '{at}': empty array. Expected an array with minimum length 1, but got an empty "
        "array instead."
    )


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"messages": [user("Hi")]}, "you must provide a model parameter"),
    "no messages": ({"model": "m"}, "Missing required parameter: 'messages'."),
    "empty messages": (
        {"model": "m", "messages": []},
        empty_array("messages"),
    ),
    "an unknown role": (
        request(system("Hi", "human")),
        (
            "Invalid value: 'human'. Supported values are: 'system', 'assistant', 'user', "
            "'function', 'tool', and 'developer'."
        ),
    ),
    "no content": (
        request(user(None)),
        "Invalid value for 'content': expected a string, got null.",
    ),
    "an empty list of parts": (
        request(user([])),
        empty_array("messages[0].content"),
    ),
    "a number as content": (
        request(user(5)),
        (
            "Invalid type for 'messages[0].content': expected one of a string or array of objects, "
            "but got a number instead."
        ),
    ),
    "an image in a system message": (
        request(system([{"type": "image_url", "image_url": {"url": "x"}}])),
        "Invalid value: 'image_url'. Supported values are: 'text'.",
    ),
    "a call without a result": (
        request(user("Go"), asks("call_1", "call_2"), result("call_1"), user("On")),
        unanswered("call_2"),
    ),
    "a system message before the results": (
        request(user("Go"), asks("call_1"), system("New"), result("call_1")),
        unanswered("call_1"),
    ),
    "a call at the end": (
        request(user("Go"), asks("call_1")),
        unanswered("call_1"),
    ),
    "a result of no call": (
        request(user("Go"), result("call_1")),
        (
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'."
        ),
    ),
    "a result of another call": (
        request(user("Go"), asks("call_1"), result("call_2")),
        (
            "Invalid parameter: 'tool_call_id' of 'call_2' not found in 'tool_calls' of previous "
            "message."
        ),
    ),
    "two results of a call": (
        request(user("Go"), asks("call_1", "call_2"), result("call_1"), result("call_1")),
        "Duplicate value for 'tool_call_id' of 'call_1' in message[3].",
    ),
    "one id for two calls": (
        request(user("Go"), asks("call_1", "call_1"), result("call_1")),
        "Duplicate value for 'id' in messages[1].tool_calls.",
    ),
    "an empty list of calls": (
        request(user("Go"), {"role": "assistant", "content": "Hi", "tool_calls": []}),
        empty_array("messages[1].tool_calls"),
    ),
    "arguments as an object": (
        request(user("Go"), asks("call_1", arguments={}), result("call_1")),
        (
            "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, "
            "but got an object instead."
        ),
    ),
    "a call of a name with a space": (
        request(user("Go"), asks("call_1", name="read it"), result("call_1")),
        (
            "Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        ),
    ),
    "a long id": (
        request(user("Go"), asks("c" * 41), result("c" * 41)),
        (
            "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with "
            "maximum length 40, but got a string with length 41 instead."
        ),
    ),
    "an empty list of tools": (
        request(tools=[]),
        empty_array("tools"),
    ),
    "a tool name with a dot": (
        request(tools=[{"type": "function", "function": {"name": "files.read"}}]),
        (
            "Invalid 'tools[0].function.name': string does not match pattern. Expected a string "
            "that matches the pattern '^[a-zA-Z0-9_-]+$'."
        ),
    ),
    "parameters of no object": (
        request(tools=[{"type": "function", "function": {"name": "read", "parameters": {}}}]),
        (
            "Invalid schema for function 'read': schema must be a JSON Schema of 'type: "
            '"object"\', got \'type: "None"\'.'
        ),
    ),
    "two tools of one name": (
        request(tools=[TOOL, TOOL]),
        "Invalid 'tools': function names must be unique.",
    ),
    "a choice without tools": (
        request(tool_choice="auto"),
        (
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are "
            "specified."
        ),
    ),
    "stream options without a stream": (
        request(stream_options={"include_usage": True}),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_rule_is_refused_in_the_words_of_the_api(
    name: str, client: httpx2.AsyncClient
) -> None:
    body, words = BROKEN[name]
    told = await refusal(client, body)
    assert told["message"] == words
    assert told["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "messages",
    [
        [system("A"), system("B", "developer"), user("Hello"), system("C"), user("On")],
        [user([{"type": "text", "text": "Hello"}, {"type": "text", "text": "again"}])],
        [user("Go"), asks("call_1", "call_2"), result("call_2"), result("call_1"), system("New")],
        [user("Go"), asks("call_1", arguments='{"path": '), result("call_1")],
        [user("Hello"), user("Hello?"), {"role": "assistant", "content": "Hi"}],
    ],
)
async def test_what_openai_accepts_is_accepted(
    messages: list[Any], client: httpx2.AsyncClient
) -> None:
    await accepts(client, request(*messages, tools=[TOOL]))


async def test_unknown_members_are_refused_only_where_it_is_asked_for(
    client: httpx2.AsyncClient,
) -> None:
    body = request(top_k=5)
    await accepts(client, body)
    told = await refusal(client, body, refuse_unknown_members=True)
    assert told["message"] == "Unrecognized request argument supplied: top_k"


@pytest.mark.parametrize("late", [system("New"), system("New", "developer")])
async def test_a_template_refuses_a_late_system_message(
    late: dict[str, Any], client: httpx2.AsyncClient
) -> None:
    body = request(system("Base"), user("Hello"), late, user("On"))
    told = await refusal(client, body, 500, template="late-system-refused")
    assert told["type"] == "server_error"
    assert told["code"] == 500
    assert told["message"].endswith("Jinja Exception: System message must be at the beginning.")


async def test_a_template_refuses_a_second_leading_system_message(
    client: httpx2.AsyncClient,
) -> None:
    body = request(system("Base"), system("More"), user("Hello"))
    await refusal(client, body, 500, template="late-system-refused")


async def test_a_template_takes_one_leading_system_message(client: httpx2.AsyncClient) -> None:
    body = request(system("Base"), user("Hello"), asks("call_1"), result("call_1"), user("On"))
    await accepts(client, body, template="late-system-refused")


async def test_a_template_without_a_system_role_refuses_every_system_message(
    client: httpx2.AsyncClient,
) -> None:
    told = await refusal(client, request(system("Base"), user("Hi")), 500, template="gemma")
    assert told["message"].endswith("System role not supported")
    await accepts(client, request(user("Hi")), template="gemma")


async def test_a_template_reads_the_arguments_of_calls(client: httpx2.AsyncClient) -> None:
    body = request(user("Go"), asks("call_1", arguments='{"path": '), result("call_1"))
    told = await refusal(client, body, 500, template="late-system-refused")
    assert told["message"].startswith("Failed to parse tool call arguments as JSON: ")


async def test_a_key_is_asked_for_only_where_one_is_set(client: httpx2.AsyncClient) -> None:
    await accepts(client, request())
    async with ScriptedProvider([say("Hi")], api_key="sk-right-key") as provider:
        missing = await post(client, provider, request())
        wrong = await post(client, provider, request(), {"authorization": "Bearer sk-wrong-1234"})
        right = await post(client, provider, request(), {"authorization": "Bearer sk-right-key"})
    assert (missing.status_code, wrong.status_code, right.status_code) == (401, 401, 200)
    assert missing.json()["error"]["message"].startswith("You didn't provide an API key.")
    assert wrong.json()["error"]["code"] == "invalid_api_key"
    assert "********1234" in wrong.json()["error"]["message"]
    assert "sk-wrong" not in wrong.text


async def test_an_unknown_model_is_not_found(client: httpx2.AsyncClient) -> None:
    told = await refusal(client, request(), 404, models=["other"])
    assert told["code"] == "model_not_found"
    assert told["message"].startswith("The model `model-1` does not exist")


async def test_a_prompt_over_the_window_is_refused_in_openais_words(
    client: httpx2.AsyncClient,
) -> None:
    told = await refusal(client, request(user("word " * 1000)), window=1000)
    assert told["code"] == "context_length_exceeded"
    assert told["message"].startswith("This model's maximum context length is 1000 tokens.")


async def test_a_prompt_over_the_window_is_refused_in_a_local_servers_words(
    client: httpx2.AsyncClient,
) -> None:
    body = request(user("word " * 1000))
    told = await refusal(client, body, window=1000, template="late-system-refused")
    assert told["type"] == "exceed_context_size_error"
    assert "exceeds the available context size (1000 tokens)" in told["message"]
