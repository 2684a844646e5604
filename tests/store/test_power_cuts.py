"""The power goes: what was acknowledged is there, and the database is sound.

`PERDURE_POWER_CUTS` is the number of cuts, 120 without it; `PERDURE_POWER_CUT_SEED` repeats the
ones of a failure, which names its seed.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.store.busy_run import BusyRun, Write, faults_after
from tests.store.faulty_vfs import faulty_vfs
from tests.store.power_cut import Disk, recording

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("early_checkpoints")]

CUTS = int(os.environ.get("PERDURE_POWER_CUTS", "120"))


class Recorded(BusyRun):
    """A run that notes where in the record of the disk each acknowledgement came."""

    def __init__(self, path: Path, disk: Disk) -> None:
        super().__init__(path, disk.name)
        self._disk = disk
        self._begun: dict[str, int] = {}
        self._acknowledged: dict[str, int] = {}

    def begun(self, session: str) -> None:
        super().begun(session)
        self._begun[session] = self._disk.now()

    def acknowledge(self, write: Write) -> None:
        super().acknowledge(write)
        self._acknowledged[write.prompt] = self._disk.now()

    def owed(self, at: int) -> tuple[set[str], set[str]]:
        """Return the sessions and the writes that were acknowledged by this point."""
        sessions = {session for session, seen in self._begun.items() if seen <= at}
        return sessions, {prompt for prompt, seen in self._acknowledged.items() if seen <= at}


class Seeded:
    """Chance that can be repeated."""

    def __init__(self) -> None:
        given = os.environ.get("PERDURE_POWER_CUT_SEED")
        self.seed = int(given) if given else random.randrange(1 << 32)
        self.chance = random.Random(self.seed)

    def __str__(self) -> str:
        return f"PERDURE_POWER_CUT_SEED={self.seed}"


async def record(directory: Path, disk: Disk) -> Recorded:
    """Let a store work once on the disk."""
    directory.mkdir()
    with recording(disk):
        run = Recorded(directory / "store.db", disk)
        await run.work()
    return run


async def faults_after_cut(
    directory: Path, disk: Disk, run: Recorded, at: int, chance: random.Random
) -> list[str]:
    """Cut the power at a point, start again, and return what is wrong."""
    directory.mkdir()
    for name, content in disk.cut(at, chance).items():
        (directory / name).write_bytes(content)
    sessions, acknowledged = run.owed(at)
    with faulty_vfs() as plain:
        wrong = await faults_after(
            directory / "store.db", sessions, run.writes, acknowledged, plain.name
        )
    shutil.rmtree(directory)
    return wrong


async def test_a_power_cut_at_any_moment_loses_nothing_acknowledged(tmp_path: Path) -> None:
    seeded = Seeded()
    disk = Disk()
    run = await record(tmp_path / "run", disk)
    assert run.failed == 0
    for number in range(CUTS):
        at = seeded.chance.randint(0, disk.now())
        wrong = await faults_after_cut(tmp_path / "cut", disk, run, at, seeded.chance)
        assert wrong == [], f"cut {number} at {at} of {disk.now()}; {seeded}"


@pytest.mark.parametrize("files", ["", "store.db", "-wal"], ids=["all", "database", "log"])
async def test_files_that_are_never_synced_are_found_to_lose_something(
    tmp_path: Path, files: str
) -> None:
    seeded = Seeded()
    disk = Disk(never_synced=files)
    run = await record(tmp_path / "run", disk)
    for _ in range(CUTS):
        at = seeded.chance.randint(0, disk.now())
        if await faults_after_cut(tmp_path / "cut", disk, run, at, seeded.chance):
            return
    pytest.fail(f"{CUTS} cuts lost nothing, so this test could not find a loss; {seeded}")


async def test_a_power_cut_after_a_failed_sync_loses_nothing_acknowledged(tmp_path: Path) -> None:
    seeded = Seeded()
    whole = Disk()
    await record(tmp_path / "whole", whole)
    for number in range(1, whole.syncs + 1):
        disk = Disk(failing_sync=number)
        run = await record(tmp_path / f"run-{number}", disk)
        assert run.failed <= 1
        for _ in range(max(1, CUTS // 40)):
            at = seeded.chance.randint(0, disk.now())
            for point in (at, disk.now()):
                wrong = await faults_after_cut(tmp_path / "cut", disk, run, point, seeded.chance)
                where = f"sync {number} failed, cut at {point} of {disk.now()}; {seeded}"
                assert wrong == [], where
