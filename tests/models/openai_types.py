"""What OpenAI's own library says of requests and streams: its types, applied to all of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import BaseModel, TypeAdapter, with_config

_REQUEST: TypeAdapter[Any] = TypeAdapter(
    with_config({"extra": "forbid"})(ResponseCreateParamsStreaming)
)
_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def check_request(body: Any) -> None:
    """Raise ValidationError where a request is none of Responses."""
    _read(_REQUEST.validate_python(body))


def check_event(event: Any) -> None:
    """Raise where an event of a stream is not as documented, or has a member too many."""
    found = _EVENT.validate_python(event, strict=True)
    assert found.type == event["type"]
    refuse_more(found)


def check_response(body: Any) -> None:
    """Raise where a whole response is not as documented, or has a member too many."""
    refuse_more(Response.model_validate(body, strict=True))


def _read(value: Any) -> None:
    """Read all that pydantic checks only when it is read."""
    if isinstance(value, Mapping):
        value = list(cast("Mapping[str, Any]", value).values())
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for each in cast("Iterable[Any]", value):
            _read(each)


def refuse_more(value: Any) -> None:
    """Refuse members that the library does not know: it would keep them without a word."""
    if isinstance(value, list):
        for each in cast("list[Any]", value):
            refuse_more(each)
    elif isinstance(value, BaseModel):
        assert not value.model_extra, f"{type(value).__name__} has no {sorted(value.model_extra)}"
        for _, each in value:
            refuse_more(each)
