"""Anthropic Messages: how the scripted provider puts a reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from perdure.history.content import Usage
from perdure.testing.anthropic_rules import check_body, check_headers
from perdure.testing.cache import Account, PromptCache, estimate, tokens_of
from perdure.testing.diagnostics import Diagnostics
from perdure.testing.prefix import marked_blocks
from perdure.testing.script import Called, Failure, Part, Reply, Thought
from perdure.testing.signature import Conversation, conversation
from perdure.testing.stream import Frame, Trouble, halves, pieces, with_faults, words
from perdure.testing.wire import (
    ReceivedRequest,
    Rejection,
    Response,
    Rules,
    identifier,
)

_STOP = {
    "end": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "pause": "pause_turn",
}
_ERRORS = {
    400: ("invalid_request_error", "The request was invalid"),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "There is an issue with your billing"),
    403: ("permission_error", "Your API key does not have permission to use this resource"),
    404: ("not_found_error", "The requested resource could not be found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your rate limit. Try again later."),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", "The request timed out"),
    529: ("overloaded_error", "Overloaded"),
}


class _Content(msgspec.Struct, frozen=True):
    """One content block: whole, as it opens in a stream, and the deltas in between."""

    whole: dict[str, Any]
    start: dict[str, Any]
    deltas: list[dict[str, Any]]


class AnthropicMessages:
    """Serve `POST /v1/messages` as Anthropic's own API does."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._cache = PromptCache()
        self._diagnostics = Diagnostics()

    def authorize(self, request: ReceivedRequest) -> None:
        """Raise Rejection when the key or the version is missing."""
        check_headers(request, self._rules)

    def check(self, request: ReceivedRequest) -> Sequence[str]:
        """Return remarks about a request; raise Rejection when it is not acceptable."""
        remarks = check_body(request, self._rules)
        self._check_window(request)
        return remarks

    def models(self, names: Sequence[str]) -> Any:
        """Return the body of the list of models."""
        data = [{"type": "model", "id": name, "display_name": name} for name in names]
        ends = {"first_id": names[0], "last_id": names[-1]} if names else {}
        return {"data": data, "has_more": False, **ends}

    def error_body(self, failure: Failure, param: str | None = None) -> Any:  # noqa: ARG002 - Wire
        """Return the body of an error."""
        kind, message = _ERRORS.get(failure.status, ("api_error", "Error"))
        said = {"type": failure.type or kind, "message": failure.message or message}
        return {"type": "error", "error": said, "request_id": "req_scripted"}

    def answer(self, request: ReceivedRequest, reply: Reply) -> Response:
        """Render a reply that has content, and remember what it put into the cache."""
        blocks, marks = _marked(request)
        usage = _usage(reply, self._cache.account(blocks, marks))
        message = _message(request, reply)
        message |= self._diagnostics.answer(request, message["id"])
        contents = list(_contents(request, reply.parts))
        if not request.json.get("stream"):
            body = {**message, "content": [content.whole for content in contents]}
            return _json(body | {"usage": usage} if usage else body, reply)
        steps = with_faults(list(_stream(message, contents, usage)), reply.faults, _error_frame)
        return Response(200, _headers("text/event-stream; charset=utf-8"), steps)

    def _check_window(self, request: ReceivedRequest) -> None:
        window, asked = self._rules.window, request.json["max_tokens"]
        if window is None:
            return
        total = tokens_of(_marked(request)[0])
        if total > window:
            raise Rejection(400, f"prompt is too long: {total} tokens > {window} maximum")
        if total + asked > window:
            raise Rejection(
                400,
                f"input length and `max_tokens` exceed context limit: {total} + {asked} > "
                f"{window}, decrease input length or `max_tokens` and try again",
            )


def _marked(request: ReceivedRequest) -> tuple[list[Any], list[int]]:
    """Return the blocks of a request and where its cached prefixes end."""
    pairs = list(marked_blocks(request))
    marks = [at for at, (_, marked) in enumerate(pairs) if marked]
    if request.json.get("cache_control"):
        # At the top level it marks the last block that can be cached.
        marks = sorted({*marks, len(pairs) - 1})
    return [block for block, _ in pairs], marks


def _usage(reply: Reply, account: Account) -> dict[str, Any] | None:
    if reply.usage is None:
        return None
    usage = reply.usage or Usage(
        input=account.total,
        output=_spoken(reply.parts),
        cache_read=account.read,
        cache_write=account.write,
    )
    return {
        "input_tokens": usage.input - usage.cache_read - usage.cache_write,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "service_tier": "standard",
    }


def _spoken(parts: Sequence[Part]) -> int:
    return sum(
        estimate(part.arguments if isinstance(part, Called) else part.text) for part in parts
    )


def _message(request: ReceivedRequest, reply: Reply) -> dict[str, Any]:
    called = any(isinstance(part, Called) for part in reply.parts)
    stop = reply.stop or ("tool_calls" if called else "end")
    return {
        "id": f"msg_{identifier(request)}",
        "type": "message",
        "role": "assistant",
        "model": request.json["model"],
        "content": [],
        "stop_reason": _STOP.get(stop, stop),
        "stop_sequence": None,
    }


def _contents(request: ReceivedRequest, parts: Sequence[Part]) -> Iterator[_Content]:
    before = conversation(request)
    for block, _ in marked_blocks(request):
        if block.part == "messages":
            before.add(block.role, block.content)
    for number, part in enumerate(parts):
        content = _content(request, number, part, before)
        before.add("assistant", content.whole)
        yield content


def _content(request: ReceivedRequest, number: int, part: Part, before: Conversation) -> _Content:
    if isinstance(part, Called):
        return _tool_use(part, part.id or f"toolu_{identifier(request, number)}")
    if isinstance(part, Thought):
        return _thinking(part, before.sign("" if part.redacted else part.text))
    return _Content(
        {"type": "text", "text": part.text},
        {"type": "text", "text": ""},
        [{"type": "text_delta", "text": fragment} for fragment in words(part.text)],
    )


def _tool_use(part: Called, given: str) -> _Content:
    start: dict[str, Any] = {"type": "tool_use", "id": given, "name": part.name, "input": {}}
    try:
        arguments = msgspec.json.decode(part.arguments)
    except msgspec.DecodeError:
        # Only a stream can carry broken JSON; a document has room for an object only.
        arguments = {}
    deltas = ["", *pieces(part.arguments)]
    return _Content(
        start | {"input": arguments},
        start,
        [{"type": "input_json_delta", "partial_json": fragment} for fragment in deltas],
    )


def _thinking(part: Thought, signature: str) -> _Content:
    if part.redacted:
        whole = {"type": "redacted_thinking", "data": signature}
        return _Content(whole, whole, [])
    return _Content(
        {"type": "thinking", "thinking": part.text, "signature": signature},
        {"type": "thinking", "thinking": "", "signature": ""},
        [
            *({"type": "thinking_delta", "thinking": fragment} for fragment in words(part.text)),
            {"type": "signature_delta", "signature": signature},
        ],
    )


def _stream(
    message: dict[str, Any], contents: Sequence[_Content], usage: dict[str, Any] | None
) -> Iterator[Frame]:
    opening = {**message, "stop_reason": None}
    if usage:
        opening["usage"] = usage | {"output_tokens": 1}
    yield _frame({"type": "message_start", "message": opening})
    for index, content in enumerate(contents):
        yield from _block_frames(index, content)
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    closing: dict[str, Any] = {"type": "message_delta", "delta": stop}
    if usage:
        closing["usage"] = {"output_tokens": usage["output_tokens"]}
    yield _frame(closing, ends=True)
    yield _frame({"type": "message_stop"}, ends=True)


def _block_frames(index: int, content: _Content) -> Iterator[Frame]:
    start = {"type": "content_block_start", "index": index, "content_block": content.start}
    yield _frame(start)
    if index == 0:
        yield _frame({"type": "ping"})
    for delta in content.deltas:
        # An empty fragment says nothing, so a fault counted in fragments does not count it.
        spoken = delta["type"] != "signature_delta" and delta.get("partial_json") != ""
        event = {"type": "content_block_delta", "index": index, "delta": delta}
        yield _frame(event, content=spoken)
    yield _frame({"type": "content_block_stop", "index": index})


def _frame(event: dict[str, Any], *, content: bool = False, ends: bool = False) -> Frame:
    data = f"event: {event['type']}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n"
    return Frame(data, content, ends)


def _error_frame(trouble: Trouble) -> bytes:
    error = {"type": trouble.type, "message": trouble.message}
    return _frame({"type": "error", "error": error}).data


def _json(body: dict[str, Any], reply: Reply) -> Response:
    frames = halves(msgspec.json.encode(body))
    return Response(
        200, _headers("application/json"), with_faults(frames, reply.faults, _error_frame)
    )


def _headers(content_type: str) -> tuple[tuple[str, str], ...]:
    return (("content-type", content_type), ("request-id", "req_scripted"))
