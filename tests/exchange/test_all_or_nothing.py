"""A session is imported as a whole or not at all, whatever ends the import."""

from __future__ import annotations

import fcntl
import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from perdure import Runtime
from perdure.errors import ImportRefused, StoreError, StoreFull
from perdure.store.sqlite import SQLiteStore
from tests.exchange.exchange_support import edited, everything_in, lines_of
from tests.exchange.import_worker import DIED, MOMENTS

pytestmark = pytest.mark.anyio

WORKER = Path(__file__).with_name("import_worker.py")


def opened(root: Path) -> Any:
    return Runtime.open(root / "sessions.db", config={}, environ={})


def outputs_of(root: Path, busy: bytes) -> set[str]:
    """Return all that a whole import leaves beside the database."""
    session = lines_of(busy)[0]["session"]
    outputs = "sessions.db-outputs"
    return {outputs, f"{outputs}/{session}", f"{outputs}/{session}/flood-1.txt"}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_import_that_is_killed_leaves_all_or_nothing_and_can_be_repeated(
    root: Path, busy: bytes, moment: str
) -> None:
    root.mkdir()
    file = root.with_name("export.jsonl")
    file.write_bytes(busy)
    command = [sys.executable, str(WORKER), str(root / "sessions.db"), str(file), moment]
    ended = await anyio.to_thread.run_sync(lambda: subprocess.run(command, check=False, timeout=60))
    assert ended.returncode == DIED
    async with opened(root) as runtime:
        if moment == "session written":
            (row,) = await runtime.sessions()
            session = await runtime.session(row.id)
        else:
            assert await runtime.sessions() == []
            session = await runtime.import_session(file)
        again = await session.export(root.with_name("again.jsonl"))
    assert again.read_bytes() == busy
    assert everything_in(root) == outputs_of(root, busy)


async def test_an_id_that_exists_is_refused_and_left_as_it_is(root: Path, busy: bytes) -> None:
    root.mkdir()
    async with opened(root) as runtime:
        session = await runtime.import_session(io.BytesIO(busy))
        await session.rename("Mine")
        with pytest.raises(ImportRefused, match=f"line 1: session {session.id} exists already"):
            await runtime.import_session(io.BytesIO(busy))
        assert (await session.state()).title == "Mine"
    assert everything_in(root) == outputs_of(root, busy)


async def test_a_prompt_of_another_session_is_refused_with_its_line(
    root: Path, busy: bytes
) -> None:
    root.mkdir()
    renamed = edited(busy, lambda lines: lines[0].update(session="another"))
    at = next(
        number
        for number, line in enumerate(lines_of(busy), 1)
        if line.get("type") == "prompt.admitted"
    )
    async with opened(root) as runtime:
        session = await runtime.import_session(io.BytesIO(busy))
        words = f"the stream, line {at}: prompt \\w+ belongs to session {session.id} here"
        with pytest.raises(ImportRefused, match=words):
            await runtime.import_session(io.BytesIO(renamed))
        assert len(await runtime.sessions()) == 1
    assert everything_in(root) == outputs_of(root, busy)


async def test_a_session_that_was_deleted_can_be_imported_again(root: Path, busy: bytes) -> None:
    root.mkdir()
    async with opened(root) as runtime:
        for _ in range(2):
            session = await runtime.import_session(io.BytesIO(busy))
            assert b"".join([block async for block in session.exported()]) == busy
            await runtime.delete_session(session.id)


async def test_outputs_that_nobody_owns_are_no_part_of_an_imported_session(
    root: Path, busy: bytes
) -> None:
    left = root / "sessions.db-outputs" / lines_of(busy)[0]["session"] / "stranger.txt"
    left.parent.mkdir(parents=True)
    left.write_text("from nowhere")
    async with opened(root) as runtime:
        await runtime.import_session(io.BytesIO(busy))
    assert everything_in(root) == outputs_of(root, busy)


async def test_outputs_that_another_import_is_about_to_own_are_left_alone(
    root: Path, busy: bytes
) -> None:
    outputs = root / "sessions.db-outputs"
    theirs = outputs / lines_of(busy)[0]["session"]
    hidden = outputs / ".import-theirs"
    for directory in (theirs, hidden):
        directory.mkdir(parents=True)
        (directory / "flood-1.txt").write_text("theirs")
    held = [os.open(directory, os.O_RDONLY) for directory in (theirs, hidden)]
    try:
        for descriptor in held:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        async with opened(root) as runtime:
            with pytest.raises(ImportRefused, match="is being imported by another process"):
                await runtime.import_session(io.BytesIO(busy))
    finally:
        for descriptor in held:
            os.close(descriptor)
    texts = {path.read_text() for path in outputs.rglob("*.txt")}
    assert texts == {"theirs"}
    assert len(list(outputs.iterdir())) == 2


async def test_of_many_imports_at_once_one_succeeds(root: Path, busy: bytes) -> None:
    root.mkdir()
    done: list[str] = []

    async def one(runtime: Runtime) -> None:
        try:
            await runtime.import_session(io.BytesIO(busy))
        except (ImportRefused, StoreError) as error:
            done.append(type(error).__name__)
        else:
            done.append("imported")

    async with opened(root) as first, opened(root) as second:
        async with anyio.create_task_group() as group:
            for runtime in (first, second) * 4:
                group.start_soon(one, runtime)
        assert done.count("imported") == 1
        assert len(done) == 8
        (row,) = await first.sessions()
        session = await first.session(row.id)
        assert b"".join([block async for block in session.exported()]) == busy
    assert everything_in(root) == outputs_of(root, busy)


async def test_a_database_that_cannot_take_it_leaves_no_output(
    root: Path, busy: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: Any) -> None:
        raise StoreFull("the disk is full")

    root.mkdir()
    monkeypatch.setattr(SQLiteStore, "restore", full)
    async with opened(root) as runtime:
        with pytest.raises(StoreFull):
            await runtime.import_session(io.BytesIO(busy))
        assert await runtime.sessions() == []
    assert everything_in(root) == set()


async def test_outputs_that_cannot_be_kept_are_an_error_that_names_the_place(
    root: Path, busy: bytes
) -> None:
    root.mkdir()
    (root / "sessions.db-outputs").write_text("in the way")
    async with opened(root) as runtime:
        with pytest.raises(StoreError, match=r"cannot be kept in \S+sessions.db-outputs"):
            await runtime.import_session(io.BytesIO(busy))
        assert await runtime.sessions() == []


async def test_who_gives_up_on_a_stream_does_not_wait_for_it(root: Path, busy: bytes) -> None:
    root.mkdir()
    waiting, enough = threading.Event(), threading.Event()

    class Slow(io.BytesIO):
        """An export whose last line does not come."""

        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            if line.startswith(b'{"events":'):
                waiting.set()
                enough.wait(60)
            return line

    async with opened(root) as runtime:
        async with anyio.create_task_group() as group:
            group.start_soon(runtime.import_session, Slow(busy))
            await anyio.to_thread.run_sync(waiting.wait, 20)
            group.cancel_scope.cancel()
        assert waiting.is_set()
        assert await runtime.sessions() == []
        assert everything_in(root) == set()
        enough.set()
