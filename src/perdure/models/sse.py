"""Server-sent events, out of bytes that may be split anywhere."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from perdure.models.failures import Peer

LIMIT = 16 * 1024 * 1024
"""How many bytes one event may have."""

_BOM = b"\xef\xbb\xbf"


class ServerEvent(msgspec.Struct, frozen=True):
    """One event: its name, empty where none was given, and its data."""

    name: str
    data: str


class EventReader:
    """Read a stream of bytes as events, without any I/O.

    Lines end with LF, CR or CRLF. Broken UTF-8 is replaced. An event larger than `limit` bytes
    raises BrokenStream.
    """

    def __init__(self, peer: Peer, limit: int = LIMIT) -> None:
        self._peer = peer
        self._limit = limit
        self._line = bytearray()
        self._after_return = False
        self._begun = False
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield each event that the chunk completes."""
        for piece in chunk.splitlines(keepends=True):
            yield from self._piece(piece)

    def close(self) -> Iterator[ServerEvent]:
        """Yield the event that the end of the stream completes, if there is one."""
        yield from self._end_line()
        yield from self._dispatch()

    def _piece(self, piece: bytes) -> Iterator[ServerEvent]:
        """Take a part of a line, with the line's end where the piece has it."""
        if self._after_return and piece == b"\n":
            self._after_return = False
            return
        text = piece.rstrip(b"\r\n")
        self._after_return = piece.endswith(b"\r")
        self._grow(len(text))
        self._line += text
        if len(text) < len(piece):
            yield from self._end_line()

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise self._peer.broken(f"one event has more than {self._limit} bytes")

    def _end_line(self) -> Iterator[ServerEvent]:
        line = bytes(self._line)
        self._line.clear()
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if line.startswith(b":"):
            # A comment. A stream of nothing else must not count as one large event.
            self._size -= len(line)
        elif line:
            self._field(line.decode("utf-8", "replace"))
        else:
            yield from self._dispatch()

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value

    def _dispatch(self) -> Iterator[ServerEvent]:
        event = ServerEvent(self._name, "\n".join(self._data)) if self._data else None
        self._name, self._data, self._size = "", [], 0
        if event is not None:
            yield event
