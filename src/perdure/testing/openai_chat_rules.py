"""What OpenAI's Chat Completions refuse.

The texts are those that the servers have been seen to answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.testing.openai_refusals import (
    check_data_url,
    check_name,
    check_objects,
    check_tools,
    invalid,
    refuse_empty,
    rejection,
    too_long,
    wrong_type,
)
from perdure.testing.templates import TEMPLATES, check_arguments
from perdure.testing.wire import ReceivedRequest, Rejection, Rules, is_array, is_object

_MEMBERS = """
    audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens
    max_tokens messages metadata modalities model n parallel_tool_calls prediction
    presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort
    response_format safety_identifier seed service_tier stop store stream stream_options
    temperature tool_choice tools top_logprobs top_p user verbosity web_search_options
"""
MEMBERS = frozenset(_MEMBERS.split())
ROLES = ("system", "assistant", "user", "function", "tool", "developer")
PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
}
LONGEST_ID = 40


def check_body(request: ReceivedRequest, rules: Rules) -> None:
    """Refuse what the server refuses."""
    body = request.json
    if not is_object(body):
        raise Rejection(400, "We could not parse the JSON body of your request.")
    _check_members(body, rules)
    _check_tools(body)
    messages: list[dict[str, Any]] = body["messages"]
    for index, message in enumerate(messages):
        _check_message(message, f"messages[{index}]")
        _check_pictures(message, body["model"], f"messages[{index}]")
    _check_pairing(messages)
    if rules.template:
        calls = (call for message in messages for call in message.get("tool_calls") or ())
        check_arguments(call["function"]["arguments"] for call in calls)
        TEMPLATES[rules.template](messages)


def _check_members(body: dict[str, Any], rules: Rules) -> None:
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Rejection(400, "you must provide a model parameter")
    if rules.models is not None and body["model"] not in rules.models:
        words = f"The model `{body['model']}` does not exist or you do not have access to it."
        raise Rejection(404, words, code="model_not_found")
    if rules.refuse_unknown_members:
        for name in sorted(body.keys() - MEMBERS):
            raise Rejection(400, f"Unrecognized request argument supplied: {name}")
    if body.get("stream_options") is not None and not body.get("stream"):
        raise rejection(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
    if "messages" not in body:
        missing = "missing_required_parameter"
        raise rejection("Missing required parameter: 'messages'.", "messages", missing)
    check_objects(body["messages"], "messages")


def _check_tools(body: dict[str, Any]) -> None:
    tools: Any = body.get("tools")
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) is not None and not tools:
            words = f"'{name}' is only allowed when 'tools' are specified."
            raise rejection(f"Invalid value for '{name}': {words}", name)
    if tools is not None:
        check_tools(tools, "function")


def _check_message(message: dict[str, Any], at: str) -> None:
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise invalid(f"{at}.role", role, ROLES)
    calls: Any = message.get("tool_calls") if role == "assistant" else None
    if calls is not None:
        _check_calls(calls, f"{at}.tool_calls")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        words = f"Missing required parameter: '{at}.tool_call_id'."
        raise rejection(words, f"{at}.tool_call_id", "missing_required_parameter")
    if content is None and not calls:
        words = "Invalid value for 'content': expected a string, got null."
        raise rejection(words, f"{at}.content")
    if content is not None and not isinstance(content, str):
        _check_parts(content, PARTS.get(role, {"text"}), f"{at}.content")


def _check_parts(content: Any, allowed: set[str], at: str) -> None:
    if not is_array(content):
        raise wrong_type(at, "one of a string or array of objects", content)
    refuse_empty(content, at)
    for index, part in enumerate(content):
        kind = part.get("type") if is_object(part) else None
        if kind not in allowed:
            raise invalid(f"{at}[{index}].type", kind, sorted(allowed))
        if kind == "text" and not isinstance(part.get("text"), str):
            raise wrong_type(f"{at}[{index}].text", "a string", part.get("text"))


def _check_pictures(message: dict[str, Any], model: str, at: str) -> None:
    content: Any = message.get("content")
    for index, part in enumerate(content if is_array(content) else ()):
        if part["type"] == "image_url":
            place, picture = f"{at}.content[{index}].image_url", part.get("image_url")
            if not is_object(picture):
                raise wrong_type(place, "an object", picture)
            check_data_url(picture.get("url"), model, f"{place}.url")


def _check_calls(calls: Any, at: str) -> None:
    check_objects(calls, at)
    for index, call in enumerate(calls):
        given, function = call.get("id"), call.get("function")
        if not isinstance(given, str):
            raise wrong_type(f"{at}[{index}].id", "a string", given)
        if len(given) > LONGEST_ID:
            raise too_long(f"{at}[{index}].id", LONGEST_ID, len(given))
        if call.get("type") != "function":
            raise invalid(f"{at}[{index}].type", call.get("type"), ["function"])
        if not is_object(function):
            raise wrong_type(f"{at}[{index}].function", "an object", function)
        check_name(function.get("name"), f"{at}[{index}].function.name")
        if not isinstance(function.get("arguments"), str):
            at_arguments = f"{at}[{index}].function.arguments"
            raise wrong_type(at_arguments, "a string", function.get("arguments"))


def _check_pairing(messages: Sequence[Mapping[str, Any]]) -> None:
    open_ids: list[str] = []
    asked: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            _check_tool_message(message["tool_call_id"], open_ids, asked, index)
            open_ids.remove(message["tool_call_id"])
            continue
        _refuse_unanswered(open_ids, index)
        open_ids = [call["id"] for call in message.get("tool_calls") or ()]
        asked = set(open_ids)
        if len(asked) < len(open_ids):
            raise rejection(
                f"Duplicate value for 'id' in messages[{index}].tool_calls.",
                f"messages.[{index}].tool_calls",
            )
    _refuse_unanswered(open_ids, len(messages))


def _check_tool_message(given: str, open_ids: Sequence[str], asked: set[str], index: int) -> None:
    at = f"messages.[{index}]"
    if not asked:
        raise rejection(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            f"{at}.role",
        )
    if given not in asked:
        raise rejection(
            f"Invalid parameter: 'tool_call_id' of '{given}' not found in 'tool_calls' of previous "
            "message.",
            f"{at}.tool_call_id",
        )
    if given not in open_ids:
        words = f"Duplicate value for 'tool_call_id' of '{given}' in message[{index}]."
        raise rejection(words, f"{at}.tool_call_id")


def _refuse_unanswered(open_ids: Sequence[str], index: int) -> None:
    if open_ids:
        raise rejection(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(open_ids)}",
            f"messages.[{index}].role",
        )
