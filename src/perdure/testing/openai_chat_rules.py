"""What OpenAI's Chat Completions, and the chat templates of local servers, refuse.

The texts are those that the servers have been seen to answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

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
NAME = re.compile(r"[a-zA-Z0-9_-]+")
LONGEST_ID = 40


def check_headers(request: ReceivedRequest, rules: Rules) -> None:
    """Refuse a request without the key, where one is asked for."""
    if rules.api_key is None:
        return
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise Rejection(
            401,
            "You didn't provide an API key. You need to provide your API key in an Authorization "
            "header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        )
    if key != rules.api_key:
        shown = f"{'*' * 8}{key[-4:]}" if len(key) > 4 else "****"
        raise Rejection(
            401,
            f"Incorrect API key provided: {shown}. You can find your API key in your account's "
            "settings.",
            code="invalid_api_key",
        )


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
    _check_pairing(messages)
    if rules.template:
        _check_arguments(messages)
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
        raise _rejection(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
    if "messages" not in body:
        missing = "missing_required_parameter"
        raise _rejection("Missing required parameter: 'messages'.", "messages", missing)
    if not is_array(body["messages"]) or not all(is_object(m) for m in body["messages"]):
        raise _wrong_type("messages", "an array of objects", body["messages"])
    _refuse_empty(body["messages"], "messages")


def _check_tools(body: dict[str, Any]) -> None:
    tools: Any = body.get("tools")
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) is not None and not tools:
            words = f"'{name}' is only allowed when 'tools' are specified."
            raise _rejection(f"Invalid value for '{name}': {words}", name)
    if tools is None:
        return
    if not is_array(tools) or not all(is_object(tool) for tool in tools):
        raise _wrong_type("tools", "an array of objects", tools)
    _refuse_empty(tools, "tools")
    for index, tool in enumerate(tools):
        if tool.get("type") != "function":
            raise _invalid(f"tools[{index}].type", tool.get("type"), ["function"])
        _check_function(tool.get("function"), f"tools[{index}].function")
    names = [tool["function"]["name"] for tool in tools]
    if len(set(names)) < len(names):
        raise _rejection("Invalid 'tools': function names must be unique.", "tools")


def _check_function(function: Any, at: str) -> None:
    if not is_object(function):
        raise _wrong_type(at, "an object", function)
    _check_name(function.get("name"), f"{at}.name")
    parameters: Any = function.get("parameters", {"type": "object"})
    kind = parameters.get("type") if is_object(parameters) else None
    if kind != "object":
        raise _rejection(
            f"Invalid schema for function '{function['name']}': schema must be a JSON Schema of "
            f"'type: \"object\"', got 'type: \"{kind}\"'.",
            f"{at}.parameters",
            "invalid_function_parameters",
        )


def _check_name(name: Any, at: str) -> None:
    if not isinstance(name, str):
        raise _wrong_type(at, "a string", name)
    if not NAME.fullmatch(name):
        raise _rejection(
            f"Invalid '{at}': string does not match pattern. Expected a string that matches the "
            f"pattern '^{NAME.pattern}$'.",
            at,
            "invalid_value",
        )
    if len(name) > 64:
        raise _too_long(at, 64, len(name))


def _check_message(message: dict[str, Any], at: str) -> None:
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise _invalid(f"{at}.role", role, ROLES)
    calls: Any = message.get("tool_calls") if role == "assistant" else None
    if calls is not None:
        _check_calls(calls, f"{at}.tool_calls")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        words = f"Missing required parameter: '{at}.tool_call_id'."
        raise _rejection(words, f"{at}.tool_call_id", "missing_required_parameter")
    if content is None and not calls:
        words = "Invalid value for 'content': expected a string, got null."
        raise _rejection(words, f"{at}.content")
    if content is not None and not isinstance(content, str):
        _check_parts(content, PARTS.get(role, {"text"}), f"{at}.content")


def _check_parts(content: Any, allowed: set[str], at: str) -> None:
    if not is_array(content):
        raise _wrong_type(at, "one of a string or array of objects", content)
    _refuse_empty(content, at)
    for index, part in enumerate(content):
        kind = part.get("type") if is_object(part) else None
        if kind not in allowed:
            raise _invalid(f"{at}[{index}].type", kind, sorted(allowed))
        if kind == "text" and not isinstance(part.get("text"), str):
            raise _wrong_type(f"{at}[{index}].text", "a string", part.get("text"))


def _check_calls(calls: Any, at: str) -> None:
    if not is_array(calls) or not all(is_object(call) for call in calls):
        raise _wrong_type(at, "an array of objects", calls)
    _refuse_empty(calls, at)
    for index, call in enumerate(calls):
        given, function = call.get("id"), call.get("function")
        if not isinstance(given, str):
            raise _wrong_type(f"{at}[{index}].id", "a string", given)
        if len(given) > LONGEST_ID:
            raise _too_long(f"{at}[{index}].id", LONGEST_ID, len(given))
        if call.get("type") != "function":
            raise _invalid(f"{at}[{index}].type", call.get("type"), ["function"])
        if not is_object(function):
            raise _wrong_type(f"{at}[{index}].function", "an object", function)
        _check_name(function.get("name"), f"{at}[{index}].function.name")
        if not isinstance(function.get("arguments"), str):
            at_arguments = f"{at}[{index}].function.arguments"
            raise _wrong_type(at_arguments, "a string", function.get("arguments"))


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
            raise _rejection(
                f"Duplicate value for 'id' in messages[{index}].tool_calls.",
                f"messages.[{index}].tool_calls",
            )
    _refuse_unanswered(open_ids, len(messages))


def _check_tool_message(given: str, open_ids: Sequence[str], asked: set[str], index: int) -> None:
    at = f"messages.[{index}]"
    if not asked:
        raise _rejection(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            f"{at}.role",
        )
    if given not in asked:
        raise _rejection(
            f"Invalid parameter: 'tool_call_id' of '{given}' not found in 'tool_calls' of previous "
            "message.",
            f"{at}.tool_call_id",
        )
    if given not in open_ids:
        words = f"Duplicate value for 'tool_call_id' of '{given}' in message[{index}]."
        raise _rejection(words, f"{at}.tool_call_id")


def _refuse_unanswered(open_ids: Sequence[str], index: int) -> None:
    if open_ids:
        raise _rejection(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(open_ids)}",
            f"messages.[{index}].role",
        )


def _rejection(message: str, param: str, code: str = "") -> Rejection:
    return Rejection(400, message, param=param, code=code)


def _invalid(at: str, value: Any, supported: Sequence[str]) -> Rejection:
    quoted = [f"'{each}'" for each in supported]
    listed = ", ".join(quoted[:-1]) + (", and " if quoted[1:] else "") + quoted[-1]
    words = f"Invalid value: '{value}'. Supported values are: {listed}."
    return _rejection(words, at, "invalid_value")


def _wrong_type(at: str, wanted: str, value: Any) -> Rejection:
    kinds = {"dict": "an object", "list": "an array", "str": "a string", "bool": "a boolean"}
    kind = "null" if value is None else kinds.get(type(value).__name__, "a number")
    words = f"Invalid type for '{at}': expected {wanted}, but got {kind} instead."
    return _rejection(words, at, "invalid_type")


def _too_long(at: str, most: int, length: int) -> Rejection:
    return _rejection(
        f"Invalid '{at}': string too long. Expected a string with maximum length {most}, but got "
        f"a string with length {length} instead.",
        at,
        "string_above_max_length",
    )


def _refuse_empty(value: Sequence[Any], at: str) -> None:
    if not value:
        raise _rejection(
            f"Invalid '{at}': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            at,
            "empty_array",
        )


def _check_arguments(messages: Sequence[Mapping[str, Any]]) -> None:
    """Templates read the arguments of a call, so there they must be JSON."""
    for call in (call for message in messages for call in message.get("tool_calls") or ()):
        try:
            msgspec.json.decode(call["function"]["arguments"])
        except msgspec.DecodeError as error:
            words = f"Failed to parse tool call arguments as JSON: {error}"
            raise Rejection(500, words) from None


def _late_system_refused(messages: Sequence[Mapping[str, Any]]) -> None:
    if any(message["role"] in {"system", "developer"} for message in messages[1:]):
        raise _template_error("System message must be at the beginning.")


def _gemma(messages: Sequence[Mapping[str, Any]]) -> None:
    if any(message["role"] in {"system", "developer"} for message in messages):
        raise _template_error("System role not supported")


def _template_error(words: str) -> Rejection:
    source = "\n------------\nWhile executing CallExpression at line 85, column 32 in source:\n..."
    return Rejection(500, f"{source}\nError: Jinja Exception: {words}")


TEMPLATES: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], None]] = {
    "late-system-refused": _late_system_refused,
    "gemma": _gemma,
}
"""Chat templates by name: that of Qwen 3.5 to 3.8 takes a system message only as the first one,
that of Gemma takes none."""
