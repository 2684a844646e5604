"""OpenAI Chat Completions: how the scripted provider puts a reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from perdure.history.content import Usage
from perdure.testing.cache import Account, PromptCache, estimate, tokens_of
from perdure.testing.openai_chat_rules import check_body
from perdure.testing.openai_refusals import CREATED, check_headers, error_body, model_list
from perdure.testing.prefix import blocks
from perdure.testing.script import Called, Failure, Part, Reply, Said, Thought
from perdure.testing.stream import Frame, Trouble, halves, pieces, with_faults, words
from perdure.testing.wire import ReceivedRequest, Rejection, Response, Rules, identifier, is_object

_STOP = {
    "end": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "refusal": "content_filter",
}


class OpenAIChat:
    """Serve `POST /v1/chat/completions`, as OpenAI does or as a local server with a template."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._cache = PromptCache()

    def authorize(self, request: ReceivedRequest) -> None:
        """Raise Rejection when a key is asked for and does not come."""
        check_headers(request, self._rules)

    def check(self, request: ReceivedRequest) -> Sequence[str]:
        """Return no remarks; raise Rejection when a request is not acceptable."""
        check_body(request, self._rules)
        self._check_window(request)
        return ()

    def models(self, names: Sequence[str]) -> Any:
        """Return the body of the list of models."""
        return model_list(names)

    def error_body(self, failure: Failure, param: str | None = None) -> Any:
        """Return the body of an error: OpenAI's, or llama.cpp's where a template is in use."""
        return error_body(failure, param, self._rules.template)

    def answer(self, request: ReceivedRequest, reply: Reply) -> Response:
        """Render a reply that has content."""
        found = blocks(request)
        usage = _usage(reply, self._cache.account(found, range(len(found))))
        if not request.json.get("stream"):
            return _document(request, reply, usage)
        options: Any = request.json.get("stream_options")
        asked = is_object(options) and options.get("include_usage")
        frames = list(_stream(request, reply, usage if asked else None))
        steps = with_faults(frames, reply.faults, _error_frame)
        return Response(200, (("content-type", "text/event-stream; charset=utf-8"),), steps)

    def _check_window(self, request: ReceivedRequest) -> None:
        window = self._rules.window
        if window is not None and (total := tokens_of(blocks(request))) > window:
            raise _overflow(total, window, self._rules.template)


def _overflow(total: int, window: int, template: str | None) -> Rejection:
    if template:
        words = (
            f"request ({total} tokens) exceeds the available context size ({window} tokens), try "
            "increasing it"
        )
        return Rejection(400, words, type="exceed_context_size_error")
    words = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted "
        f"in {total} tokens. Please reduce the length of the messages."
    )
    return Rejection(400, words, param="messages", code="context_length_exceeded")


def _usage(reply: Reply, account: Account) -> dict[str, Any] | None:
    if reply.usage is None:
        return None
    reasoning = sum(estimate(part.text) for part in reply.parts if isinstance(part, Thought))
    usage = reply.usage or Usage(
        input=account.total,
        output=sum(_spoken(part) for part in reply.parts),
        cache_read=account.read,
        reasoning=reasoning,
    )
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    }


def _spoken(part: Part) -> int:
    return estimate(part.arguments if isinstance(part, Called) else part.text)


def _calls(request: ReceivedRequest, parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [
        {
            "id": part.id or f"call_{identifier(request, number)}",
            "type": "function",
            "function": {"name": part.name, "arguments": part.arguments},
        }
        for number, part in enumerate(parts)
        if isinstance(part, Called)
    ]


def _stop(reply: Reply) -> str:
    called = any(isinstance(part, Called) for part in reply.parts)
    stop = reply.stop or ("tool_calls" if called else "end")
    return _STOP.get(stop, stop)


def _document(request: ReceivedRequest, reply: Reply, usage: dict[str, Any] | None) -> Response:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if said := "".join(part.text for part in reply.parts if isinstance(part, Said)):
        message["content"] = said
    if thought := "".join(_thoughts(reply.parts)):
        message["reasoning_content"] = thought
    if calls := _calls(request, reply.parts):
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _stop(reply)}
    body = _envelope(request, "chat.completion") | {"choices": [choice]}
    data = msgspec.json.encode(body | {"usage": usage} if usage else body)
    steps = with_faults(halves(data), reply.faults, _error_frame)
    return Response(200, (("content-type", "application/json"),), steps)


def _stream(
    request: ReceivedRequest, reply: Reply, usage: dict[str, Any] | None
) -> Iterator[Frame]:
    # Where usage is asked for, every chunk has the member, and only the last one a value.
    envelope = _envelope(request, "chat.completion.chunk") | ({"usage": None} if usage else {})
    yield _chunk(envelope, {"role": "assistant", "content": ""})
    for delta in _deltas(request, reply.parts):
        # An empty fragment says nothing, so a fault counted in fragments does not count it.
        calls = delta.get("tool_calls")
        yield _chunk(envelope, delta, content=not calls or "id" not in calls[0])
    yield _chunk(envelope, {}, finish=_stop(reply))
    if usage:
        yield _frame(envelope | {"choices": [], "usage": usage}, ends=True)
    yield Frame(b"data: [DONE]\n\n", ends=True)


def _deltas(request: ReceivedRequest, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    for thought in _thoughts(parts):
        yield from ({"reasoning_content": fragment} for fragment in words(thought))
    for part in parts:
        if isinstance(part, Said):
            yield from ({"content": fragment} for fragment in words(part.text))
    for index, call in enumerate(_calls(request, parts)):
        function = call["function"]
        opening = call | {"index": index, "function": function | {"arguments": ""}}
        yield {"tool_calls": [opening]}
        for fragment in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}


def _thoughts(parts: Sequence[Part]) -> list[str]:
    return [part.text for part in parts if isinstance(part, Thought) and not part.redacted]


def _envelope(request: ReceivedRequest, kind: str) -> dict[str, Any]:
    given = f"chatcmpl-{identifier(request)}"
    return {"id": given, "object": kind, "created": CREATED, "model": request.json["model"]}


def _chunk(
    envelope: dict[str, Any],
    delta: dict[str, Any],
    *,
    finish: str | None = None,
    content: bool = False,
) -> Frame:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _frame(envelope | {"choices": [choice]}, content=content, ends=finish is not None)


def _frame(event: dict[str, Any], *, content: bool = False, ends: bool = False) -> Frame:
    return Frame(b"data: " + msgspec.json.encode(event) + b"\n\n", content, ends)


def _error_frame(trouble: Trouble) -> bytes:
    error = {"message": trouble.message, "type": trouble.type, "param": None, "code": None}
    return _frame({"error": error}).data
