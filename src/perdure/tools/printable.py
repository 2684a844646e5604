"""Text from models, files and commands, made safe to show on one line."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with everything that does not print written as an escape.

    Line ends, terminal control sequences, characters that change the reading direction and
    invisible ones all become visible, so that nothing can pretend to be another line or hide.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def legible(text: str) -> str:
    """Return a line that a person reads: tabs reach to their stops, all else as in `printable`."""
    return printable(text.expandtabs())


def storable(text: str) -> str:
    """Return the text without NUL and lone surrogates, which stores and providers refuse."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def shortened(text: str, longest: int) -> str:
    """Return at most about `longest` characters of the text: its head, a visible cut, its tail.

    A text that is hardly longer is returned whole, where naming the cut would take more.
    """
    if len(text) <= longest:
        return text
    tail = longest // 4
    head = longest - tail
    cut = f"{text[:head]} [... {len(text) - longest} characters ...] {text[-tail:]}"
    return cut if len(cut) < len(text) else text


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
