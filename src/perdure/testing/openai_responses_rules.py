"""What OpenAI's Responses API refuses when nothing is kept on its side.

The texts are those that the API has been seen to answer; where none is known, the rule of the
documentation is put in the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from perdure.testing.prefix import input_items
from perdure.testing.signature import Bound, Conversation, conversation
from perdure.testing.templates import TEMPLATES, check_arguments
from perdure.testing.wire import ReceivedRequest, Rejection, Rules, is_array, is_object

SEALED = "reasoning.encrypted_content"
_MEMBERS = """
    background context_management conversation include input instructions max_output_tokens
    max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt
    prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier
    service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p
    truncation user
"""
MEMBERS = frozenset(_MEMBERS.split())
INCLUDABLE = (
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    SEALED,
)
ROLES = ("assistant", "system", "developer", "user")
PARTS = {"assistant": ("output_text", "refusal")}
INPUT_PARTS = ("input_text", "input_image", "input_file")
DETAILS = ("low", "high", "auto", "original")
_WORDS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
LONGEST_ID = 64
LEAST_OUTPUT = 16

Item = Mapping[str, Any]


def check_body(request: ReceivedRequest, rules: Rules) -> None:
    """Refuse what the server refuses."""
    _check_seals(request, check_form(request, rules))


def check_form(request: ReceivedRequest, rules: Rules) -> Sequence[Item]:
    """Refuse what the server refuses but for seals, whoever made them; return the items."""
    body = request.json
    if not is_object(body):
        raise Rejection(400, "We could not parse the JSON body of your request.")
    _check_members(body, rules)
    _check_state(body)
    if body.get("tools") is not None:
        check_tools(body["tools"])
        _check_strict(body["tools"])
    items = input_items(body)
    for index, item in enumerate(items):
        _check_item(item, f"input[{index}]")
        _check_pictures(item, body["model"], f"input[{index}]")
    _check_ids(items)
    _check_pairing(items)
    _check_neighbours(items)
    if rules.template:
        calls = (item for item in items if kind_of(item) == "function_call")
        check_arguments(call["arguments"] for call in calls)
        TEMPLATES[rules.template]([{"role": item.get("role", "tool")} for item in items])
    return items


def kind_of(item: Item) -> str:
    """Return the type of an item; one with a role is a message without saying so."""
    return str(item.get("type") or ("message" if "role" in item else None))


def essence(item: Item) -> dict[str, Any]:
    """Return what an item says, which is the same whether or not its id goes along."""
    if kind_of(item) != "message":
        return {key: item[key] for key in ("call_id", "name", "arguments", "output") if key in item}
    content = item["content"]
    if isinstance(content, str):
        return {"said": [content]}
    return {"said": [part.get("text", part.get("refusal")) for part in content]}


def remember(before: Conversation, item: Item) -> None:
    """Go on with one item; reasoning may be left out later, so it does not count."""
    if kind_of(item) != "reasoning":
        before.add(item.get("role") or item["type"], essence(item))


def _check_members(body: dict[str, Any], rules: Rules) -> None:
    for name in ("model", "input"):
        if name not in body:
            raise _missing(name)
    if not isinstance(body["model"], str):
        raise wrong_type("model", "a string", body["model"])
    if rules.models is not None and body["model"] not in rules.models:
        words = f"The requested model '{body['model']}' does not exist."
        raise rejection(words, "model", "model_not_found")
    for name in sorted(body.keys() - MEMBERS):
        raise rejection(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    if not isinstance(body["input"], str):
        check_objects(body["input"], "input")
    _check_options(body)


def _check_options(body: dict[str, Any]) -> None:
    most = body.get("max_output_tokens")
    if isinstance(most, int) and most < LEAST_OUTPUT:
        raise rejection(
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= "
            f"{LEAST_OUTPUT}, but got {most} instead.",
            "max_output_tokens",
            "integer_below_min_value",
        )
    include: Any = body.get("include") or []
    if not is_array(include):
        raise wrong_type("include", "an array of strings", include)
    for index, name in enumerate(include):
        if name not in INCLUDABLE:
            raise invalid(f"include[{index}]", name, INCLUDABLE)


def _check_state(body: dict[str, Any]) -> None:
    """Refuse a request that leans on what was kept: nothing is kept here."""
    if body.get("previous_response_id") is not None:
        raise rejection(
            f"Previous response with id '{body['previous_response_id']}' not found.",
            "previous_response_id",
            "previous_response_not_found",
        )
    if body.get("conversation") is not None:
        raise Rejection(404, f"Conversation with id '{body['conversation']}' not found.")
    if SEALED in (body.get("include") or ()) and body.get("store") is not False:
        raise rejection(
            f"Invalid value for 'include': '{SEALED}' is only supported when 'store' is false.",
            "include",
        )


def _check_strict(tools: Sequence[Item]) -> None:
    """Refuse a strict schema that leaves anything open; strict is what is not said to be false."""
    for index, tool in enumerate(tools):
        if tool.get("strict") is False:
            continue
        schema: Any = tool.get("parameters") or {}
        wanted = set(schema.get("properties") or ())
        if schema.get("additionalProperties") is not False:
            what = "'additionalProperties' is required to be supplied and to be false."
        elif wanted - set(schema.get("required") or ()):
            what = "'required' is required to be supplied and to be an array including every key."
        else:
            continue
        words = f"Invalid schema for function '{tool['name']}': In context=(), {what}"
        raise rejection(words, f"tools[{index}].parameters", "invalid_function_parameters")


def _check_item(item: dict[str, Any], at: str) -> None:
    kind = kind_of(item)
    if kind == "item_reference":
        raise _not_found(item.get("id"))
    if kind not in _CHECKS:
        raise invalid(f"{at}.type", kind, sorted(_CHECKS))
    given = item.get("id")
    if given is not None:
        _check_id(given, kind, f"{at}.id")
    _CHECKS[kind](item, at)


def _check_id(given: Any, kind: str, at: str) -> None:
    _check_short(given, at)
    prefix = PREFIXES.get(kind)
    if prefix and not given.startswith(f"{prefix}_"):
        words = f"Invalid '{at}': '{given}'. Expected an ID that begins with '{prefix}'."
        raise rejection(words, at, "invalid_value")


def _check_short(given: Any, at: str) -> None:
    if not isinstance(given, str):
        raise wrong_type(at, "a string", given)
    if len(given) > LONGEST_ID:
        raise too_long(at, LONGEST_ID, len(given))


def _check_message(item: dict[str, Any], at: str) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        raise invalid(f"{at}.role", role, ROLES)
    if isinstance(content, str):
        return
    if not is_array(content):
        raise wrong_type(f"{at}.content", "one of an array of objects or string", content)
    _check_parts(content, PARTS.get(role, INPUT_PARTS), f"{at}.content")


def _check_parts(content: list[Any], allowed: Sequence[str], at: str) -> None:
    refuse_empty(content, at)
    for index, part in enumerate(content):
        place = f"{at}[{index}]"
        kind = part.get("type") if is_object(part) else None
        if kind not in allowed:
            raise invalid(f"{place}.type", kind, allowed)
        member = _WORDS.get(str(kind))
        if member and not isinstance(part.get(member), str):
            raise wrong_type(f"{place}.{member}", "a string", part.get(member))


def _check_pictures(item: Item, model: str, at: str) -> None:
    for member in ("content", "output"):
        parts: Any = item.get(member)
        for index, part in enumerate(parts if is_array(parts) else ()):
            place = f"{at}.{member}[{index}]"
            if part["type"] != "input_image":
                continue
            if part.get("detail", "auto") not in DETAILS:
                raise invalid(f"{place}.detail", part["detail"], DETAILS)
            check_data_url(part.get("image_url"), model, f"{place}.image_url")


def _check_reasoning(item: dict[str, Any], at: str) -> None:
    for name in ("id", "summary"):
        if name not in item:
            raise _missing(f"{at}.{name}")
    if not is_array(item["summary"]):
        raise wrong_type(f"{at}.summary", "an array of objects", item["summary"])
    if not item.get("encrypted_content"):
        raise _not_found(item["id"])


def _check_call(item: dict[str, Any], at: str) -> None:
    for name in ("call_id", "name", "arguments"):
        if name not in item:
            raise _missing(f"{at}.{name}")
    _check_short(item["call_id"], f"{at}.call_id")
    check_name(item["name"], f"{at}.name")
    if not isinstance(item["arguments"], str):
        raise wrong_type(f"{at}.arguments", "a string", item["arguments"])


def _check_output(item: dict[str, Any], at: str) -> None:
    for name in ("call_id", "output"):
        if name not in item:
            raise _missing(f"{at}.{name}")
    _check_short(item["call_id"], f"{at}.call_id")
    output: Any = item["output"]
    if isinstance(output, str):
        return
    if not is_array(output):
        raise wrong_type(f"{at}.output", "one of a string or array of objects", output)
    _check_parts(output, INPUT_PARTS, f"{at}.output")


_CHECKS: Mapping[Any, Callable[[dict[str, Any], str], None]] = {
    "message": _check_message,
    "reasoning": _check_reasoning,
    "function_call": _check_call,
    "function_call_output": _check_output,
}


def _check_ids(items: Sequence[Item]) -> None:
    seen: set[str] = set()
    for given in (item["id"] for item in items if item.get("id")):
        if given in seen:
            words = f"Duplicate item found with id {given}. Remove duplicate items from your input"
            raise rejection(f"{words} and try again.", "input")
        seen.add(given)


def _check_pairing(items: Sequence[Item]) -> None:
    calls: set[str] = set()
    answered: set[str] = set()
    for index, item in enumerate(items):
        if kind_of(item) == "function_call":
            if item["call_id"] in calls:
                words = f"Duplicate 'call_id' {item['call_id']} found in function calls."
                raise rejection(words, f"input[{index}].call_id")
            calls.add(item["call_id"])
        elif kind_of(item) == "function_call_output":
            _check_answer(item["call_id"], calls, answered)
            answered.add(item["call_id"])
    for item in items:
        if kind_of(item) == "function_call" and item["call_id"] not in answered:
            raise rejection(f"No tool output found for function call {item['call_id']}.", "input")


def _check_answer(given: str, calls: set[str], answered: set[str]) -> None:
    if given not in calls:
        raise rejection(
            f"No tool call found for function call output with call_id {given}.", "input"
        )
    if given in answered:
        raise rejection(f"Duplicate tool output found for function call {given}.", "input")


def _check_neighbours(items: Sequence[Item]) -> None:
    """Reasoning and the item that it led to stand beside each other, or the latter has no id."""
    for index, item in enumerate(items):
        kind, given = kind_of(item), str(item.get("id") or "")
        if kind == "reasoning" and not _follows(items[index + 1 : index + 2]):
            words = f"Item '{given}' of type 'reasoning' was provided without its required"
            raise rejection(f"{words} following item.", "input")
        needed = reasoning_behind(given)
        before = [each.get("id") for each in items[max(0, index - 1) : index]]
        if kind != "reasoning" and needed and before != [needed]:
            words = f"Item '{given}' of type '{kind}' was provided without its required"
            raise rejection(f"{words} 'reasoning' item: '{needed}'.", "input")


def _follows(rest: Sequence[Item]) -> bool:
    return any(
        kind_of(item) in {"reasoning", "function_call"} or item.get("role") == "assistant"
        for item in rest
    )


def led_to(prefix: str, own: str, reasoning: str) -> str:
    """Return the id of an item, which tells the reasoning that stood before it, if any did."""
    return f"{prefix}_{own}{reasoning.removeprefix('rs_')}"


def reasoning_behind(given: str) -> str:
    """Return the id of the reasoning that led to the item of this id, if there was any."""
    digits = given.partition("_")[2]
    return f"rs_{digits[16:]}" if len(digits) == 32 else ""


def _check_seals(request: ReceivedRequest, items: Sequence[Item]) -> None:
    before = conversation(request)
    for item in items:
        if kind_of(item) == "reasoning":
            sealed = str(item["encrypted_content"])
            if broken := before.broken(item["id"], sealed):
                raise _unverified(sealed, broken)
        remember(before, item)


def _unverified(sealed: str, broken: Bound) -> Rejection:
    shown = f"{sealed[:4]}...{sealed[-4:]}"
    return Rejection(
        400,
        f"The encrypted content {shown} could not be verified. Reason: {_REASONS[broken]}",
        code="invalid_encrypted_content",
    )


_REASONS: Mapping[Bound, str] = {
    "seal": "Encrypted content could not be decrypted or parsed.",
    "system": "The instructions differ from those it was created with.",
    "tools": "The tools differ from those it was created with.",
    "messages": "The input before it differs from that it was created with.",
}


def _missing(at: str) -> Rejection:
    return rejection(f"Missing required parameter: '{at}'.", at, "missing_required_parameter")


def _not_found(given: Any) -> Rejection:
    return Rejection(
        404,
        f"Item with id '{given}' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input.",
        param="input",
    )
