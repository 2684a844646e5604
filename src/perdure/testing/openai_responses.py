"""OpenAI Responses: how the scripted provider puts a reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from perdure.history.content import Usage
from perdure.testing.cache import Account, PromptCache, estimate, tokens_of
from perdure.testing.openai_refusals import CREATED, check_headers, error_body, model_list
from perdure.testing.openai_responses_rules import SEALED, check_body, led_to, remember
from perdure.testing.prefix import blocks, input_items
from perdure.testing.script import Called, Failure, Part, Reply, Thought
from perdure.testing.signature import conversation
from perdure.testing.stream import Frame, Trouble, halves, pieces, with_faults, words
from perdure.testing.wire import ReceivedRequest, Rejection, Response, Rules, identifier

_CUT = {"length": "max_output_tokens", "refusal": "content_filter"}
_WHOLE = (None, "end", "tool_calls")

_AFTER_ALL = 1_000_000
"""The number of an error event, which may come at any place in a stream."""

Event = dict[str, Any]


class OpenAIResponses:
    """Serve `POST /v1/responses` as OpenAI does for a client that lets it keep nothing."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._cache = PromptCache()

    def authorize(self, request: ReceivedRequest) -> None:
        """Raise Rejection when a key is asked for and does not come."""
        check_headers(request, self._rules)

    def check(self, request: ReceivedRequest) -> Sequence[str]:
        """Return no remarks; raise Rejection when a request is not acceptable."""
        check_body(request, self._rules)
        window = self._rules.window
        if window is not None and tokens_of(blocks(request)) > window:
            raise Rejection(
                400,
                "Your input exceeds the context window of this model. Please adjust your input "
                "and try again.",
                param="input",
                code="context_length_exceeded",
            )
        return ()

    def models(self, names: Sequence[str]) -> Any:
        """Return the body of the list of models."""
        return model_list(names)

    def error_body(self, failure: Failure, param: str | None = None) -> Any:
        """Return the body of an error."""
        return error_body(failure, param, self._rules.template)

    def answer(self, request: ReceivedRequest, reply: Reply) -> Response:
        """Render a reply that has content."""
        found = blocks(request)
        usage = _usage(reply, self._cache.account(found, range(len(found))))
        items = list(_items(request, reply.parts))
        closing = _response(request, _ending(reply.stop), items, usage)
        if not request.json.get("stream"):
            steps = with_faults(halves(msgspec.json.encode(closing)), reply.faults, _error_frame)
            return Response(200, (("content-type", "application/json"),), steps)
        opening = _response(request, {"status": "in_progress"}, [], None)
        frames = list(_numbered(_stream(opening, items, closing)))
        steps = with_faults(frames, reply.faults, _error_frame)
        return Response(200, (("content-type", "text/event-stream; charset=utf-8"),), steps)


def _usage(reply: Reply, account: Account) -> dict[str, Any] | None:
    if reply.usage is None:
        return None
    usage = reply.usage or Usage(
        input=account.total,
        output=sum(estimate(_text(part)) for part in reply.parts),
        cache_read=account.read,
        cache_write=account.write,
        reasoning=sum(estimate(part.text) for part in reply.parts if isinstance(part, Thought)),
    )
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def _text(part: Part) -> str:
    return part.arguments if isinstance(part, Called) else part.text


def _ending(stop: str | None) -> dict[str, Any]:
    """Return how a response ends: complete, or cut for a reason in OpenAI's word or another."""
    if stop in _WHOLE:
        return {"status": "completed"}
    return {"status": "incomplete", "incomplete_details": {"reason": _CUT.get(stop or "", stop)}}


def _response(
    request: ReceivedRequest,
    ending: dict[str, Any],
    output: list[dict[str, Any]],
    usage: dict[str, Any] | None,
) -> dict[str, Any]:
    body = request.json
    return {
        "id": f"resp_{identifier(request)}",
        "object": "response",
        "created_at": CREATED,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "prompt_cache_key": body.get("prompt_cache_key"),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "usage": usage,
        **ending,
    }


def _items(request: ReceivedRequest, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    """Yield the output items: each knows the reasoning just before it, and is bound to the rest."""
    before = conversation(request)
    for item in input_items(request.json):
        remember(before, item)
    sealed = SEALED in (request.json.get("include") or ())
    reasoning = ""
    for number, part in enumerate(parts):
        own = identifier(request, f"item {number}")
        if isinstance(part, Thought):
            reasoning = f"rs_{own}"
            item = _reasoning(part, reasoning)
            if sealed:
                item["encrypted_content"] = before.sign(reasoning)
        else:
            item = _said(request, number, part, own, reasoning)
            reasoning = ""
        remember(before, item)
        yield item


def _reasoning(part: Thought, own: str) -> dict[str, Any]:
    shown = part.text and not part.redacted
    summary = [{"type": "summary_text", "text": part.text}] if shown else []
    return {"id": own, "type": "reasoning", "summary": summary}


def _said(
    request: ReceivedRequest, number: int, part: Part, own: str, reasoning: str
) -> dict[str, Any]:
    if isinstance(part, Called):
        return {
            "id": led_to("fc", own, reasoning),
            "type": "function_call",
            "status": "completed",
            "call_id": part.id or f"call_{identifier(request, number)}",
            "name": part.name,
            "arguments": part.arguments,
        }
    content: dict[str, Any] = {"type": "output_text", "text": part.text}
    return {
        "id": led_to("msg", own, reasoning),
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "phase": "final_answer",
        "content": [content | {"annotations": [], "logprobs": []}],
    }


def _stream(
    opening: dict[str, Any], items: Sequence[dict[str, Any]], closing: dict[str, Any]
) -> Iterator[Event]:
    yield {"type": "response.created", "response": opening}
    yield {"type": "response.in_progress", "response": opening}
    for index, item in enumerate(items):
        at = {"output_index": index}
        yield {"type": "response.output_item.added", **at, "item": _begun(item)}
        yield from _GROWTH[item["type"]](item, {"item_id": item["id"], **at})
        yield {"type": "response.output_item.done", **at, "item": item}
    yield {"type": f"response.{closing['status']}", "response": closing}


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item as it is when nothing of it has been said."""
    match item["type"]:
        case "message":
            return item | {"status": "in_progress", "content": []}
        case "function_call":
            return item | {"status": "in_progress", "arguments": ""}
        case _:
            # What is sealed so far is shown too, and is not what has to come back.
            part = {"encrypted_content": "cGFydA=="} if "encrypted_content" in item else None
            begun: dict[str, Any] = {"summary": [], **(part or {})}
            return item | begun


def _message_events(item: dict[str, Any], at: Event) -> Iterator[Event]:
    content = item["content"][0]
    at = at | {"content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": content | {"text": ""}}
    yield from _texts("response.output_text", content["text"], at | {"logprobs": []})
    yield {"type": "response.content_part.done", **at, "part": content}


def _reasoning_events(item: dict[str, Any], at: Event) -> Iterator[Event]:
    for index, part in enumerate(item["summary"]):
        name, place = "response.reasoning_summary", at | {"summary_index": index}
        yield {"type": f"{name}_part.added", **place, "part": part | {"text": ""}}
        yield from _texts(f"{name}_text", part["text"], place)
        yield {"type": f"{name}_part.done", **place, "part": part}


def _call_events(item: dict[str, Any], at: Event) -> Iterator[Event]:
    name, arguments = "response.function_call_arguments", item["arguments"]
    yield from ({"type": f"{name}.delta", **at, "delta": piece} for piece in pieces(arguments))
    yield {"type": f"{name}.done", **at, "arguments": arguments}


_GROWTH = {
    "message": _message_events,
    "reasoning": _reasoning_events,
    "function_call": _call_events,
}


def _texts(name: str, text: str, at: Event) -> Iterator[Event]:
    yield from ({"type": f"{name}.delta", **at, "delta": fragment} for fragment in words(text))
    yield {"type": f"{name}.done", **at, "text": text}


def _numbered(events: Iterator[Event]) -> Iterator[Frame]:
    numbers = count()
    for event in events:
        yield _frame(event | {"sequence_number": next(numbers)})


def _frame(event: Event) -> Frame:
    kind: str = event["type"]
    data = f"event: {kind}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n"
    return Frame(data, kind.endswith(".delta"), kind in _ENDS)


_ENDS = ("response.completed", "response.incomplete")


def _error_frame(trouble: Trouble) -> bytes:
    said = {"code": trouble.type, "message": trouble.message, "param": None}
    return _frame({"type": "error", **said, "sequence_number": _AFTER_ALL}).data
