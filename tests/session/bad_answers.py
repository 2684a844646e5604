"""What providers, and whatever stands before them, answer when they answer badly; and its outcome.

Streams are written by hand as each provider documents its events.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec
import pytest

from perdure import errors
from perdure.testing import Reply, call, cut, error, raw, say, stream_error
from perdure.testing import html as page_of_html
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.models.streams import (
    HELLO,
    MESSAGE_STOP,
    RESPONSE_CREATED,
    added,
    block_delta,
    block_start,
    call_delta,
    candidate,
    delta,
    done,
    ended,
    frames,
    growth,
    message_delta,
    message_start,
)

LOOK = '{"path":"."}'


class Failed(msgspec.Struct, frozen=True):
    """The step fails with an error of a kind, whose message says all of the words."""

    kind: type[errors.ProviderError]
    words: tuple[str, ...]


class Answered(msgspec.Struct, frozen=True):
    """The step has an answer: why it stopped, its text, how each of its calls was settled, and the
    provider's own word for a stop that nobody knows."""

    stop: str = "end"
    text: str = "Hello"
    calls: tuple[str, ...] = ()
    stopped: str = ""


Case = tuple[Reply, Failed | Answered]


def failed(kind: type[errors.ProviderError], *words: str) -> Failed:
    return Failed(kind, words)


def stream(*events: Any) -> Reply:
    """Answer with a stream of these events."""
    return raw(frames(*events))


def chat(*deltas: Any, finish: str | None = "stop") -> Reply:
    return stream(*deltas, *([delta(finish)] if finish else []), "[DONE]")


def chat_calls(*entries: Any) -> Reply:
    return chat(*(delta(tool_calls=[entry]) for entry in entries), finish="tool_calls")


def messages(*events: Any, stop: str | None = "end_turn") -> Reply:
    return stream(message_start(input_tokens=3), *events, message_delta(stop), MESSAGE_STOP)


def text_block(text: str, index: int = 0) -> list[Any]:
    return [
        block_start(index, "text", text=""),
        block_delta(index, "text_delta", text=text),
        {"type": "content_block_stop", "index": index},
    ]


def tool_use(call_id: str | None, *fragments: str, index: int = 0, name: str = "list") -> list[Any]:
    named = {"id": call_id} if call_id is not None else {}
    return [
        block_start(index, "tool_use", name=name, input={}, **named),
        *(block_delta(index, "input_json_delta", partial_json=each) for each in fragments),
        {"type": "content_block_stop", "index": index},
    ]


def responses(*events: Any, status: str = "completed", **members: Any) -> Reply:
    return stream(RESPONSE_CREATED, *events, ended(status, **members))


def function_call(call_id: str, arguments: str = LOOK, index: int = 0) -> list[Any]:
    item = {"id": f"fc_{index}", "call_id": call_id, "name": "list"}
    return [
        added(index, "function_call", arguments="", **item),
        growth(index, "function_call_arguments", arguments),
        done(index, "function_call", arguments=arguments, **item),
    ]


def message_item(text: str, index: int = 0) -> list[Any]:
    content: list[Any] = [{"type": "output_text", "text": text, "annotations": []}]
    return [
        added(index, "message", id=f"msg_{index}", content=[]),
        growth(index, "output_text", text),
        done(index, "message", id=f"msg_{index}", content=content, role="assistant"),
    ]


def gemini_call(**members: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "list", "args": {"path": "."}, **members}}


def json_error(status: int, body: Any) -> Reply:
    return raw(msgspec.json.encode(body), status, "application/json")


def google(status: int, code: str, message: str, *details: Any) -> Reply:
    error = {"code": status, "message": message, "status": code, "details": list(details)}
    return json_error(status, {"error": error})


BROKEN = errors.BrokenStream
REFUSED = failed(errors.ContentRefused, "change the prompt")
KEY_WANTED = "set SCRIPTED_API_KEY to a valid key"
PROXY_PAGE = b"""<!doctype html><html><head><title>%s</title><style>b{color:red}</style></head>
<body><center><h1>%s</h1></center><hr>nginx</body></html>"""


def page(status: int, title: bytes) -> Reply:
    return raw(PROXY_PAGE % (title, title), status, "text/html; charset=utf-8")


ANYWHERE: Mapping[str, Case] = {
    "a sign-in page with status 200": (page_of_html(), failed(BROKEN, "text/html")),
    "a proxy's page, 502": (
        page(502, b"502 Bad Gateway"),
        failed(errors.ProviderOverloaded, "answered 502: 502 Bad Gateway;", "try again later"),
    ),
    "a proxy's page, 403": (
        page(403, b"403 Forbidden"),
        failed(errors.AuthenticationFailed, "403 Forbidden", "proxy"),
    ),
    "a proxy's page, 407": (
        page(407, b"Proxy Authentication Required"),
        failed(errors.InvalidRequest, "Proxy Authentication Required", "HTTPS_PROXY"),
    ),
    "a captive portal": (
        raw(b"", 302, "text/html", {"location": "http://portal.example/login?next=x"}),
        failed(errors.InvalidRequest, "http://portal.example/login", "sign in to the network"),
    ),
    "no bytes at all": (raw(b""), failed(BROKEN, "cut before the answer was whole")),
    "no bytes and no kind": (raw(b"", content_type=""), failed(BROKEN, "instead of events")),
    "an empty document": (
        raw(b"", content_type="application/json"),
        failed(BROKEN, "no answer instead of an event stream"),
    ),
    "a document of another program": (
        raw(b'{"status":"ok"}', content_type="application/json"),
        failed(BROKEN, "no answer instead of an event stream"),
    ),
    "garbage that says it is compressed": (
        raw(b"\x1f\x8b\x08\x00garbage" * 9, headers={"content-encoding": "gzip"}),
        failed(BROKEN, "try again"),
    ),
    "bytes that are no text": (
        raw(bytes(range(128, 256)) * 20),
        failed(BROKEN, "cut before the answer was whole"),
    ),
    "an event that is no JSON": (raw(b"data: {\xff\xfe\n\n"), failed(BROKEN, "not a JSON object")),
    "an event beyond all bounds": (
        raw(b"data: " + b"x" * (16 * 2**20)),
        failed(BROKEN, "one event has more than 16777216 bytes"),
    ),
    "a chunked body that is cut off": (
        cut(say("One two three four."), after=2),
        failed(BROKEN, "the connection broke"),
    ),
    "a body that ends in the middle": (
        cut(say("One two three four."), after=2, clean=True),
        failed(BROKEN, "cut before the answer was whole"),
    ),
    "no usage": (say("Hello", usage=None), Answered()),
    "an error inside the stream": (
        stream_error(say("One two three four."), after=2),
        failed(errors.ProviderOverloaded, "Overloaded;", "try again later"),
    ),
}
"""What may come in any protocol, from the provider or from anywhere before it."""


OF_CHAT: Mapping[str, Case] = {
    "an unknown stop reason": (
        chat(delta(content="Hello"), finish="bored"),
        Answered(stopped="bored"),
    ),
    "an answer cut at the limit": (
        chat(delta(content="Hello"), finish="length"),
        Answered("length"),
    ),
    "a call without an id": (
        chat_calls(call_delta(0, None, "list", LOOK)),
        Answered("tool_calls", "", ("completed",)),
    ),
    "calls with one id": (
        chat_calls(call_delta(0, "c", "list", LOOK), call_delta(1, "c", "list", LOOK)),
        Answered("tool_calls", "", ("completed", "completed")),
    ),
    "arguments that never close": (
        chat_calls(call_delta(0, "c", "list", '{"path":'), call_delta(0, None, None, '"a')),
        Answered("tool_calls", "", ("failed",)),
    ),
    "a call that the limit cut": (
        chat(delta(tool_calls=[call_delta(0, "c", "list", '{"path":')]), finish="length"),
        Answered("length", "", ("failed",)),
    ),
    "calls side by side, their fragments mixed": (
        chat_calls(
            call_delta(0, "a", "list", '{"pa'),
            call_delta(1, "b", "list", '{"path"'),
            call_delta(0, None, None, 'th":"."}'),
            call_delta(1, None, None, ':"."}'),
        ),
        Answered("tool_calls", "", ("completed", "completed")),
    ),
    "an event of tomorrow": (
        stream(delta(content="Hello"), {"object": "chat.mood", "mood": 7}, delta("stop"), "[DONE]"),
        Answered(),
    ),
    "an expired key": (
        json_error(
            401,
            {
                "error": {
                    "message": "Incorrect API key provided: scripted-key.",
                    "type": "invalid_request_error",
                    "param": None,
                    "code": "invalid_api_key",
                }
            },
        ),
        failed(errors.AuthenticationFailed, "Incorrect API key provided: ***", KEY_WANTED),
    ),
    "a spent quota": (
        error(
            429,
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        failed(errors.QuotaExceeded, "exceeded your current quota", "add credit"),
    ),
    "a refused answer": (chat(finish="content_filter"), REFUSED),
    "an answer that was stopped by a filter": (
        chat(delta(content="Hello"), finish="content_filter"),
        REFUSED,
    ),
    "calls before a refusal": (
        chat(delta(tool_calls=[call_delta(0, "c", "list", LOOK)]), finish="content_filter"),
        REFUSED,
    ),
    "a refusal in words": (chat(delta(refusal="Hello")), Answered("refusal")),
    "a refused prompt": (
        error(400, message="It was flagged.", code="content_policy_violation"),
        REFUSED,
    ),
    "a quota that ends inside the stream": (
        stream(
            delta(content="Hel"),
            {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}},
        ),
        failed(errors.QuotaExceeded, "add credit"),
    ),
}

OF_RESPONSES: Mapping[str, Case] = {
    "an unknown stop reason": (
        responses(
            *message_item("Hello"), status="incomplete", incomplete_details={"reason": "bored"}
        ),
        Answered("length", stopped="bored"),
    ),
    "an answer cut at the limit": (
        responses(
            *message_item("Hello"),
            status="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        ),
        Answered("length"),
    ),
    "a call without an id": (
        responses(
            added(0, "function_call", name="list", arguments=""),
            done(0, "function_call", name="list", arguments=LOOK),
        ),
        Answered("tool_calls", "", ("completed",)),
    ),
    "calls with one id": (
        responses(*function_call("c"), *function_call("c", index=1)),
        Answered("tool_calls", "", ("completed", "completed")),
    ),
    "arguments that never close": (
        responses(*function_call("c", '{"path":"a')),
        Answered("tool_calls", "", ("failed",)),
    ),
    "a call that the limit cut": (
        responses(
            *function_call("c", '{"path":')[:2],
            status="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        ),
        Answered("length", "", ("failed",)),
    ),
    "calls side by side, their fragments mixed": (
        responses(
            *chain(*zip(function_call("a"), function_call("b", index=1), strict=True)),
        ),
        Answered("tool_calls", "", ("completed", "completed")),
    ),
    "an event of tomorrow": (
        responses({"type": "response.mood.delta", "delta": 7}, *message_item("Hello")),
        Answered(),
    ),
    "an item of tomorrow": (
        responses(added(0, "mood", id="m"), done(0, "mood", id="m"), *message_item("Hello", 1)),
        Answered(),
    ),
    "an expired key": OF_CHAT["an expired key"],
    "a spent quota": OF_CHAT["a spent quota"],
    "a refused answer": (
        responses(status="incomplete", incomplete_details={"reason": "content_filter"}),
        REFUSED,
    ),
    "calls before a refusal": (
        responses(
            *message_item("Hello"),
            *function_call("c", index=1),
            status="incomplete",
            incomplete_details={"reason": "content_filter"},
        ),
        REFUSED,
    ),
    "a refusal in words": (
        responses(
            added(0, "message", id="msg_0", role="assistant", content=[]),
            growth(0, "refusal", "Hello"),
            done(
                0,
                "message",
                id="msg_0",
                role="assistant",
                content=[{"type": "refusal", "refusal": "Hello"}],
            ),
        ),
        Answered("refusal"),
    ),
    "a refused prompt": (error(400, message="It was flagged.", code="invalid_prompt"), REFUSED),
    "a response that fails": (
        responses(
            *message_item("Hel"),
            status="failed",
            error={"code": "server_error", "message": "The server had an error."},
        ),
        failed(errors.ProviderOverloaded, "The server had an error", "try again later"),
    ),
    "a quota that ends inside the stream": (
        stream(
            RESPONSE_CREATED,
            {"type": "error", "code": "insufficient_quota", "message": "No more.", "param": None},
        ),
        failed(errors.QuotaExceeded, "add credit"),
    ),
}

OF_ANTHROPIC: Mapping[str, Case] = {
    "an unknown stop reason": (
        messages(*text_block("Hello"), stop="bored"),
        Answered(stopped="bored"),
    ),
    "no stop reason": (messages(*text_block("Hello"), stop=None), Answered()),
    "an answer cut at the limit": (
        messages(*text_block("Hello"), stop="max_tokens"),
        Answered("length"),
    ),
    "an answer cut at the window": (
        messages(*text_block("Hello"), stop="model_context_window_exceeded"),
        Answered("length"),
    ),
    "a pause": (messages(*text_block("Hello"), stop="pause_turn"), Answered("pause")),
    "a call without an id": (
        messages(*tool_use(None, LOOK), stop="tool_use"),
        Answered("tool_calls", "", ("completed",)),
    ),
    "calls with one id": (
        messages(*tool_use("c", LOOK), *tool_use("c", LOOK, index=1), stop="tool_use"),
        Answered("tool_calls", "", ("completed", "completed")),
    ),
    "arguments that never close": (
        messages(*tool_use("c", '{"path":', '"a'), stop="tool_use"),
        Answered("tool_calls", "", ("failed",)),
    ),
    "a call that the limit cut": (
        messages(*tool_use("c", '{"path":')[:2], stop="max_tokens"),
        Answered("length", "", ("failed",)),
    ),
    "calls side by side, their fragments mixed": (
        messages(
            *chain(
                *zip(
                    tool_use("a", '{"path"', ':"."}'),
                    tool_use("b", '{"path":"', '."}', index=1),
                    strict=True,
                )
            ),
            stop="tool_use",
        ),
        Answered("tool_calls", "", ("completed", "completed")),
    ),
    "an event of tomorrow": (
        messages({"type": "mood", "mood": 7}, *text_block("Hello")),
        Answered(),
    ),
    "a block of tomorrow": (
        messages(block_start(0, "mood", mood=7), *text_block("Hello", 1)),
        Answered(),
    ),
    "an expired key": (
        error(401, "authentication_error", "invalid x-api-key"),
        failed(errors.AuthenticationFailed, "invalid x-api-key", KEY_WANTED),
    ),
    "a spent quota": (
        error(400, message="Your credit balance is too low to access the Anthropic API."),
        failed(errors.QuotaExceeded, "credit balance is too low", "add credit"),
    ),
    "a bill that is not paid": (
        error(402, "billing_error"),
        failed(errors.QuotaExceeded, "add credit"),
    ),
    "a refused answer": (messages(stop="refusal"), REFUSED),
    "an answer that ends in a refusal": (
        messages(*text_block("Hello"), stop="refusal"),
        REFUSED,
    ),
    "calls before a refusal": (messages(*tool_use("c", LOOK), stop="refusal"), REFUSED),
    "a refused prompt": (
        error(400, message="Output blocked by content filtering policy"),
        REFUSED,
    ),
    "a quota that ends inside the stream": (
        stream(
            message_start(),
            {"type": "error", "error": {"type": "billing_error", "message": "No more."}},
        ),
        failed(errors.QuotaExceeded, "add credit"),
    ),
}

OF_GEMINI: Mapping[str, Case] = {
    "an unknown stop reason": (
        stream(candidate({"text": "Hello"}, finish="BORED")),
        Answered(stopped="BORED"),
    ),
    "an answer cut at the limit": (
        stream(candidate({"text": "Hello"}, finish="MAX_TOKENS")),
        Answered("length"),
    ),
    "a call without an id": (
        stream(candidate(gemini_call(), finish="STOP")),
        Answered("tool_calls", "", ("completed",)),
    ),
    "calls with one id": (
        stream(
            candidate(gemini_call(id="c"), gemini_call(id="c", args={"path": "./"}), finish="STOP")
        ),
        Answered("tool_calls", "", ("completed", "completed")),
    ),
    "a malformed call": (
        call("list", '{"path":"a'),
        failed(BROKEN, "call was malformed", "try again"),
    ),
    "an event of tomorrow": (
        stream(
            {"mood": 7},
            candidate({"mood": 7}),
            candidate({"text": "Hello"}),
            candidate(finish="STOP"),
        ),
        Answered(),
    ),
    "an expired key": (
        google(
            400,
            "INVALID_ARGUMENT",
            "API key expired. Please renew the API key.",
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
        ),
        failed(errors.AuthenticationFailed, "API key expired", KEY_WANTED),
    ),
    "a key without rights": (
        error(403),
        failed(errors.AuthenticationFailed, "does not have permission", KEY_WANTED),
    ),
    "a spent quota": (
        google(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.",
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
            },
        ),
        failed(errors.QuotaExceeded, "exceeded your current quota", "add credit"),
    ),
    "an answer refused for safety": (stream(candidate(finish="SAFETY")), REFUSED),
    "an answer that is prohibited": (stream(candidate(finish="PROHIBITED_CONTENT")), REFUSED),
    "an answer that ends in a refusal": (
        stream(candidate({"text": "Hello"}), candidate(finish="SAFETY")),
        REFUSED,
    ),
    "calls before a refusal": (stream(candidate(gemini_call(), finish="SAFETY")), REFUSED),
    "a refused prompt": (
        stream({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
        failed(errors.ContentRefused, "PROHIBITED_CONTENT", "change the prompt"),
    ),
    "a quota that ends inside the stream": (
        stream(
            candidate({"text": "Hel"}),
            {"error": {"code": 429, "message": "Quota: billing.", "status": "RESOURCE_EXHAUSTED"}},
        ),
        failed(errors.QuotaExceeded, "add credit"),
    ),
}


OWN: Mapping[ProtocolName, Mapping[str, Case]] = {
    "openai-chat": OF_CHAT,
    "openai-responses": OF_RESPONSES,
    "anthropic": OF_ANTHROPIC,
    "gemini": OF_GEMINI,
}


def no_text(protocol: ProtocolName) -> Case:
    garbled = HELLO[protocol].replace(b"Hel", b"H\xff").replace(b"H\xfflo", b"H\xff")
    return raw(garbled), Answered(text="")


CASES = [
    pytest.param(protocol, *case, id=f"{protocol}: {name}")
    for protocol in PROTOCOLS
    for cases in (ANYWHERE, {"text that is no UTF-8": no_text(protocol)}, OWN[protocol])
    for name, case in cases.items()
]
