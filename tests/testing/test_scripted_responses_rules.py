"""What the scripted provider refuses as OpenAI's Responses API does, and in its words."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx2
import pytest

from tests.testing.openai_wire import accepted, refused
from tests.testing.responses_wire import (
    TOOL,
    asks,
    assistant,
    developer,
    output,
    post,
    request,
    user,
)

pytestmark = pytest.mark.anyio


refusal = partial(refused, post)
accepts = partial(accepted, post)


def reasoning(item: str = "rs_1", **members: Any) -> dict[str, Any]:
    sealed = {"type": "reasoning", "id": item, "encrypted_content": "gAAAAAcd"}
    return {**sealed, "summary": [], **members}


LED = "fc_" + "0" * 16 + "f" * 16
"""The id of a call that reasoning led to."""

ACCEPTED: dict[str, Any] = {
    "a text alone": request() | {"input": "Hello"},
    "developer and system items anywhere": request(
        developer("Base"), user("Hi"), developer("Now", "system"), developer("Then"), user("On")
    ),
    "an output much later": request(asks(), user("Wait"), output()),
    "several calls": request(asks("a"), asks("b"), output("b"), output("a")),
    "an assistant's message with an id": request(
        user("Hi"),
        assistant([{"type": "output_text", "text": "A", "annotations": []}], id="msg_1"),
        user("On"),
    ),
    "a strict tool that leaves nothing open": request(
        tools=[
            {
                "type": "function",
                "name": "read",
                "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
            }
        ]
    ),
    "state where nothing sealed is asked for": request(store=True, include=[]),
}


@pytest.mark.parametrize("name", ACCEPTED)
async def test_it_accepts(name: str, client: httpx2.AsyncClient) -> None:
    await accepts(client, ACCEPTED[name])


REFUSED: dict[str, tuple[Any, str]] = {
    "a body that is no object": ([], "We could not parse the JSON body of your request."),
    "no input": (
        {key: value for key, value in request().items() if key != "input"},
        "Missing required parameter: 'input'.",
    ),
    "no model": (
        {key: value for key, value in request().items() if key != "model"},
        "Missing required parameter: 'model'.",
    ),
    "an unknown member": (request(max_tokens=5), "Unknown parameter: 'max_tokens'."),
    "too little output": (
        request(max_output_tokens=5),
        (
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but "
            "got 5 instead."
        ),
    ),
    "something else to include": (
        request(include=["everything"]),
        (
            "Invalid value: 'everything'. Supported values are: 'file_search_call.results', "
            "'message.input_image.image_url', 'message.output_text.logprobs', and "
            "'reasoning.encrypted_content'."
        ),
    ),
    "sealed reasoning of a response that is kept": (
        request(store=True),
        (
            "Invalid value for 'include': 'reasoning.encrypted_content' is only supported when "
            "'store' is false."
        ),
    ),
    "an earlier response": (
        request(previous_response_id="resp_1"),
        "Previous response with id 'resp_1' not found.",
    ),
    "an unknown role": (
        request({"role": "boss", "content": "Go"}),
        (
            "Invalid value: 'boss'. Supported values are: 'assistant', 'system', 'developer', and "
            "'user'."
        ),
    ),
    "an item of no kind": (
        request({"content": "Go"}),
        (
            "Invalid value: 'None'. Supported values are: 'function_call', 'function_call_output', "
            "'message', and 'reasoning'."
        ),
    ),
    "output text of the user": (
        request(user([{"type": "output_text", "text": "Hi"}])),
        (
            "Invalid value: 'output_text'. Supported values are: 'input_text', 'input_image', and "
            "'input_file'."
        ),
    ),
    "input text of the assistant": (
        request(user("Hi"), assistant([{"type": "input_text", "text": "Hi"}])),
        "Invalid value: 'input_text'. Supported values are: 'output_text', and 'refusal'.",
    ),
    "an id of another kind": (
        request(asks(id="call_1"), output()),
        "Invalid 'input[0].id': 'call_1'. Expected an ID that begins with 'fc'.",
    ),
    "one id for two items": (
        request(assistant("A", id="msg_1"), assistant("B", id="msg_1")),
        (
            "Duplicate item found with id msg_1. Remove duplicate items from your input and try "
            "again."
        ),
    ),
    "a call without an output": (
        request(user("Go"), asks(), user("On")),
        "No tool output found for function call call_1.",
    ),
    "an output without a call": (
        request(user("Go"), output()),
        "No tool call found for function call output with call_id call_1.",
    ),
    "an output before its call": (
        request(output(), asks()),
        "No tool call found for function call output with call_id call_1.",
    ),
    "two outputs of a call": (
        request(asks(), output(), output()),
        "Duplicate tool output found for function call call_1.",
    ),
    "one id for two calls": (
        request(asks(), output(), asks(), output()),
        "Duplicate 'call_id' call_1 found in function calls.",
    ),
    "arguments as an object": (
        request(asks(arguments={}), output()),
        "Invalid type for 'input[0].arguments': expected a string, but got an object instead.",
    ),
    "a long call id": (
        request(asks("c" * 65), output("c" * 65)),
        (
            "Invalid 'input[0].call_id': string too long. Expected a string with maximum length "
            "64, but got a string with length 65 instead."
        ),
    ),
    "reasoning without a summary": (
        request({"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}, assistant("A")),
        "Missing required parameter: 'input[0].summary'.",
    ),
    "reasoning with nothing behind it": (
        request(user("Hi"), reasoning(), user("On")),
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ),
    "a call without the reasoning that led to it": (
        request(user("Hi"), asks(id=LED), output()),
        (
            f"Item '{LED}' of type 'function_call' was provided without its required 'reasoning' "
            f"item: 'rs_{'f' * 16}'."
        ),
    ),
    "a seal of somebody else": (
        request(user("Hi"), reasoning(), assistant("A")),
        (
            "The encrypted content gAAA...AAcd could not be verified. Reason: Encrypted content "
            "could not be decrypted or parsed."
        ),
    ),
    "two tools of one name": (
        request(tools=[TOOL, TOOL]),
        "Invalid 'tools': function names must be unique.",
    ),
    "a tool in the form of chat completions": (
        request(tools=[{"type": "function", "function": TOOL}]),
        "Invalid type for 'tools[0].name': expected a string, but got null instead.",
    ),
    "a strict tool that leaves something open": (
        request(tools=[{key: value for key, value in TOOL.items() if key != "strict"}]),
        (
            "Invalid schema for function 'read': In context=(), 'additionalProperties' is required "
            "to be supplied and to be false."
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_it_refuses(name: str, client: httpx2.AsyncClient) -> None:
    body, words = REFUSED[name]
    assert (await refusal(client, body))["message"] == words


NOT_KEPT = (
    "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try "
    "again with `store` set to true, or remove this item from your input."
)


@pytest.mark.parametrize(
    "item", [reasoning(encrypted_content=None), {"type": "item_reference", "id": "rs_1"}]
)
async def test_it_has_kept_no_item(item: dict[str, Any], client: httpx2.AsyncClient) -> None:
    error = await refusal(client, request(user("Hi"), item, assistant("A")), status=404)
    assert error["message"] == NOT_KEPT


async def test_only_its_models_are_there(client: httpx2.AsyncClient) -> None:
    error = await refusal(client, request(), models=["gpt-6"])
    assert error["message"] == "The requested model 'model-1' does not exist."
    assert error["code"] == "model_not_found"


async def test_a_window_is_a_limit(client: httpx2.AsyncClient) -> None:
    error = await refusal(client, request(user("word " * 100)), window=50)
    assert error["code"] == "context_length_exceeded"
    assert error["message"].startswith("Your input exceeds the context window of this model.")


async def test_a_key_is_asked_for(client: httpx2.AsyncClient) -> None:
    assert (await refusal(client, request(), status=401, api_key="k"))["message"].startswith(
        "You didn't provide an API key."
    )


async def test_a_local_server_has_a_chat_template(client: httpx2.AsyncClient) -> None:
    late = request(developer("Base"), user("Hi"), developer("Now"))
    error = await refusal(client, late, status=500, template="late-system-refused")
    assert "System message must be at the beginning." in error["message"]
    broken = request(asks(arguments="{"), output())
    error = await refusal(client, broken, status=500, template="gemma")
    assert "Failed to parse tool call arguments as JSON" in error["message"]
    await accepts(client, request(developer("Base"), user("Hi")), template="late-system-refused")
