"""The file that an export writes: whole or not at all, for its owner only, and where it may be."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from perdure import PerdureError, Session
from perdure.errors import StoreDamaged, StoreError, UsageError
from perdure.exchange import exported, write_export
from perdure.history import events as ev
from perdure.testing import call, hold, say
from tests.exchange.exchange_support import FLOOD, lines_of
from tests.session.support import KEY, ask, bench, log_of

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def flooded(root: Path) -> AsyncGenerator[tuple[Session, Path]]:
    """Give a session with one stored output, and the path of that."""
    async with bench(root, [call("flood", {}, "flood-1"), say("Much.")]) as b:
        async with b.runtime(tools=[FLOOD]) as runtime:
            session = await b.session(runtime)
            await ask(session, "Say much.", hold=True)
            yield session, root / "sessions.db-outputs" / session.id / "flood-1.txt"


async def test_each_line_is_what_the_format_says(tmp_path: Path) -> None:
    async with flooded(tmp_path) as (session, output):
        file = await session.export(tmp_path / "session.jsonl")
        head, *lines, end = lines_of(file.read_bytes())
        events = [line for line in lines if "seq" in line]
        log = await log_of(session)
    assert list(head) == ["format", "version", "session", "perdure"]
    assert (head["format"], head["version"]) == ("perdure-session", 1)
    assert [(each["seq"], each["type"], each["time"]) for each in events] == [
        (record.seq, record.type, record.time) for record in log
    ]
    (kept,) = (line for line in lines if "output" in line)
    assert kept["output"] == output.name
    text = "".join(line["text"] for line in lines if "text" in line)
    assert text == output.read_text("utf-8")
    assert (end["events"], end["outputs"]) == (len(log), 1)


async def test_neither_a_key_nor_a_process_of_this_machine_is_in_it(tmp_path: Path) -> None:
    async with flooded(tmp_path) as (session, _):
        file = await session.export(tmp_path / "session.jsonl")
        (admitted,) = (
            each.data for each in await log_of(session) if isinstance(each.data, ev.PromptAdmitted)
        )
    assert admitted.holder
    assert admitted.holder not in file.read_text("utf-8")
    assert "scripted-key" not in file.read_text("utf-8")
    assert KEY not in file.read_text("utf-8")


async def test_it_is_for_its_owner_only_and_takes_the_place_of_an_older_one(
    tmp_path: Path,
) -> None:
    async with flooded(tmp_path) as (session, _):
        older, link = tmp_path / "session.jsonl", tmp_path / "link.jsonl"
        older.write_text("older")
        older.chmod(0o644)
        link.symlink_to(older)
        assert await session.export(link) == link
        assert link.is_symlink()
        assert older.stat().st_mode & 0o777 == 0o600
        assert lines_of(older.read_bytes())[0]["session"] == session.id
        assert {path.name for path in tmp_path.glob(".*")} == set()


async def test_where_there_can_be_no_file_is_said_in_one_line(tmp_path: Path) -> None:
    async with flooded(tmp_path) as (session, _):
        os.mkfifo(tmp_path / "fifo")
        for place in (tmp_path, tmp_path / "fifo", Path("/dev/null")):
            with pytest.raises(UsageError, match="is no regular file"):
                await session.export(place)
        (tmp_path / "file").write_text("")
        for missing in (tmp_path / "no" / "file", tmp_path / "file" / "x", tmp_path / ("a" * 300)):
            with pytest.raises(UsageError, match=r"cannot be written: .*; nothing was exported"):
                await session.export(missing)
        with pytest.raises(UsageError, match="cannot be the name of a file"):
            await session.export("a\0b")


def test_an_older_file_stays_where_writing_fails(tmp_path: Path) -> None:
    def blocks() -> Iterator[bytes]:
        yield b"new"
        raise OSError(28, "No space left on device")

    file = tmp_path / "session.jsonl"
    file.write_text("older")
    with pytest.raises(PerdureError, match="No space left") as failed:
        write_export(file, blocks())
    assert not isinstance(failed.value, UsageError)
    assert file.read_text() == "older"
    assert list(tmp_path.iterdir()) == [file]


async def test_an_output_that_is_gone_or_no_file_is_left_out(tmp_path: Path) -> None:
    async with flooded(tmp_path) as (session, output):
        secret = tmp_path / "secret"
        secret.write_text("not for others")
        output.unlink()
        output.symlink_to(secret)
        file = await session.export(tmp_path / "session.jsonl")
        assert lines_of(file.read_bytes())[-1]["outputs"] == 0
        output.unlink()
        assert (await session.export(tmp_path / "again.jsonl")).read_bytes() == file.read_bytes()


async def test_an_output_that_is_too_large_is_an_error_that_names_it(tmp_path: Path) -> None:
    async with flooded(tmp_path) as (session, output):
        os.truncate(output, 64 * 1024 * 1024 + 1)
        with pytest.raises(StoreError, match=r"flood-1\.txt is over \d+ bytes"):
            await session.export(tmp_path / "session.jsonl")
        assert not (tmp_path / "session.jsonl").exists()


async def test_what_is_under_way_is_in_it_as_far_as_it_had_come(tmp_path: Path) -> None:
    answer = anyio.Event()
    async with bench(tmp_path, [hold(answer, say("Here."))]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await session.prompt("Are you there?")
        await b.provider.received(1)
        file = await session.export(tmp_path / "session.jsonl")
        answer.set()
        await session.wait()
        later = await session.export(tmp_path / "later.jsonl")
    *begun, _ = file.read_bytes().splitlines()
    assert json.loads(begun[-1])["type"] == "step.started"
    assert later.read_bytes().splitlines()[: len(begun)] == begun


def test_a_log_that_makes_no_sense_is_not_exported(tmp_path: Path) -> None:
    created = ev.SessionCreated("/", "/", "scripted/model-1", "marker")
    records = [ev.Record(1, 1, created), ev.Record(2, 1, ev.PromptPromoted("none"))]
    with pytest.raises(StoreDamaged, match="event 2 makes no sense"):
        list(exported("session", records, tmp_path))


def test_an_id_that_is_no_plain_name_is_not_exported(tmp_path: Path) -> None:
    created = ev.SessionCreated("/", "/", "scripted/model-1", "marker")
    with pytest.raises(UsageError, match="its id must be letters"):
        list(exported("../session", [ev.Record(1, 1, created)], tmp_path))
