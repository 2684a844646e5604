"""What Anthropic's Messages API refuses, in its words.

The texts are those that the API has been seen to answer; where none is known, the rule of the
documentation is put in the same form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from perdure.testing.anthropic_models import system_entries, takes_prefill
from perdure.testing.diagnostics import check_diagnostics
from perdure.testing.pictures import decoded, kind_of, pixels
from perdure.testing.signature import conversation
from perdure.testing.wire import ReceivedRequest, Rejection, Rules, is_array, is_object

_MEMBERS = """
    betas cache_control container context_management diagnostics inference_geo max_tokens
    mcp_servers messages metadata model output_config service_tier speed stop_sequences stream
    system temperature thinking tool_choice tools top_k top_p
"""
MEMBERS = frozenset(_MEMBERS.split())
BLOCK_MEMBERS = {
    "text": {"text", "citations", "cache_control"},
    "image": {"source", "cache_control"},
    "document": {"source", "title", "context", "citations", "cache_control"},
    "tool_use": {"id", "name", "input", "caller", "cache_control"},
    "tool_result": {"tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}
TYPES = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
    "system": {"text"},
}
PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
LARGEST_PICTURE = 5 * 1024 * 1024
"""In characters of base64."""

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
ANYWHERE = "; the directive-only form (content: [] with output_config) is accepted at any position"


class Message(msgspec.Struct, frozen=True):
    """One message with its content as blocks."""

    index: int
    role: str
    blocks: list[dict[str, Any]]

    @property
    def at(self) -> str:
        return f"messages.{self.index}"


def check_headers(request: ReceivedRequest, rules: Rules) -> None:
    """Refuse a request without a key or a version."""
    key = request.headers.get("x-api-key")
    if not key:
        raise Rejection(401, "x-api-key header is required")
    if rules.api_key is not None and key != rules.api_key:
        raise Rejection(401, "invalid x-api-key")
    if not request.headers.get("anthropic-version"):
        raise Rejection(400, "anthropic-version: header is required")


def check_body(request: ReceivedRequest, rules: Rules) -> list[str]:
    """Refuse what the API refuses; return remarks about what it accepts silently."""
    messages = check_form(request, rules)
    _check_signatures(request, messages)
    return _remarks(messages, request.json["model"])


def check_form(request: ReceivedRequest, rules: Rules) -> list[Message]:
    """Refuse what the API refuses but for signatures, whoever made them; return the messages."""
    body = request.json
    _check_members(body)
    check_diagnostics(body)
    if rules.models is not None and body["model"] not in rules.models:
        raise Rejection(404, f"model: {body['model']}")
    _check_system(body.get("system"))
    _check_tools(body)
    messages = _messages(body["messages"])
    for message in messages:
        _check_blocks(message)
    _check_order(messages, body["model"])
    _check_pairing(_turns(messages))
    _check_many([picture for message in messages for picture in _pictures(message)])
    _check_markers(body)
    return messages


def _check_members(body: Any) -> None:
    if not is_object(body):
        raise Rejection(400, "The request body is not valid JSON")
    for name, kind in (("model", str), ("max_tokens", int), ("messages", list)):
        if name not in body:
            raise Rejection(400, f"{name}: Field required")
        if not isinstance(body[name], kind) or isinstance(body[name], bool):
            wanted = {str: "string", int: "integer", list: "list"}[kind]
            raise Rejection(400, f"{name}: Input should be a valid {wanted}")
    if body["max_tokens"] < 0:
        raise Rejection(400, "max_tokens: Input should be greater than or equal to 0")
    for name in sorted(body.keys() - MEMBERS):
        raise Rejection(400, f"{name}: Extra inputs are not permitted")
    if not body["messages"]:
        raise Rejection(400, "messages: at least one message is required")


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    if not is_array(system):
        raise Rejection(400, "system: Input should be a valid list")
    for number, block in enumerate(system):
        if not is_object(block) or block.get("type") != "text":
            raise Rejection(400, f"system.{number}.type: Input should be 'text'")
        _check_text(block, f"system.{number}", "system")


def _check_tools(body: dict[str, Any]) -> None:
    tools: Any = body.get("tools")
    if body.get("tool_choice") and not tools:
        raise Rejection(400, "tool_choice: may only be specified while providing tools")
    if tools is None:
        return
    if not is_array(tools) or not all(is_object(tool) for tool in tools):
        raise Rejection(400, "tools: Input should be a valid list")
    for number, tool in enumerate(tools):
        if tool.get("type", "custom") == "custom":
            _check_tool(tool, f"tools.{number}.custom")
    names = [tool.get("name") for tool in tools]
    if len(set(names)) < len(names):
        raise Rejection(400, "tools: Tool names must be unique.")


def _check_tool(tool: dict[str, Any], at: str) -> None:
    name, schema = tool.get("name"), tool.get("input_schema")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        pattern = f"^{TOOL_NAME.pattern}$"
        raise Rejection(400, f"{at}.name: String should match pattern '{pattern}'")
    if schema is None:
        raise Rejection(400, f"{at}.input_schema: Field required")
    if not is_object(schema):
        raise Rejection(400, f"{at}.input_schema: Input should be a valid dictionary")
    if schema.get("type") != "object":
        raise Rejection(400, f"{at}.input_schema.type: Input should be 'object'")


def _messages(given: list[Any]) -> list[Message]:
    return [_message(index, message) for index, message in enumerate(given)]


def _message(index: int, message: Any) -> Message:
    at = f"messages.{index}"
    if not is_object(message):
        raise Rejection(400, f"{at}: Input should be a valid dictionary")
    role, content = message.get("role"), message.get("content")
    if role not in TYPES:
        allowed = 'Allowed roles are "user", "assistant" or "system"'
        raise Rejection(400, f'messages: Unexpected role "{role}". {allowed}')
    for name in sorted(message.keys() - {"role", "content"}):
        raise Rejection(400, f"{at}.{name}: Extra inputs are not permitted")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    if not is_array(content) or not all(is_object(block) for block in content):
        raise Rejection(400, f"{at}.content: Input should be a valid list")
    if not content:
        raise Rejection(400, _empty(at, role))
    return Message(index, role, content)


def _empty(at: str, role: str) -> str:
    if role == "system":
        return f"{at}: system content must contain at least one block"
    return (
        f"{at}: all messages must have non-empty content except for the optional final "
        "assistant message"
    )


def _check_blocks(message: Message) -> None:
    for number, block in enumerate(message.blocks):
        at, kind = f"{message.at}.content.{number}", block.get("type")
        if kind not in TYPES[message.role]:
            raise Rejection(400, _wrong_type(message, at, kind))
        for name in sorted(block.keys() - {"type"} - BLOCK_MEMBERS[kind]):
            raise Rejection(400, f"{at}.{kind}.{name}: Extra inputs are not permitted")
        if kind == "text":
            _check_text(block, at, "messages")
        elif kind == "image":
            _check_picture(block, f"{at}.image")
        elif kind == "tool_use":
            _check_tool_use(block, f"{at}.tool_use")
        elif kind == "tool_result":
            _check_tool_result(block, f"{at}.tool_result")


def _wrong_type(message: Message, at: str, kind: Any) -> str:
    if message.role == "system":
        return (
            f"{message.at}: role 'system' supports text, tool_addition, and tool_removal "
            "blocks only"
        )
    if kind == "tool_use":
        return f"{message.at}: `tool_use` blocks can only be in `assistant` messages"
    if kind == "tool_result":
        return f"{message.at}: `tool_result` blocks can only be in `user` messages"
    wanted = ", ".join(f"'{each}'" for each in sorted(TYPES[message.role]))
    return f"{at}.type: Input tag {kind!r} does not match any of the expected tags: {wanted}"


def _check_text(block: dict[str, Any], at: str, where: str) -> None:
    text = block.get("text")
    if not isinstance(text, str):
        raise Rejection(400, f"{at}.text.text: Input should be a valid string")
    if not text and block.get("cache_control"):
        raise Rejection(400, f"{at}.text: cache_control cannot be set for empty text blocks")
    if not text:
        raise Rejection(400, f"{where}: text content blocks must be non-empty")
    if not text.strip():
        raise Rejection(400, f"{where}: text content blocks must contain non-whitespace text")


def _check_tool_use(block: dict[str, Any], at: str) -> None:
    if not isinstance(block.get("id"), str) or not CALL_ID.fullmatch(block["id"]):
        raise Rejection(400, f"{at}.id: String should match pattern '^{CALL_ID.pattern}$'")
    if not isinstance(block.get("name"), str) or not block["name"]:
        raise Rejection(400, f"{at}.name: String should have at least 1 character")
    if not is_object(block.get("input")):
        raise Rejection(400, f"{at}.input: Input should be a valid dictionary")


def _check_tool_result(block: dict[str, Any], at: str) -> None:
    if not isinstance(block.get("tool_use_id"), str):
        raise Rejection(400, f"{at}.tool_use_id: Field required")
    content: Any = block.get("content")
    if block.get("is_error") and not content:
        raise Rejection(400, f"{at}: content cannot be empty if `is_error` is true")
    if content is None or isinstance(content, str):
        return
    if not is_array(content):
        raise Rejection(400, f"{at}.content: Input should be a valid list")
    for number, each in enumerate(content):
        if not is_object(each) or each.get("type") not in {"text", "image", "document"}:
            raise Rejection(400, f"{at}.content.{number}.type: Input should be 'text' or 'image'")
        if each["type"] == "text":
            _check_text(each, f"{at}.content.{number}", "messages")
        elif block.get("is_error"):
            raise Rejection(400, f"{at}: all content must be type `text` if `is_error` is true")
        elif each["type"] == "image":
            _check_picture(each, f"{at}.content.{number}.image")


def _check_picture(block: dict[str, Any], at: str) -> None:
    source: Any = block.get("source")
    if not is_object(source) or source.get("type") not in {"base64", "url", "file"}:
        raise Rejection(400, f"{at}.source: Field required")
    if source["type"] != "base64":
        return
    at = f"{at}.source.base64"
    kind, data = source.get("media_type"), decoded(source.get("data"))
    if kind not in PICTURES:
        wanted = "'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
        raise Rejection(400, f"{at}.media_type: Input should be {wanted}")
    if data is None:
        raise Rejection(400, f"{at}.data: Invalid base64 data")
    if (length := len(source["data"])) > LARGEST_PICTURE:
        words = f"image exceeds 5 MB maximum: {length} bytes > {LARGEST_PICTURE} bytes"
        raise Rejection(400, f"{at}: {words}")
    if not kind_of(data):
        raise Rejection(400, "Could not process image")
    if kind_of(data) != kind:
        words = f"Image does not match the provided media type {kind}"
        raise Rejection(400, f"{at}.data: {words}")
    _check_pixels(at, data, "", 8000)


def _check_pixels(at: str, data: bytes, when: str, most: int) -> None:
    if max(pixels(data)) > most:
        words = f"At least one of the image dimensions exceed max allowed size{when}: {most} pixels"
        raise Rejection(400, f"{at}.data: {words}")


def _pictures(message: Message) -> Iterator[tuple[str, bytes]]:
    """Yield each picture of a message, those in results too, with its place."""
    for number, block in enumerate(message.blocks):
        at, inner = f"{message.at}.content.{number}", block.get("content")
        results = enumerate(inner if is_array(inner) else ())
        places = [(at, block), *((f"{at}.tool_result.content.{n}", each) for n, each in results)]
        for place, each in places:
            if each["type"] == "image" and each["source"]["type"] == "base64":
                yield f"{place}.image.source.base64", decoded(each["source"]["data"]) or b""


def _check_many(pictures: Sequence[tuple[str, bytes]]) -> None:
    """Refuse large pictures among many, those of earlier turns included."""
    if len(pictures) > 20:
        for at, data in pictures:
            _check_pixels(at, data, " for many-image requests", 2000)


def _check_order(messages: Sequence[Message], model: str) -> None:
    for message in messages:
        if message.role == "system":
            _check_placement(messages, message, model)
    if messages[0].role != "user":
        raise Rejection(400, 'messages: first message must use the "user" role')
    last = messages[-1]
    if last.role != "assistant":
        return
    if not takes_prefill(model):
        raise Rejection(
            400,
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message.",
        )
    if last.blocks[-1].get("text", "").endswith((" ", "\n", "\t")):
        raise Rejection(
            400, "messages: final assistant content cannot end with trailing whitespace"
        )


def _check_placement(messages: Sequence[Message], message: Message, model: str) -> None:
    if system_entries(model) == "refused":
        raise Rejection(400, "role 'system' is not supported on this model")
    if message.index == 0:
        words = "use the top-level 'system' parameter for the initial system prompt"
        raise Rejection(400, f"{message.at}: {words}{ANYWHERE}")
    if messages[message.index - 1].role != "user":
        words = (
            "must follow a 'user' message or an 'assistant' message ending in a server tool result"
        )
        raise Rejection(400, f"{message.at}: role 'system' {words}{ANYWHERE}")
    following = messages[message.index + 1 :]
    if following and following[0].role != "assistant":
        words = "must precede an 'assistant' message or end the array"
        raise Rejection(400, f"{message.at}: role 'system' {words}{ANYWHERE}")


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Group messages of one role in a row, which the API reads as one; leave system entries out."""
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "system":
            continue
        if turns and turns[-1][-1].role == message.role:
            turns[-1].append(message)
        else:
            turns.append([message])
    return turns


def _check_pairing(turns: Sequence[Sequence[Message]]) -> None:
    used: set[str] = set()
    for number, turn in enumerate(turns):
        for at, block in _located(turn, "tool_use"):
            if block["id"] in used:
                raise Rejection(400, f"{at}: `tool_use` ids must be unique")
            used.add(block["id"])
        _check_results(turns[number - 1] if number else [], turn)
        _check_answered(turn, turns[number + 1] if number + 1 < len(turns) else [])


def _check_results(before: Sequence[Message], turn: Sequence[Message]) -> None:
    asked = {block["id"] for _, block in _located(before, "tool_use")}
    answered: set[str] = set()
    for at, block in _located(turn, "tool_result"):
        given = block["tool_use_id"]
        if given not in asked:
            raise Rejection(
                400,
                f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {given}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous "
                "message.",
            )
        if given in answered:
            raise Rejection(
                400,
                f"{at}: each tool_use must have a single result. Found multiple `tool_result` "
                f"blocks with id: {given}",
            )
        answered.add(given)


def _check_answered(turn: Sequence[Message], following: Sequence[Message]) -> None:
    asked = [block["id"] for _, block in _located(turn, "tool_use")]
    missing = [each for each in asked if each not in _leading_results(following)]
    if missing:
        raise Rejection(
            400,
            f"{turn[-1].at}: `tool_use` ids were found without `tool_result` blocks immediately "
            f"after: {', '.join(missing)}. Each `tool_use` block must have a corresponding "
            "`tool_result` block in the next message.",
        )


def _leading_results(turn: Sequence[Message]) -> set[str]:
    """Return the ids answered before anything else is said: later results do not count."""
    answered: set[str] = set()
    for block in (block for message in turn for block in message.blocks):
        if block["type"] != "tool_result":
            break
        answered.add(block["tool_use_id"])
    return answered


def _located(turn: Sequence[Message], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for message in turn:
        for number, block in enumerate(message.blocks):
            if block["type"] == kind:
                yield f"{message.at}.content.{number}", block


def _check_markers(body: dict[str, Any]) -> None:
    markers = list(_markers(body))
    for at, marker in markers:
        if not is_object(marker) or marker.get("type") != "ephemeral":
            raise Rejection(400, f"{at}.cache_control.type: Input should be 'ephemeral'")
        if marker.get("ttl", "5m") not in {"5m", "1h"}:
            raise Rejection(400, f"{at}.cache_control.ttl: Input should be '5m' or '1h'")
    if len(markers) > 4:
        raise Rejection(
            400, f"A maximum of 4 blocks with cache_control may be provided. Found {len(markers)}."
        )
    short = False
    for at, marker in markers:
        if short and marker.get("ttl") == "1h":
            raise Rejection(
                400,
                f"{at}.cache_control.ttl: a ttl='1h' cache_control block must not come after a "
                "ttl='5m' cache_control block. Note that blocks are processed in the following "
                "order: `tools`, `system`, `messages`.",
            )
        short = short or marker.get("ttl", "5m") == "5m"


def _markers(body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    system = body.get("system")
    lists: list[tuple[str, Any]] = [
        ("tools", body.get("tools")),
        ("system", system if is_array(system) else None),
        *((f"messages.{i}.content", m.get("content")) for i, m in enumerate(body["messages"])),
    ]
    for at, blocks in lists:
        for number, block in enumerate(blocks if is_array(blocks) else ()):
            if block.get("cache_control") is not None:
                yield f"{at}.{number}", block["cache_control"]
    if body.get("cache_control") is not None:
        yield "top level", body["cache_control"]


def _check_signatures(request: ReceivedRequest, messages: Sequence[Message]) -> None:
    before = conversation(request)
    for message in messages:
        for number, block in enumerate(message.blocks):
            at = f"{message.at}.content.{number}"
            if block["type"] == "thinking":
                _check_thinking(block, f"{at}.thinking")
                fault = before.fault(block["thinking"], block["signature"])
            elif block["type"] == "redacted_thinking":
                fault = before.fault("", str(block.get("data")))
            else:
                before.add(message.role, block)
                continue
            if fault:
                raise Rejection(400, f"{at}: {fault}")


def _check_thinking(block: dict[str, Any], at: str) -> None:
    for name in ("thinking", "signature"):
        if not isinstance(block.get(name), str):
            raise Rejection(400, f"{at}.{name}: Field required")


def _remarks(messages: Sequence[Message], model: str) -> list[str]:
    remarks = [
        f"{turn[0].at} to {turn[-1].at} have one role and are read as one turn"
        for turn in _turns(messages)
        if len(turn) > 1
    ]
    ignored = [message.at for message in messages if message.role == "system"]
    if ignored and system_entries(model) == "ignored":
        remarks.append(f"this model ignores the system entries {', '.join(ignored)}")
    return remarks
