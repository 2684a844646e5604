"""Bounded output: head and tail for the model, the complete text in a managed file.

Perdure keeps these files with the session and lets `read` open them.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from perdure.tools.printable import storable

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAMES_TRIED = 1000


class Limits(msgspec.Struct, frozen=True):
    """How much of an output is shown and kept.

    Over `lines` lines or `size` bytes of UTF-8 only head and tail are shown; of the complete text
    at most `kept` bytes are written to the managed file.
    """

    lines: int = 2000
    size: int = 50 * 1024
    kept: int = 64 * 1024 * 1024


DEFAULT_LIMITS = Limits()
"""2,000 lines, 50 KiB shown and 64 MiB kept."""


class Bounded(msgspec.Struct, frozen=True):
    """An output within its limits. `file` is the path of the complete text, empty where `text` is
    complete or the file could not be kept."""

    text: str
    file: str = ""


def bound(text: str, directory: Path, call: str, limits: Limits = DEFAULT_LIMITS) -> Bounded:
    """Return the text within the limits; keep the complete text of a longer one in `directory`.

    `call` names the file. A file that cannot be written is told in the text and raises nothing.
    """
    with Spool(directory, call, limits) as spool:
        spool.write(text)
        return spool.finish()


class Spool:
    """Take an output piece by piece, in memory that does not grow with it.

    Nothing is written while the output is within its limits. Leaving the `with` block without
    `finish` removes the managed file again.
    """

    def __init__(self, directory: Path, call: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._half = Limits(max(limits.lines - 3, 0) // 2, _half_size(directory, limits))
        self._kept = ManagedFile(directory, call, limits.kept)
        self._head = b""
        self._tail = b""
        self._size = 0
        self._line_ends = 0
        self._cut = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._kept.discard()

    def write(self, text: str) -> None:
        """Add a piece; what no provider and no store accepts is replaced."""
        piece = storable(text).encode()
        self._size += len(piece)
        self._line_ends += piece.count(b"\n")
        if self._cut:
            self._keep_tail(piece)
        else:
            self._head += piece
            if self._is_over():
                self._begin_cut()

    def finish(self) -> Bounded:
        """Return what is shown, and make the managed file durable where there is one."""
        if not self._cut:
            return Bounded(self._head.decode())
        tail = _last(self._tail, self._half)
        file = self._kept.finish()
        text = self._head.decode() + self._note(tail) + tail.decode()
        return Bounded(text, file)

    def _is_over(self) -> bool:
        lines = self._line_ends + (not self._head.endswith(b"\n"))
        return self._size > self._limits.size or lines > self._limits.lines

    def _begin_cut(self) -> None:
        whole, self._cut = self._head, True
        self._kept.open()
        self._head = _first(whole, self._half)
        self._kept.write(self._head)
        self._keep_tail(whole[len(self._head) :])

    def _keep_tail(self, piece: bytes) -> None:
        self._kept.write(piece)
        self._tail += piece
        if len(self._tail) > 4 * self._half.size:
            self._tail = self._tail[-self._half.size :] if self._half.size else b""

    def _note(self, tail: bytes) -> str:
        size = self._size - len(self._head) - len(tail)
        lines = self._line_ends - self._head.count(b"\n") - tail.count(b"\n")
        start = "" if not self._head or self._head.endswith(b"\n") else "\n"
        return (
            f"{start}[... {size} bytes, {lines} lines left out; {self._kept.description()} ...]\n"
        )


class ManagedFile:
    """A file of its own for the complete output of one call, readable by its owner only."""

    def __init__(self, directory: Path, call: str, longest: int) -> None:
        self._directory = directory
        self._call = call
        self._longest = longest
        self._size = 0
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._truncated = False
        self._trouble = ""

    def open(self) -> None:
        """Create the file; remember why where that fails."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path, self._file = _create(self._directory, self._call)
        except OSError as error:
            self._fail(error)

    def write(self, piece: bytes) -> None:
        """Append as much of the piece as the limit allows."""
        if self._file is None:
            return
        room = self._longest - self._size
        self._truncated = self._truncated or len(piece) > room
        try:
            self._size += self._file.write(piece[:room])
        except OSError as error:
            self._fail(error)

    def finish(self) -> str:
        """Make the file durable; return its path, or nothing where it could not be kept."""
        if self._file is None:
            return ""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            self._fail(error)
            return ""
        self._file = None
        return str(self._path)

    def description(self) -> str:
        """Say where the complete text is, or why it is nowhere."""
        if self._trouble:
            return f"the complete text could not be kept ({self._trouble})"
        if self._truncated:
            return f"the first {self._size} bytes of the complete text are in {self._path}"
        return f"the complete text is in {self._path}"

    def discard(self) -> None:
        """Remove a file that was not finished."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            if self._path is not None:
                self._path.unlink(missing_ok=True)
        self._file = None

    def _fail(self, error: OSError) -> None:
        self._trouble = error.strerror or type(error).__name__
        with suppress(OSError):
            self.discard()


def managed_name(call: str) -> str:
    """Return a safe file name, without its ending, for whatever id a provider gave a call."""
    if _PLAIN_NAME.fullmatch(call):
        return call
    digest = hashlib.sha256(call.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return "-".join(filter(None, (re.sub(r"[^A-Za-z0-9_-]+", "-", call)[:40].strip("-"), digest)))


def _create(directory: Path, call: str) -> tuple[Path, BinaryIO]:
    # Some providers number their calls anew in each step; an earlier result still names its file,
    # so that file is never written over.
    name = managed_name(call)
    for number in range(1, _NAMES_TRIED):
        path = directory / (f"{name}.txt" if number == 1 else f"{name}-{number}.txt")
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return path, os.fdopen(os.open(path, flags, 0o600), "wb")
    raise FileExistsError(0, "too many outputs of one name")


def _half_size(directory: Path, limits: Limits) -> int:
    note = 300 + len(os.fsencode(directory))
    return max(limits.size - note, 0) // 2


def _first(data: bytes, limits: Limits) -> bytes:
    end = _end_of_line(data, limits.lines)
    if end > limits.size:
        end = limits.size
        line_end = data.rfind(b"\n", 0, end) + 1
        # A boundary far back would show nearly nothing of one very long line.
        end = line_end if line_end > end // 2 else end
    return data[:end].decode("utf-8", "ignore").encode()


def _last(data: bytes, limits: Limits) -> bytes:
    start = _start_of_last_lines(data, limits.lines)
    if len(data) - start > limits.size:
        start = len(data) - limits.size
        line_start = data.find(b"\n", start) + 1
        start = line_start if 0 < line_start < start + limits.size // 2 else start
    return data[start:].decode("utf-8", "ignore").encode()


def _end_of_line(data: bytes, count: int) -> int:
    end = 0
    for _ in range(count):
        end = data.find(b"\n", end) + 1
        if end == 0:
            return len(data)
    return end


def _start_of_last_lines(data: bytes, count: int) -> int:
    if count == 0:
        return len(data)
    start = len(data) - data.endswith(b"\n")
    for _ in range(count):
        start = data.rfind(b"\n", 0, start)
        if start < 0:
            return 0
    return start + 1
