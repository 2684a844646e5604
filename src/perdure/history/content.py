"""What messages are made of, whichever provider they come from or go to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="kind", omit_defaults=True):
    """Words for the reader.

    `opaque` is what else the provider's own item held, as JSON data, where it must go back too.
    """

    text: str
    opaque: Any = None


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning", tag_field="kind", omit_defaults=True):
    """Thinking that a model showed or sealed.

    `text` is what can be read (may be empty). `opaque` is the provider's own block as JSON data,
    to go back exactly as it came; it is bound to provider, model and Context Epoch.
    """

    text: str
    opaque: Any = None


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call", tag_field="kind", omit_defaults=True):
    """One call that the model asks for.

    `arguments` is the JSON text exactly as it came; it may be broken. `id` is unique within the
    assistant message and is the provider's where it gave one. `opaque` is what else the provider's
    own item held, as JSON data, where it must go back too.
    """

    id: str
    name: str
    arguments: str
    opaque: Any = None


MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
"""The kinds of images that providers take."""


class Image(msgspec.Struct, frozen=True, omit_defaults=True):
    """A picture that a Prompt or the result of a tool call carries.

    `data` is the file, byte for byte; in JSON it is base64. `width` and `height` are pixels as the
    file's own header gives them. `name` is that of the file, for people.
    """

    media_type: MediaType
    data: bytes
    width: int
    height: int
    name: str = ""

    def __repr__(self) -> str:
        return f"Image({self.described!r})"

    @property
    def described(self) -> str:
        """One line about it: name, kind, pixels and size."""
        kind = self.media_type.removeprefix("image/").upper().replace("WEBP", "WebP")
        size = max(1, round(len(self.data) / 1024))
        name = f"{self.name}: " if self.name else ""
        return f"{name}{kind} image, {self.width} x {self.height} pixels, {size} KiB"


Part = Text | Reasoning | ToolCall
"""One part of an assistant message, in the order in which the model produced it."""


def words_of(parts: Iterable[Part]) -> str:
    """Return what a message says to its reader: its text, without reasoning and calls."""
    return "".join(part.text for part in parts if isinstance(part, Text))


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider counted them.

    `input` is all of the prompt, cached or not; `cache_read` and `cache_write` are the parts of it
    read from and written to the provider's prompt cache; `reasoning` is a part of `output`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of what was counted."""
    counts = [msgspec.structs.astuple(each) for each in usages]
    return Usage(*map(sum, zip(*counts, strict=True))) if counts else Usage()


class ToolDefinition(msgspec.Struct, frozen=True):
    """A tool as the model is told of it: name, description, JSON Schema of the parameters."""

    name: str
    description: str
    parameters: dict[str, Any]


StopReason = Literal["end", "tool_calls", "length", "refusal", "pause"]
"""Why the model stopped: it was done, wants tools, reached its output limit, or declined."""

Form = Literal["native", "wrapped"]
"""How a System Message goes on the wire: the provider's own role, or an element in a user turn."""
