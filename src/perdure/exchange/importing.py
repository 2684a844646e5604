"""Beginning a session with what a file holds: the whole of it, or nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

import anyio
import anyio.to_thread

from perdure.config.location import shown
from perdure.errors import ConcurrencyError, ImportRefused, PromptConflict, SessionNotFound
from perdure.exchange.reading import Export, read_export
from perdure.exchange.staging import Staging
from perdure.history.events import PromptAdmitted
from perdure.store.contract import Store

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


async def import_export(store: Store, outputs: Path, file: str | Path | BinaryIO) -> str:
    """Begin the session that an export holds, under its own id; return the id.

    `file` is a path or a stream of bytes. `outputs` is the directory with one directory of stored
    outputs for each session. It is durable, outputs included, when this returns, and starts
    nothing. Raises ImportRefused, or StoreError where it cannot be kept; there is no session then,
    and no file is left. A process that dies in between leaves nothing that anybody sees.
    """
    staging = Staging(outputs)
    name = shown(file) if isinstance(file, str | Path) else "the stream"
    read = partial(_read, file, name, staging)
    try:
        # A stream may never end; who is cancelled does not wait for it.
        endless = not isinstance(file, str | Path)
        export = await anyio.to_thread.run_sync(read, abandon_on_cancel=endless)
        with anyio.CancelScope(shield=True):
            await _write(store, staging, export, name)
        staging.keep()
    finally:
        staging.discard()
    return export.session


async def _write(store: Store, staging: Staging, export: Export, name: str) -> None:
    await anyio.to_thread.run_sync(staging.reserve, export.session)
    await _require_new(store, export.session, name)
    await anyio.to_thread.run_sync(staging.place)
    try:
        await store.restore(export.session, export.records)
    except ConcurrencyError:
        await _require_new(store, export.session, name)
        raise
    except PromptConflict as error:
        raise await _taken(store, export, name) from error


async def _require_new(store: Store, session: str, name: str) -> None:
    try:
        await store.session(session)
    except SessionNotFound:
        return
    raise ImportRefused(
        f"{name}, line 1: session {session} exists already; nothing was imported. To take the "
        f"file's, remove yours first with `perdure sessions delete {session}`"
    )


async def _taken(store: Store, export: Export, name: str) -> ImportRefused:
    """Return the error for a prompt id that another session has, with the line that has it too."""
    for record in export.records:
        if isinstance(record.data, PromptAdmitted):
            known = await store.prompt(record.data.prompt)
            if known is not None:
                return ImportRefused(
                    f"{name}, line {record.seq + 1}: prompt {shown(known.id)} belongs to session "
                    f"{known.session} here; nothing was imported"
                )
    return ImportRefused(f"{name}: one of its prompts belongs to another session here")


def _read(file: str | Path | BinaryIO, name: str, staging: Staging) -> Export:
    if isinstance(file, str | Path):
        with _opened(file, name) as stream:
            return read_export(stream, name, staging.create)
    return read_export(file, name, staging.create)


@contextmanager
def _opened(file: str | Path, name: str) -> Generator[BinaryIO]:
    try:
        # Opened so that a FIFO without a writer does not hang.
        descriptor = os.open(file, _OPEN)
    except OSError as error:
        raise ImportRefused(f"{name} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise ImportRefused(f"{name} cannot be the name of a file") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ImportRefused(f"{name} is no regular file; give one, or a stream of bytes")
    with os.fdopen(descriptor, "rb") as stream:
        yield stream
