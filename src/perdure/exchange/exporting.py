"""Writing a session into one file."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

import msgspec

from perdure.config.location import shown
from perdure.durable import write_whole
from perdure.errors import PerdureError, StoreDamaged, StoreError, UsageError
from perdure.exchange.checking import find_fault
from perdure.exchange.lines import (
    FORMAT,
    LARGEST_OUTPUT,
    LONGEST_LINE,
    VERSION,
    BinaryPiece,
    End,
    Header,
    OutputLine,
    TextPiece,
    can_name_a_directory,
    encode_line,
    event_line,
    output_names,
    portable,
)
from perdure.files import without_broken_end
from perdure.history.events import Record

_PIECE = 1024 * 1024
_BLOCK = 256 * 1024
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CANNOT_BE = {
    errno.EACCES,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}


def exported(session: str, records: Sequence[Record], outputs: Path) -> Iterator[bytes]:
    """Yield the export of a session, block by block; blocks, and reads as it goes.

    `records` is its whole log, `outputs` the directory of its stored outputs. Raises StoreDamaged
    where the log makes no sense, StoreError where an output cannot be read, and UsageError for
    what no export can hold.
    """
    kept = [_leaving(record) for record in records]
    _require_sense(session, kept)
    files = [outputs / name for name in sorted(output_names(kept)) if _is_file(outputs / name)]
    digest = hashlib.sha256()
    block = b""
    for line in _lines(session, kept, files):
        digest.update(line)
        block += line
        if len(block) >= _BLOCK:
            yield block
            block = b""
    yield block + encode_line(End(len(kept), len(files), digest.hexdigest()))


def write_export(file: str | Path, blocks: Iterable[bytes]) -> Path:
    """Write a file anew, whole or not at all, readable by its owner only; return its path.

    An older file in its place is gone only when this one is durable. Raises UsageError where there
    can be no such file, and PerdureError where writing fails.
    """
    name = shown(file)
    try:
        target = Path(os.path.realpath(file))
        if target.exists() and not target.is_file():
            raise UsageError(f"{name} is no regular file; give the path of one")
        write_whole(target, blocks)
    except OSError as error:
        kind = UsageError if error.errno in _CANNOT_BE else PerdureError
        raise kind(f"{name} cannot be written: {error.strerror}; nothing was exported") from error
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"{name} cannot be the name of a file") from error
    return Path(file)


def _leaving(record: Record) -> Record:
    """Return a record without what names something of this machine."""
    return msgspec.structs.replace(record, data=portable(record.data))


def _require_sense(session: str, records: Sequence[Record]) -> None:
    if not can_name_a_directory(session):
        raise UsageError(
            f"session {session!r} cannot be exported: its id must be letters, digits, '.', '_', '-'"
        )
    fault = find_fault(session, records)
    if fault is not None:
        raise StoreDamaged(
            f"session {session} cannot be exported: event {fault.seq} makes no sense "
            f"({fault.reason}); run `perdure doctor`"
        )


def _lines(session: str, records: Iterable[Record], files: Iterable[Path]) -> Iterator[bytes]:
    # Only who exports pays for the import.
    from importlib.metadata import version

    yield encode_line(Header(FORMAT, VERSION, session, version("perdure")))
    for record in records:
        line = encode_line(event_line(record))
        if len(line) > LONGEST_LINE:
            raise UsageError(
                f"session {session} cannot be exported: event {record.seq} is longer than "
                f"{LONGEST_LINE} bytes"
            )
        yield line
    for file in files:
        yield from _output(file)


def _output(path: Path) -> Iterator[bytes]:
    with _opened(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
        if size > LARGEST_OUTPUT:
            raise StoreError(f"the stored output {shown(path)} is over {LARGEST_OUTPUT} bytes")
        yield encode_line(OutputLine(path.name, size, digest))
        file.seek(0)
        yield from _pieces(file)


def _pieces(file: BufferedReader) -> Iterator[bytes]:
    left = b""
    while chunk := file.read(_PIECE):
        whole = left + chunk
        head = without_broken_end(whole)
        left = whole[len(head) :]
        if head:
            yield _piece(head)
    if left:
        yield _piece(left)


def _piece(data: bytes) -> bytes:
    try:
        return encode_line(TextPiece(data.decode()))
    except UnicodeDecodeError:
        return encode_line(BinaryPiece(data))


@contextmanager
def _opened(path: Path) -> Generator[BufferedReader]:
    try:
        with os.fdopen(os.open(path, _OPEN), "rb") as file:
            yield file
    except OSError as error:
        raise StoreError(
            f"the stored output {shown(path)} cannot be read ({error.strerror}); nothing was "
            "exported"
        ) from error


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
