"""What the providers' own libraries say of requests and streams, in every protocol.

Each library is a dependency of the tests only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec
from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from google.genai import types as gemini
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from perdure.models.openai_reasoning import DETAILS, MEMBERS
from perdure.models.openai_stream import EXTRA
from tests.models import openai_types

_MESSAGES: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)
_MESSAGE_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
_CHAT: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)


def check_request(protocol: str, body: Any) -> None:
    """Raise where a request is none of the protocol, or has a member that its library lacks."""
    _REQUESTS[protocol](body)


def check_event(protocol: str, event: Any) -> None:
    """Raise where an event of a stream is not as documented, or has a member too many."""
    _EVENTS[protocol](event)


def _check_messages(body: Any) -> None:
    assert _plain(_MESSAGES.validate_python(body)) == body


def _check_chat(body: Any) -> None:
    body = {**body, "messages": [_without_reasoning(each) for each in body["messages"]]}
    assert _plain(_CHAT.validate_python(body)) == body


def _check_gemini(body: Any) -> None:
    for content in [*body["contents"], body.get("systemInstruction", {"parts": []})]:
        gemini.Content.model_validate_json(msgspec.json.encode(content))
    for tool in body.get("tools", []):
        gemini.Tool.model_validate_json(msgspec.json.encode(tool))
    gemini.GenerationConfig.model_validate_json(msgspec.json.encode(body["generationConfig"]))


def _check_message_event(event: Any) -> None:
    # The library raises these two before it looks at types: a sign of life, and an error.
    if event["type"] == "ping":
        assert event == {"type": "ping"}
    elif event["type"] == "error":
        assert event["error"].keys() == {"type", "message"}
    else:
        found = _MESSAGE_EVENT.validate_python(event, strict=True)
        assert found.type == event["type"]
        openai_types.refuse_more(found)


def _check_chunk(event: Any) -> None:
    if "error" in event:
        # The library raises it as an error of the API, with these members.
        assert event["error"].keys() == {"message", "type", "param", "code"}
        return
    choices = [
        {**choice, "delta": _without_reasoning(choice["delta"])} for choice in event["choices"]
    ]
    found = ChatCompletionChunk.model_validate({**event, "choices": choices}, strict=True)
    openai_types.refuse_more(found)


def _check_contents(event: Any) -> None:
    if "error" in event:
        assert event["error"].keys() == {"code", "message", "status"}
        return
    gemini.GenerateContentResponse.model_validate_json(msgspec.json.encode(event))


def _without_reasoning(message: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what only servers other than OpenAI's have: reasoning and the seals of calls."""
    kept = {name: value for name, value in message.items() if name not in (*MEMBERS, DETAILS)}
    if calls := kept.get("tool_calls"):
        kept["tool_calls"] = [
            {name: value for name, value in call.items() if name != EXTRA} for call in calls
        ]
    return kept


def _plain(value: Any) -> Any:
    """Return what was validated as plain data: unknown members are gone, lazy lists are read."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {name: _plain(each) for name, each in pairs}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(each) for each in cast("Iterable[Any]", value)]
    return value


_REQUESTS: Mapping[str, Callable[[Any], None]] = {
    "openai-chat": _check_chat,
    "openai-responses": openai_types.check_request,
    "anthropic": _check_messages,
    "gemini": _check_gemini,
}
_EVENTS: Mapping[str, Callable[[Any], None]] = {
    "openai-chat": _check_chunk,
    "openai-responses": openai_types.check_event,
    "anthropic": _check_message_event,
    "gemini": _check_contents,
}
