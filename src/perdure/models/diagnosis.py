"""What a provider itself says of a missed prompt cache, and how it is asked.

The answers hold it in their own shapes. Whatever comes gives words on one line, or none: a
diagnosis is worth nothing that a failed step would cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from perdure.history.events import RequestShape
from perdure.history.items import AssistantItem, Frame, Item
from perdure.models.encoding import as_array, as_count, as_object, as_text, encode
from perdure.models.head import WIRE

_ITEMS = 1000
_KINDS = 8
_LONGEST_ID = 128

_ASKS = "cache_diagnostics"
"""The convention, among the parameters of a shape, that a request asks for the reason."""


def asking(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters of requests that ask why the prompt cache was missed."""
    return {**parameters, WIRE: {**as_object(parameters.get(WIRE)), _ASKS: True}}


def asks(shape: RequestShape) -> bool:
    """Tell whether a request asks why the prompt cache was missed: only Anthropic's can."""
    wire = as_object(shape.parameters.get(WIRE))
    return shape.protocol == "anthropic" and wire.get(_ASKS) is True


def question(frame: Frame, items: Sequence[Item]) -> bytes:
    """Return the end of a body that asks: it names the newest answer of this epoch and model.

    Where there is none it names nothing, which the API takes as the first request of a row.
    """
    newest = next((item for item in reversed(items) if _is_known(item, frame)), None)
    previous = newest.response if isinstance(newest, AssistantItem) else None
    return b'],"diagnostics":' + encode({"previous_message_id": previous}) + b"}"


def _is_known(item: Item, frame: Frame) -> bool:
    return (
        isinstance(item, AssistantItem)
        and bool(item.response)
        and (item.epoch, item.model) == (frame.epoch, frame.model)
    )


def answer_id(value: object) -> str:
    """Return the id of an answer, or nothing where it is none that could be named later."""
    found = as_text(value)
    return found if len(found) <= _LONGEST_ID and found.isascii() and found.isprintable() else ""


def anthropic_reason(diagnostics: object) -> str:
    """Return the reason in the `diagnostics` of Anthropic's Messages; it may come much later."""
    reason = as_object(as_object(diagnostics).get("cache_miss_reason"))
    return _reason(reason.get("type"), reason.get("cache_missed_input_tokens"))


def openai_reason(response: dict[str, Any]) -> str:
    """Return what a Response says of its cache and of the reasoning that it left out.

    Reasoning that is left out changes what the model reads from there on, so the cache ends there.
    """
    found = as_object(response.get("prompt_cache_diagnostics"))
    missed = "" if found.get("type") == "cache_hit" else _reason(found.get("type"), None)
    if found.get("type") == "cache_miss":
        missed = _reason(found.get("reason") or "cache_miss", found.get("cache_missed_tokens"))
    withheld = _withheld(as_array(response.get("input_transformations")))
    return "; ".join(each for each in (missed, withheld) if each)


def _withheld(transformations: list[Any]) -> str:
    items = map(as_object, islice(transformations, _ITEMS))
    reasons = Counter(as_text(item.get("reason")) for item in items if item.get("reason"))
    counted = [
        f"{reason} ({count} items)" if count > 1 else reason
        for reason, count in reasons.most_common(_KINDS)
        if reason
    ]
    return f"reasoning left out: {', '.join(counted)}" if counted else ""


def _reason(word: object, tokens: object) -> str:
    said, missed = as_text(word), as_count(tokens)
    return f"{said} ({missed} input tokens)" if said and missed else said
