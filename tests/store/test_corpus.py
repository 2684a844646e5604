"""Databases that every version so far has written: they open, and their sessions go on."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure import Runtime
from perdure.clock import SystemClock
from perdure.errors import StoreTooNew
from perdure.history import events as ev
from perdure.history.state import SessionState, fold
from perdure.store.schema import MIGRATIONS
from perdure.store.sqlite import SQLiteStore, open_sqlite
from perdure.testing import ScriptedProvider, isolated_environment, say
from tests.store.corpus.write import CORPUS, MODELS, Crash, ask, config, tools, write
from tests.store.store_support import raw

pytestmark = pytest.mark.anyio

FILES = sorted(CORPUS.glob("*.sqlite3"))
SESSIONS = {1: 11, 2: 12}
STEPS = {1: 25, 2: 26}
each_version = pytest.mark.parametrize("written", FILES, ids=[file.stem for file in FILES])


def version_of(file: Path) -> int:
    found = re.fullmatch(r"schema-(\d+)", file.stem)
    assert found, f"{file.name}: a database of the corpus is called schema-VERSION.sqlite3"
    return int(found[1])


@pytest.fixture
def database(written: Path, tmp_path: Path) -> Path:
    """Give a copy: opening brings a database forward."""
    return Path(shutil.copy(written, tmp_path / "store.db"))


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[SQLiteStore]:
    async with await open_sqlite(path, clock=SystemClock()) as store:
        yield store


async def states(store: SQLiteStore) -> dict[tuple[str, str], SessionState]:
    """Return the fold of each session's log, by its title and the model that it began with."""
    found: dict[tuple[str, str], SessionState] = {}
    for row in await store.sessions():
        records = await store.events(row.id)
        created = records[0].data
        assert isinstance(created, ev.SessionCreated)
        found[row.title, created.model] = fold(row.id, records)
    return found


def test_every_version_of_the_schema_has_its_database() -> None:
    missing = set(range(1, len(MIGRATIONS) + 1)) - {version_of(file) for file in FILES}
    assert not missing, (
        f"no database of schema {missing} is in {CORPUS.name}; "
        "write it with `python -m tests.store.corpus.write`"
    )


@each_version
def test_a_database_of_the_corpus_is_of_the_version_that_it_is_named_after(written: Path) -> None:
    user_version = int.from_bytes(written.read_bytes()[60:64], "big")
    assert user_version == version_of(written) <= len(MIGRATIONS)


@each_version
async def test_an_old_database_opens_and_is_sound(written: Path, database: Path) -> None:
    async with opened(database) as store:
        assert await store.check() == []
        assert len(await store.sessions()) == SESSIONS[version_of(written)]
    with raw(database) as connection:
        assert connection.pragma("user_version") == len(MIGRATIONS)


@each_version
async def test_the_sessions_of_an_old_database_are_what_they_were(database: Path) -> None:
    async with opened(database) as store:
        found = await states(store)
    for model in MODELS:
        assert found["plain", model].outcome == "completed"
        assert found["compacted", model].epoch is not None
        texts = [prompt.text for prompt in found["waiting", model].pending.values()]
        assert texts == ["The first that waits.", "The second."]
        step = found["open step", model].step
        assert step is not None
        assert [(call.call.name, call.started) for call in step.unsettled] == [("wait", True)]
    travelled = found["travelled far", MODELS[0]]
    assert (travelled.model, travelled.directory) == (MODELS[1], "/usr")


@each_version
async def test_the_sessions_of_an_old_database_have_their_parents(
    written: Path, database: Path
) -> None:
    async with opened(database) as store:
        titles = {row.id: row.title for row in await store.sessions()}
        children = [(row.title, titles[row.parent]) for row in await store.sessions() if row.parent]
    assert children == ([] if version_of(written) == 1 else [("task", "travelled far")])


@each_version
async def test_every_request_of_an_old_database_is_made_again_as_it_was_sent(
    written: Path, database: Path, tmp_path: Path
) -> None:
    steps = 0
    async with opened(database) as store:
        async with Runtime.open(store, environ=isolated_environment(tmp_path)) as runtime:
            for row in await store.sessions():
                session = await runtime.session(row.id)
                for record in await store.events(row.id):
                    if isinstance(record.data, ev.StepStarted):
                        assert await session.request(record.data.step)
                        steps += 1
    assert steps == STEPS[version_of(written)]


@each_version
async def test_every_session_of_an_old_database_goes_on(database: Path, tmp_path: Path) -> None:
    async with (
        ScriptedProvider(lambda _request, _number: say("It goes on.")) as provider,
        opened(database) as store,
        Runtime.open(
            store,
            config=config(provider),
            environ=isolated_environment(tmp_path),
            tools=tools(Crash()),
        ) as runtime,
    ):
        for row in await store.sessions():
            session = await runtime.session(row.id)
            await ask(session, "Go on.")
            state = await session.state()
            assert (state.outcome, state.step, state.pending) == ("completed", None, {}), row
            after = [r.data for r in await store.events(row.id, after=row.last_seq)]
            steps = [event for event in after if isinstance(event, ev.StepStarted)]
            assert steps, row
            assert all(step.prefix is not False for step in steps), row
        assert provider.refused == []
        assert await store.check() == []


@each_version
async def test_a_database_of_the_next_version_is_refused_with_its_version(database: Path) -> None:
    newer = len(MIGRATIONS) + 1
    with raw(database) as connection:
        connection.pragma("user_version", newer)
    before = database.read_bytes()
    with pytest.raises(StoreTooNew, match=f"schema version {newer}, .* up to {newer - 1}"):
        await open_sqlite(database, clock=SystemClock())
    assert database.read_bytes() == before


async def test_the_corpus_can_be_written_for_the_schema_of_today(tmp_path: Path) -> None:
    await write(tmp_path / "new.sqlite3")
    with raw(tmp_path / "new.sqlite3") as connection:
        assert connection.pragma("user_version") == len(MIGRATIONS)
    async with opened(tmp_path / "new.sqlite3") as store:
        assert await store.check() == []
        assert len(await states(store)) == SESSIONS[len(MIGRATIONS)]
