"""What the chat templates of local servers refuse, in the words of llama.cpp."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.testing.wire import Rejection


def check_arguments(texts: Iterable[str]) -> None:
    """Refuse arguments of calls that are no JSON, which a template could not read."""
    for text in texts:
        try:
            msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            words = f"Failed to parse tool call arguments as JSON: {error}"
            raise Rejection(500, words) from None


def _late_system_refused(messages: Sequence[Mapping[str, Any]]) -> None:
    if any(message["role"] in {"system", "developer"} for message in messages[1:]):
        raise _template_error("System message must be at the beginning.")


def _gemma(messages: Sequence[Mapping[str, Any]]) -> None:
    if any(message["role"] in {"system", "developer"} for message in messages):
        raise _template_error("System role not supported")


def _template_error(words: str) -> Rejection:
    source = "\n------------\nWhile executing CallExpression at line 85, column 32 in source:\n..."
    return Rejection(500, f"{source}\nError: Jinja Exception: {words}")


TEMPLATES: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], None]] = {
    "late-system-refused": _late_system_refused,
    "gemma": _gemma,
}
"""Chat templates by name: that of Qwen 3.5 to 3.8 takes a system message only as the first one,
that of Gemma takes none."""
