"""Names of tool calls on the wire.

What one model wrote may be refused by the provider that reads it after a switch: ids that repeat
from answer to answer or hold other characters, tools that never existed.
"""

from __future__ import annotations

import re
from collections.abc import Container

import msgspec

from perdure.history.content import ToolCall
from perdure.history.items import AssistantItem

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class IdRule(msgspec.Struct, frozen=True):
    """Which call ids a protocol takes: no character that `refused` finds, at most `length`."""

    refused: re.Pattern[str]
    length: int


class CallIds:
    """Give each call an id on the wire that no earlier call has.

    An id stays as it came where it can; what replaces it depends only on earlier answers.
    """

    def __init__(self, rule: IdRule) -> None:
        self._rule = rule
        self._taken: set[str] = set()
        self._earlier: Container[str] = frozenset()
        self._now: dict[str, str] = {}

    def fork(self) -> CallIds:
        """Return ids that continue these without changing them."""
        fork = CallIds(self._rule)
        fork._earlier = self._taken  # shared, since copying would cost more with every answer
        fork._now = dict(self._now)
        return fork

    def name(self, answer: AssistantItem) -> dict[str, str]:
        """Return the wire id of each call of an answer, whose results may follow now."""
        calls = [part.id for part in answer.parts if isinstance(part, ToolCall)]
        self._now = {call: self._unique(call, answer.step) for call in calls}
        return self._now

    def wire(self, call: str) -> str:
        """Return the wire id of a call of the newest answer."""
        return self._now.get(call, call)

    def _unique(self, call: str, step: int) -> str:
        base = self._rule.refused.sub("_", call)[: self._rule.length] or "call"
        name, tries = base, 0
        while name in self._taken or name in self._earlier:
            suffix = f"_{step}_{tries}"  # a step keeps its number in a fork, a seq does not
            name, tries = base[: self._rule.length - len(suffix)] + suffix, tries + 1
        self._taken.add(name)
        return name


def tool_name(name: str, known: Container[str]) -> str:
    """Return a tool's name as every provider takes it; the names of `known` tools stay."""
    if name in known or _NAME.fullmatch(name):
        return name
    return _NO_NAME.sub("_", name)[:64] or "unknown"
