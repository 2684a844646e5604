"""Reading an export that anybody may have made: all of it is right, or it is refused by line."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from typing import BinaryIO, TypeVar

import msgspec

from perdure.errors import ImportRefused, StoreDamaged
from perdure.exchange.checking import find_fault
from perdure.exchange.lines import (
    FORMAT,
    LARGEST_OUTPUT,
    LONGEST_HEADER,
    LONGEST_LINE,
    VERSION,
    BinaryPiece,
    End,
    EventLine,
    Header,
    Line,
    OutputLine,
    TextPiece,
    can_name_a_directory,
    encode_line,
    event_line,
    output_names,
)
from perdure.history.events import Record, decode

_EVENT = b'{"seq":'
_OUTPUT = b'{"output":'
_NOT_OURS = "it is no export of Perdure"

Keep = Callable[[str], BinaryIO]
"""Opens a new file for the stored output of that name."""

AnyLine = TypeVar("AnyLine", bound=Line)


class Export(msgspec.Struct, frozen=True):
    """What a file holds beside the stored outputs: a session's id and its whole log."""

    session: str
    records: tuple[Record, ...]


class _Beginning(msgspec.Struct, frozen=True):
    """What every version of the format says first."""

    format: str
    version: int


def read_export(stream: BinaryIO, name: str, keep: Keep) -> Export:
    """Read a whole export, writing its stored outputs to where `keep` says; blocks.

    Raises ImportRefused, which has `name`, the line and the reason. The log is whole and makes
    sense before the first output is written. No line and no output is held that is over its limit.
    """
    return _Reader(stream, name).read(keep)


class _Reader:
    """Goes through the lines in order. `_line` is the one that is being read."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._line = b""
        self._number = 0
        self._digest = hashlib.sha256()

    def read(self, keep: Keep) -> Export:
        self._advance(LONGEST_HEADER)
        session = self._header()
        self._advance()
        records = self._events()
        fault = find_fault(session, records)
        if fault is not None:
            raise self._refused(fault.reason, line=fault.seq + 1)
        outputs = self._outputs(output_names(records), keep)
        self._end(len(records), outputs)
        return Export(session, tuple(records))

    def _advance(self, longest: int = LONGEST_LINE) -> None:
        """Go to the next line; the digest covers those that are left behind."""
        self._digest.update(self._line)
        self._number += 1
        try:
            self._line = self._stream.readline(longest + 1)
        except OSError as error:
            raise self._refused(f"it cannot be read: {error.strerror}") from error
        if len(self._line) > longest:
            raise self._refused(
                f"the line is longer than {longest} bytes" if self._number > 1 else _NOT_OURS
            )
        if not self._line.endswith(b"\n"):
            raise self._refused(_NOT_OURS if self._number == 1 else "the file ends too early")

    def _header(self) -> str:
        try:
            beginning = msgspec.json.decode(self._line, type=_Beginning)
        except (msgspec.MsgspecError, RecursionError):
            raise self._refused(_NOT_OURS) from None
        if beginning.format != FORMAT:
            raise self._refused(_NOT_OURS)
        if beginning.version > VERSION:
            raise self._refused(
                f"its format has version {beginning.version}, and this Perdure reads versions up "
                f"to {VERSION}; upgrade Perdure"
            )
        header = self._decoded(Header)
        if beginning.version != VERSION or not can_name_a_directory(header.session):
            raise self._refused("its header holds a version or a session id that cannot be")
        return header.session

    def _events(self) -> list[Record]:
        records: list[Record] = []
        while self._line.startswith(_EVENT):
            records.append(self._event(len(records) + 1))
            self._advance()
        return records

    def _event(self, seq: int) -> Record:
        line = self._decoded(EventLine)
        if line.seq != seq:
            raise self._refused(f"event {line.seq} stands in the place of event {seq}")
        try:
            record = Record(line.seq, line.time, decode(line.type, bytes(line.data)))
            same = encode_line(event_line(record)) == self._line
        except (StoreDamaged, RecursionError) as error:
            raise self._refused(str(error).removeprefix("the log holds ")) from error
        if not same:
            raise self._refused("the event is not as Perdure writes it")
        return record

    def _outputs(self, named: set[str], keep: Keep) -> int:
        count, last = 0, ""
        while self._line.startswith(_OUTPUT):
            head = self._decoded(OutputLine)
            if head.output not in named:
                raise self._refused("no event names an output so")
            if head.output <= last:
                raise self._refused("the outputs do not stand in the order of their names")
            if not 0 <= head.size <= LARGEST_OUTPUT:
                raise self._refused(f"the output must not be over {LARGEST_OUTPUT} bytes")
            with closing(keep(head.output)) as file:
                self._output(head, file)
            count, last = count + 1, head.output
        return count

    def _output(self, head: OutputLine, file: BinaryIO) -> None:
        at, left, digest = self._number, head.size, hashlib.sha256()
        self._advance()
        while left:
            piece = self._piece()
            left -= len(piece)
            if not piece or left < 0:
                raise self._refused("the output is not of the size that was said")
            digest.update(piece)
            file.write(piece)
            self._advance()
        if digest.hexdigest() != head.sha256:
            raise self._refused("the digest of the output is not right", line=at)

    def _piece(self) -> bytes:
        if self._line.startswith(b'{"text":'):
            return self._decoded(TextPiece).text.encode()
        if self._line.startswith(b'{"base64":'):
            return self._decoded(BinaryPiece).base64
        return b""

    def _end(self, events: int, outputs: int) -> None:
        end = self._decoded(End)
        if (end.events, end.outputs) != (events, outputs):
            raise self._refused(
                f"there should be {end.events} events and {end.outputs} outputs before it, not "
                f"{events} and {outputs}"
            )
        if end.sha256 != self._digest.hexdigest():
            raise self._refused("the digest of the lines before it is not right")
        if self._more():
            raise self._refused("something follows the last line", line=self._number + 1)

    def _more(self) -> bool:
        try:
            return bool(self._stream.read(1))
        except OSError:
            return True

    def _decoded(self, kind: type[AnyLine]) -> AnyLine:
        try:
            line = msgspec.json.decode(self._line, type=kind)
            same = encode_line(line) == self._line
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._refused(f"it is not what belongs here: {error}") from error
        if not same:
            raise self._refused("the line is not as Perdure writes it")
        return line

    def _refused(self, reason: str, *, line: int | None = None) -> ImportRefused:
        return ImportRefused(
            f"{self._name}, line {line or self._number}: {_one_line(reason)}; nothing was imported"
        )


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:500]
