"""What all of OpenAI's protocols refuse, and how they say it.

The texts are those that the API has been seen to answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from perdure.testing.pictures import decoded, kind_of
from perdure.testing.script import Failure
from perdure.testing.wire import ReceivedRequest, Rejection, Rules, is_array, is_object

NAME = re.compile(r"[a-zA-Z0-9_-]+")
TEXT_MODELS = re.compile(r"(o1-mini|o3-mini|gpt-3\.5-.*)")
"""The models that take no pictures."""

_DATA_URL = re.compile(r"data:(image/[a-z]+);base64,([A-Za-z0-9+/]+={0,2})")

_ERRORS = {
    400: ("invalid_request_error", "The request was invalid."),
    401: ("invalid_request_error", "Incorrect API key provided."),
    403: ("permission_error", "You do not have access to this resource."),
    404: ("invalid_request_error", "The requested resource does not exist."),
    429: ("requests", "Rate limit reached for requests. Please try again later."),
    500: ("server_error", "The server had an error while processing your request."),
    503: ("service_unavailable", "The engine is currently overloaded, please try again later."),
}
_CODES = {"insufficient_quota": "insufficient_quota", "requests": "rate_limit_exceeded"}
CREATED = 1_767_225_600
"""When every answer and model was made, in seconds since 1970."""


def error_body(failure: Failure, param: str | None, template: str | None) -> Any:
    """Return the body of an error: OpenAI's, or llama.cpp's where a template is in use."""
    kind, message = _ERRORS.get(failure.status, ("server_error", "Error"))
    kind, message = failure.type or kind, failure.message or message
    if template:
        return {"error": {"code": failure.status, "message": message, "type": kind}}
    code = failure.code or _CODES.get(kind)
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def model_list(names: Sequence[str]) -> Any:
    """Return the body of the list of models."""
    data = [
        {"id": name, "object": "model", "created": CREATED, "owned_by": "scripted"}
        for name in names
    ]
    return {"object": "list", "data": data}


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


def check_tools(tools: Any, inner: str = "") -> None:
    """Refuse a list of tools that are no functions; `inner` is the member that holds each one."""
    check_objects(tools, "tools")
    for index, tool in enumerate(tools):
        if tool.get("type") != "function":
            raise invalid(f"tools[{index}].type", tool.get("type"), ["function"])
        place = f"tools[{index}].{inner}" if inner else f"tools[{index}]"
        check_function(tool.get(inner) if inner else tool, place)
    names = [(tool[inner] if inner else tool)["name"] for tool in tools]
    if len(set(names)) < len(names):
        raise rejection("Invalid 'tools': function names must be unique.", "tools")


def check_objects(value: Any, at: str) -> None:
    """Refuse what is no array of objects, or has none."""
    if not is_array(value) or not all(is_object(each) for each in value):
        raise wrong_type(at, "an array of objects", value)
    refuse_empty(value, at)


def check_function(function: Any, at: str) -> None:
    """Refuse a function whose name or schema the API does not take."""
    if not is_object(function):
        raise wrong_type(at, "an object", function)
    check_name(function.get("name"), f"{at}.name")
    parameters: Any = function.get("parameters", {"type": "object"})
    kind = parameters.get("type") if is_object(parameters) else None
    if kind != "object":
        raise rejection(
            f"Invalid schema for function '{function['name']}': schema must be a JSON Schema of "
            f"'type: \"object\"', got 'type: \"{kind}\"'.",
            f"{at}.parameters",
            "invalid_function_parameters",
        )


def check_name(name: Any, at: str) -> None:
    """Refuse a name that no function can have."""
    if not isinstance(name, str):
        raise wrong_type(at, "a string", name)
    if not NAME.fullmatch(name):
        raise rejection(
            f"Invalid '{at}': string does not match pattern. Expected a string that matches the "
            f"pattern '^{NAME.pattern}$'.",
            at,
            "invalid_value",
        )
    if len(name) > 64:
        raise too_long(at, 64, len(name))


def check_data_url(url: Any, model: str, at: str) -> None:
    """Refuse an address that holds no picture that is taken; others are not looked at."""
    if TEXT_MODELS.fullmatch(model):
        words = "Invalid content type. image_url is only supported by certain models."
        raise rejection(words, at, "invalid_value")
    if not isinstance(url, str):
        raise wrong_type(at, "a string", url)
    if url.startswith(("http://", "https://")):
        return
    found = _DATA_URL.fullmatch(url)
    data = decoded(found[2]) if found else None
    if data is None:
        raise rejection(
            f"Invalid '{at}'. Expected a base64-encoded data URL with an image MIME type (e.g. "
            "'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got a value without one.",
            at,
            "invalid_value",
        )
    if not kind_of(data):
        raise Rejection(
            400,
            "You uploaded an unsupported image. Please make sure your image has of one the "
            "following formats: ['png', 'jpeg', 'gif', 'webp'].",
            code="invalid_image_format",
        )


def rejection(message: str, param: str, code: str = "") -> Rejection:
    """Return a refusal with status 400."""
    return Rejection(400, message, param=param, code=code)


def invalid(at: str, value: Any, supported: Sequence[str]) -> Rejection:
    """Return the refusal of a value that is none of a few."""
    quoted = [f"'{each}'" for each in supported]
    listed = ", ".join(quoted[:-1]) + (", and " if quoted[1:] else "") + quoted[-1]
    words = f"Invalid value: '{value}'. Supported values are: {listed}."
    return rejection(words, at, "invalid_value")


def wrong_type(at: str, wanted: str, value: Any) -> Rejection:
    """Return the refusal of a value of another type."""
    kinds = {"dict": "an object", "list": "an array", "str": "a string", "bool": "a boolean"}
    kind = "null" if value is None else kinds.get(type(value).__name__, "a number")
    words = f"Invalid type for '{at}': expected {wanted}, but got {kind} instead."
    return rejection(words, at, "invalid_type")


def too_long(at: str, most: int, length: int) -> Rejection:
    """Return the refusal of a text that is too long."""
    return rejection(
        f"Invalid '{at}': string too long. Expected a string with maximum length {most}, but got "
        f"a string with length {length} instead.",
        at,
        "string_above_max_length",
    )


def refuse_empty(value: Sequence[Any], at: str) -> None:
    """Refuse an array without elements."""
    if not value:
        raise rejection(
            f"Invalid '{at}': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            at,
            "empty_array",
        )
