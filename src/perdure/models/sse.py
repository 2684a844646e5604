"""Server-sent events, out of bytes that may be split anywhere."""

from __future__ import annotations

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

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that the chunk completes."""
        if not chunk:
            return []
        if self._after_return:
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        events: list[ServerEvent] = []
        for piece in chunk.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            self._size += len(line)
            if self._size > self._limit:
                raise self._peer.broken(f"one event has more than {self._limit} bytes")
            if len(line) == len(piece):
                self._line += line
            elif self._line:
                self._end_line(bytes(self._line + line), events)
                self._line.clear()
            else:
                self._end_line(line, events)
        return events

    def close(self) -> list[ServerEvent]:
        """Return the event that the end of the stream completes, if there is one."""
        events: list[ServerEvent] = []
        self._end_line(bytes(self._line), events)
        self._line.clear()
        self._dispatch(events)
        return events

    def _end_line(self, line: bytes, events: list[ServerEvent]) -> None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
        elif line.startswith(b":"):
            # A comment. A stream of nothing else must not count as one large event.
            self._size -= len(line)
        else:
            self._field(line.decode("utf-8", "replace"))

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value

    def _dispatch(self, events: list[ServerEvent]) -> None:
        if self._data:
            events.append(ServerEvent(self._name, "\n".join(self._data)))
        self._name, self._data, self._size = "", [], 0
