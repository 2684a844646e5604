"""One export of a busy session for all tests that take exports apart."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.exchange.exchange_support import FLOOD, SCRIPT, lively
from tests.session.support import bench


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the export of a busy session whose last prompt waits in the inbox."""
    root = tmp_path_factory.mktemp("busy")

    async def make() -> bytes:
        async with bench(root, SCRIPT) as b:
            b.prefix_may_break = "a compaction and a switch"
            async with b.runtime(tools=[FLOOD]) as runtime:
                session = await lively(b, runtime)
                return (await session.export(root / "busy.jsonl")).read_bytes()

    return anyio.run(make)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an empty directory for the machine that imports."""
    return tmp_path / "there"
