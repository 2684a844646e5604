"""The head of a `SKILL.md`: lines of YAML between two lines of three dashes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import cast

import msgspec

from perdure.config.location import shown

LIMIT = 8 * 1024
"""How far into the file its frontmatter may reach, in bytes."""

_MOST_BRACKETS = 100
_LONGEST_REASON = 200
_OPENING = re.compile(r"---[ \t]*\r?\n")
_CLOSING = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
# A field in one line, whose value is not quoted and is no collection, block or comment.
_BARE_FIELD = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(?![\"'|>&*!{\[#])(.+?)[ \t]*\r?$", re.MULTILINE)


class Frontmatter(msgspec.Struct, frozen=True):
    """The fields that count, as they are written; empty where there is none.

    `remark` says on one line what had to be put up with.
    """

    name: str = ""
    description: str = ""
    compatibility: str = ""
    remark: str = ""


def split(text: str) -> tuple[str, str] | None:
    """Return frontmatter and body; None where the text begins with no whole frontmatter."""
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return None
    return text[opening.end() : closing.start()], text[closing.end() :].lstrip("\r\n")


def read(head: str) -> Frontmatter | str:
    """Return the frontmatter of the head of a file, or on one line why it is unusable."""
    if not _OPENING.match(head):
        return "it does not begin with frontmatter: its first line must be three dashes"
    parts = split(head)
    if parts is None:
        return f"its frontmatter does not end within the first {LIMIT // 1024} KiB"
    return _parse(parts[0])


# Parsing takes longer than reading, and the same text comes again at every boundary.
@lru_cache(maxsize=1024)
def _parse(written: str) -> Frontmatter | str:
    if sum(map(written.count, "[{")) > _MOST_BRACKETS:
        return f"its frontmatter holds more than {_MOST_BRACKETS} opening brackets"
    from perdure.skills._plain_yaml import load_plain  # yaml is slow to import

    remark = ""
    try:
        data = load_plain(written)
    except ValueError as error:
        reason = _line(f"its frontmatter is no valid YAML: {error}")
        try:
            data = load_plain(_BARE_FIELD.sub(_quoted, written))
        except ValueError:
            return reason
        remark = f"{reason}; it is read as if its values were quoted"
    if not isinstance(data, dict):
        return "its frontmatter is no mapping of fields to values"
    fields = cast("dict[object, object]", data)
    return Frontmatter(
        name=_text(fields, "name"),
        description=_text(fields, "description"),
        compatibility=_text(fields, "compatibility"),
        remark=remark,
    )


def _quoted(field: re.Match[str]) -> str:
    value = field[2].replace("'", "''")
    return f"{field[1]}: '{value}'"


def _text(fields: dict[object, object], key: str) -> str:
    value = fields.get(key)
    return value.strip() if isinstance(value, str) else ""


def _line(reason: str) -> str:
    return shown(" ".join(reason.split()))[:_LONGEST_REASON]
