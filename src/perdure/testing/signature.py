"""Sign thinking so that it is bound to the conversation before it.

A signature carries what it was made for: digests of the model, the system text, the tools, the
earlier messages and the thinking itself. So it can be checked by any scripted provider, also by one
that was started later, and the refusal can say what has changed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from perdure.testing.prefix import Block, blocks, unmarked
from perdure.testing.wire import ReceivedRequest

_ISSUER = "scripted"

Bound = Literal["seal", "system", "tools", "messages"]
"""What a signature holds for: itself, and what stands before the block."""


class Conversation:
    """What precedes a thinking block, growing message by message."""

    def __init__(self, model: str, system: list[Block], tools: list[Block]) -> None:
        self._model = _digest(model)
        self._system = _digest([block.content for block in system])
        self._tools = _digest([block.content for block in tools])
        self._messages = hashlib.sha256()

    def add(self, role: str, content: Any) -> None:
        """Go on with one content block; thinking may be left out later, so it does not count."""
        if content.get("type") in {"thinking", "redacted_thinking", "reasoning"}:
            return
        plain = [role, unmarked(content)]
        self._messages.update(msgspec.json.encode(plain, order="sorted"))

    def sign(self, thinking: str) -> str:
        """Return the signature of a thinking block that comes now."""
        seals = [*self._seals(), _digest(thinking), self._model]
        return base64.b64encode(":".join([_ISSUER, *seals, _digest(seals)]).encode()).decode()

    def fault(self, thinking: str, signature: str) -> str | None:
        """Return None when a block may stand here, else the provider's words after its place."""
        what = self.broken(thinking, signature)
        if what is None:
            return None
        words = "Invalid `signature` in `thinking` block"
        return words if what == "seal" else f"{words}. {_BOUND} {_CHANGES[what]}"

    def broken(self, thinking: str, signature: str) -> Bound | None:
        """Return None when a block may stand here, else what is not as it was."""
        seals = _opened(signature)
        if seals is None or seals[3:] != [_digest(thinking), self._model]:
            return "seal"
        pairs = zip(_CHANGES, seals[:3], self._seals(), strict=True)
        return next((what for what, was, now in pairs if was != now), None)

    def _seals(self) -> list[str]:
        return [self._system, self._tools, self._messages.hexdigest()[:16]]


def conversation(request: ReceivedRequest) -> Conversation:
    """Return the conversation of a request before its first message."""
    found = blocks(request)
    system = [block for block in found if block.part == "system"]
    tools = [block for block in found if block.part == "tools"]
    return Conversation(request.json["model"], system, tools)


_BOUND = (
    "The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the '
    "`thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
)
_CHANGES: Mapping[Bound, str] = {
    "system": "The `system` prompt differs from the one this block was created with.",
    "tools": "The `tools` list differs from the one this block was created with.",
    "messages": "The messages before this block differ from those it was created with.",
}


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]


def _opened(signature: str) -> list[str] | None:
    """Return the five seals of a signature that was made here, else None."""
    try:
        issuer, *seals, check = base64.b64decode(signature, validate=True).decode().split(":")
    except ValueError:
        return None
    return seals if issuer == _ISSUER and len(seals) == 5 and check == _digest(seals) else None
