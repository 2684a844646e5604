"""Why a prompt cache was missed, as Anthropic's API says it to whoever asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.testing.cache import estimate
from perdure.testing.prefix import Block, blocks
from perdure.testing.wire import ReceivedRequest, Rejection, is_object

_REASONS = {
    "parameters": "unavailable",
    "tools": "tools_changed",
    "system": "system_changed",
    "messages": "messages_changed",
}


class Diagnostics:
    """Remember the requests that asked, by the id of their answer, and compare the next ones."""

    def __init__(self) -> None:
        self._seen: dict[str, list[Block]] = {}

    def answer(self, request: ReceivedRequest, message: str) -> dict[str, Any]:
        """Return the member `diagnostics` of an answer with that id, or nothing if nobody asked."""
        asked: Any = request.json.get("diagnostics")
        if asked is None:
            return {}
        now = self._seen[message] = blocks(request)
        previous = asked.get("previous_message_id")
        if previous is None:
            return {"diagnostics": None}
        reason = _difference(self._seen.get(previous), now)
        return {"diagnostics": reason and {"cache_miss_reason": reason}}


def check_diagnostics(body: Mapping[str, Any]) -> None:
    """Raise Rejection where a request asks in another shape than the API takes."""
    asked: Any = body.get("diagnostics")
    if asked is None:
        return
    if not is_object(asked):
        raise Rejection(400, "diagnostics: Input should be a valid dictionary")
    for name in sorted(asked.keys() - {"previous_message_id"}):
        raise Rejection(400, f"diagnostics.{name}: Extra inputs are not permitted")
    if not isinstance(asked.get("previous_message_id"), str | None):
        raise Rejection(400, "diagnostics.previous_message_id: Input should be a valid string")


def _difference(was: Sequence[Block] | None, now: Sequence[Block]) -> dict[str, Any] | None:
    if was is None:
        return {"type": "previous_message_not_found"}
    for place, block in enumerate(was):
        if place >= len(now) or now[place] != block:
            return _reason(was, now, place)
    return None


def _reason(was: Sequence[Block], now: Sequence[Block], place: int) -> dict[str, Any]:
    block = was[place]
    kind = _REASONS[block.part]
    if block.part == "parameters" and block.content.get("model") != now[place].content.get("model"):
        kind = "model_changed"
    if kind == "unavailable":
        return {"type": kind}
    missed = sum(estimate(each.canonical()) for each in was[place:])
    return {"type": kind, "cache_missed_input_tokens": missed}
