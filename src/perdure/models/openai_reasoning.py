"""Reasoning in Chat Completions: what can be read, and the sealed lists that routers want back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.history.content import Reasoning
from perdure.models.encoding import as_array, as_object, as_text

MEMBERS = ("reasoning_content", "reasoning")
"""The members in which servers send visible reasoning and take it back."""

DETAILS = "reasoning_details"
"""The list in which routers send reasoning with its seals, and want it back as it came."""

_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The kinds of details that come in fragments, each with the member that grows."""


class _Detail:
    """One detail while it grows."""

    __slots__ = ("fragments", "member", "raw")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.member = _growing(raw)
        self.raw = dict(raw)
        self.fragments = [as_text(raw.get(self.member))]

    def takes(self, raw: dict[str, Any]) -> bool:
        """Tell whether another detail continues this one: a seal ends it, and so does a new id."""
        return bool(
            self.member
            and (raw.get("type"), raw.get("index")) == (self.raw.get("type"), self.raw.get("index"))
            and raw.get("id") in (None, self.raw.get("id"))
            and not (self.raw.get("signature") and as_text(raw.get(self.member)))
        )

    def grow(self, raw: dict[str, Any]) -> None:
        self.fragments.append(as_text(raw.get(self.member)))
        self.raw |= {name: value for name, value in raw.items() if value not in (None, "")}

    def whole(self) -> dict[str, Any]:
        return self.raw | ({self.member: "".join(self.fragments)} if self.member else {})


class Thoughts:
    """The reasoning of one answer while it grows."""

    __slots__ = ("_details", "_member", "_words")

    def __init__(self) -> None:
        self._details: list[_Detail] = []
        self._member = ""
        self._words: list[str] = []

    def feed(self, delta: Mapping[str, Any]) -> str:
        """Take what a delta holds and return what can be read of it."""
        given = map(as_object, as_array(delta.get(DETAILS)))
        details = [each for each in given if as_text(each.get("type"))]
        for detail in details:
            self._detail(detail)
        for member in MEMBERS:
            if text := as_text(delta.get(member)):
                self._member = self._member or member
                self._words.append(text)
                return text
        # Routers say the same twice, in the list and in a member; only the list may stand alone.
        if self._member:
            return ""
        said = [_readable(detail) for detail in details]
        self._words += said
        return "".join(said)

    def parts(self) -> list[Reasoning]:
        """Return the reasoning as a part of the answer, or nothing where there was none."""
        text = "".join(self._words)
        opaque: dict[str, Any] = {"member": self._member} if self._member else {}
        if self._details:
            opaque["details"] = [detail.whole() for detail in self._details]
        return [Reasoning(text, opaque or None)] if text or opaque else []

    def _detail(self, raw: dict[str, Any]) -> None:
        known = next((each for each in reversed(self._details) if each.takes(raw)), None)
        if known is None:
            self._details.append(_Detail(raw))
        else:
            known.grow(raw)


def returned(part: Reasoning) -> dict[str, Any]:
    """Return the members in which reasoning came, or none where it came from another protocol."""
    opaque = as_object(part.opaque)
    member, details = opaque.get("member"), as_array(opaque.get("details"))
    words = {member: part.text} if member in MEMBERS else {}
    return words | ({DETAILS: details} if details else {})


def _readable(detail: dict[str, Any]) -> str:
    return as_text(detail.get(_growing(detail)))


def _growing(detail: dict[str, Any]) -> str:
    """Return the member of a detail that grows, empty where it comes whole."""
    return _GROWING.get(as_text(detail.get("type")), "")
