"""docs/events.md is whole: every event and every field has its row, and no row is made up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from perdure.context.snapshot import SourceSnapshot
from perdure.history import events as ev
from perdure.history.content import Part, ToolDefinition, Usage

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "events.md"

NAMED: dict[str, type[msgspec.Struct]] = {
    **ev.EVENTS,
    **{kind.type: kind for kind in get_args(ev.Live)},
    **{kind.__name__: kind for kind in get_args(Part)},
    "Failure": ev.Failure,
    "RequestShape": ev.RequestShape,
    "SourceSnapshot": SourceSnapshot,
    "ToolDefinition": ToolDefinition,
    "Usage": Usage,
}
"""What has a section of its own, under the name that readers know it by."""

_SECTION = re.compile(r"^(?:### ([\w.]+)|\*\*(\w+)\*\* \(.*\))$", re.M)
_ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| .*\|$", re.M)


def sections() -> dict[str, dict[str, str]]:
    """Return each section's fields with what the document says of their type."""
    document = DOCUMENT.read_text("utf-8")
    headings = list(_SECTION.finditer(document))
    ends = [*(each.start() for each in headings[1:]), len(document)]
    return {
        # A larger heading ends a section too.
        heading[1] or heading[2]: dict(
            _ROW.findall(document[heading.end() : end].partition("\n## ")[0])
        )
        for heading, end in zip(headings, ends, strict=True)
    }


def literals(name: str, field: str) -> tuple[Any, ...]:
    """Return the words that a field may hold, or nothing where it may hold any."""
    hints = msgspec.inspect.type_info(NAMED[name])
    assert isinstance(hints, msgspec.inspect.StructType)
    (found,) = (each.type for each in hints.fields if each.name == field)
    return found.values if isinstance(found, msgspec.inspect.LiteralType) else ()


@pytest.mark.parametrize("name", NAMED)
def test_the_document_names_exactly_the_fields_of(name: str) -> None:
    documented = sections().get(name)
    assert documented is not None, f"docs/events.md has no section for {name}"
    assert sorted(documented) == sorted(NAMED[name].__struct_fields__)


@pytest.mark.parametrize("name", NAMED)
def test_the_document_names_every_word_that_a_field_may_hold(name: str) -> None:
    for field, said in sections()[name].items():
        missing = [word for word in literals(name, field) if f'"{word}"' not in said]
        assert missing == [], f"{name}.{field}"


@pytest.mark.parametrize("name", NAMED)
def test_the_document_says_which_fields_have_a_default(name: str) -> None:
    kind = NAMED[name]
    optional = kind.__struct_fields__[len(kind.__struct_fields__) - len(kind.__struct_defaults__) :]
    said = {field for field, text in sections()[name].items() if "default" in text}
    assert said == set(optional)


def test_the_document_has_no_event_that_does_not_exist() -> None:
    assert {name for name in sections() if "." in name} <= NAMED.keys()
