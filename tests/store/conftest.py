"""A store in a real file, and a clock to set."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from perdure.store.sqlite import SQLiteStore, open_sqlite
from tests.store.store_support import SetClock


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path, clock: SetClock) -> AsyncGenerator[SQLiteStore]:
    async with await open_sqlite(path, clock=clock) as opened:
        yield opened


@pytest.fixture
def early_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the log beside the database be emptied after a few pages, not after 4 MiB."""
    monkeypatch.setattr("perdure.store.writer._WAL_BYTES", 8 * 1024)
