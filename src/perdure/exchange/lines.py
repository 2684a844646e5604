"""The lines of an export: a header, the events, the stored outputs, and an end.

There is one way to write each of them, so a line that reads back differently was not written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from perdure.history import events as ev
from perdure.tools.bounded import DEFAULT_LIMITS

FORMAT = "perdure-session"
VERSION = 1

LONGEST_HEADER = 64 * 1024
LONGEST_LINE = 64 * 1024 * 1024
LARGEST_OUTPUT = DEFAULT_LIMITS.kept
"""In bytes, as the two above; a line counts with its end."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_OUTPUT_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}\.txt")


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the lines."""


class Header(Line, frozen=True):
    """The first line. `perdure` is the version of the Perdure that wrote the file."""

    format: str
    version: int
    session: str
    perdure: str


class EventLine(Line, frozen=True):
    """One durable event. `time` is milliseconds since 1970, as in the log."""

    seq: int
    type: str
    time: int
    data: msgspec.Raw


class OutputLine(Line, frozen=True):
    """The beginning of a stored output; its content follows in pieces until `size` is reached."""

    output: str
    size: int
    sha256: str


class TextPiece(Line, frozen=True):
    """A piece of a stored output that is valid UTF-8."""

    text: str


class BinaryPiece(Line, frozen=True):
    """A piece of a stored output that is not."""

    base64: bytes


class End(Line, frozen=True):
    """The last line: how much there was, and the digest of all lines before it."""

    events: int
    outputs: int
    sha256: str


def encode_line(line: Line) -> bytes:
    """Return a line as it is written, with its end."""
    return msgspec.json.encode(line) + b"\n"


def event_line(record: ev.Record) -> EventLine:
    """Return the line of an event."""
    return EventLine(record.seq, record.type, record.time, msgspec.Raw(ev.encode(record.data)))


def portable(event: ev.Event) -> ev.Event:
    """Return an event without what names a process or a drain of this machine."""
    match event:
        case ev.PromptAdmitted():
            return msgspec.structs.replace(event, holder="")
        case ev.InterruptAsked():
            return msgspec.structs.replace(event, drain=0)
        case _:
            return event


def can_name_a_directory(session: str) -> bool:
    """Say whether a session's id is a plain file name, as those are that Perdure makes."""
    return _ID.fullmatch(session) is not None


def output_names(records: Iterable[ev.Record]) -> set[str]:
    """Return the names of the stored outputs that a log speaks of, without their directories."""
    files = (each.data.file for each in records if isinstance(each.data, ev.ToolSettled))
    names = (file.rpartition("/")[2] for file in files)
    return {name for name in names if _OUTPUT_NAME.fullmatch(name)}
