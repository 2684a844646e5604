"""Session entries: facts that a program sets through the API, each a Context Source of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from perdure.config.location import shown
from perdure.config.values import json_text
from perdure.context import Source
from perdure.errors import UsageError

LIMIT = 8 * 1024
"""The largest entry, in bytes of its JSON."""

_LONGEST_NAME = 200


class Entry(msgspec.Struct, frozen=True):
    """One entry's value: any JSON data, null included."""

    value: Any


class _Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


_MARKS = {"pending": " ", "in_progress": "~", "completed": "x"}


def check_entry(name: str, value: object) -> Any:
    """Return an entry's value as plain JSON data; raise UsageError where it cannot be an entry."""
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"an entry's name must be 1 to {_LONGEST_NAME} printable characters,"
            f" not {shown(name[:_LONGEST_NAME])!r}"
        )
    encoded = json_text(value)
    if encoded is None:
        raise UsageError(f"entry {name}: the value must be JSON data")
    if len(encoded) > LIMIT:
        raise UsageError(
            f"entry {name}: the value is {len(encoded)} bytes of JSON; the limit is {LIMIT}"
        )
    return msgspec.json.decode(encoded)


def entries(values: Mapping[str, Any]) -> list[Source[Entry]]:
    """Return a source for each session entry that `check_entry` let in, in the order of names."""
    return [_source(name, values[name]) for name in sorted(values)]


def _source(name: str, value: Any) -> Source[Entry]:
    def load() -> Entry:
        return Entry(value)

    return Source(
        key=f"entry/{name}",
        type=Entry,
        load=load,
        inline=True,
        baseline=lambda entry: _told(name, entry, "Its value"),
        update=lambda _, current: _told(name, current, "Its value is now"),
        removed=lambda _: f"# Entry {name}\n\nThis entry is gone; its value no longer applies.",
    )


def _told(name: str, entry: Entry, says: str) -> str:
    if name == "todo" and (lines := _checklist(entry.value)):
        return f"# Entry todo\n\n{says}:\n\n{lines}"
    return f"# Entry {name}\n\n{says}, as JSON: {_json(entry)}"


def _checklist(value: Any) -> str:
    """Return the list that the tool `todo` keeps as lines; empty for anything else."""
    try:
        items = msgspec.convert(value, list[_Item])
    except msgspec.ValidationError:
        return ""
    return "\n".join(
        f"- [{_MARKS[item.status]}] {' '.join(item.content.split())}" for item in items
    )


def _json(entry: Entry) -> str:
    return msgspec.json.encode(entry.value, order="deterministic").decode()
