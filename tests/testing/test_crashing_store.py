"""Crash points: every durable write has its name, and a program ends at the one that is chosen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.store.contract import Guard, Store
from perdure.store.sqlite import open_sqlite
from perdure.testing import CRASHED, CrashingStore, CrashPoint, CrashPoints, FakeClock
from perdure.testing.conformance import Opener, StoreConformance
from perdure.testing.conformance.events import CREATED, admitted

pytestmark = pytest.mark.anyio


class TestCrashingStore(StoreConformance):
    """One that crashes nowhere is the store that it wraps."""

    @pytest.fixture
    def opener(self, tmp_path: Path, clock: FakeClock) -> Opener:
        async def open_store() -> Store:
            return CrashingStore(await open_sqlite(tmp_path / "s.db", clock=clock))

        return open_store


class Ended(BaseException):
    """The process is over."""


def end() -> None:
    raise Ended


@asynccontextmanager
async def crashing(path: Path, at: str | None = None) -> AsyncGenerator[CrashingStore]:
    async with await open_sqlite(path / "s.db", clock=SystemClock()) as store:
        yield CrashingStore(store, at=at, end=end)


async def test_each_durable_write_has_two_points_and_reading_has_none(tmp_path: Path) -> None:
    async with crashing(tmp_path) as store:
        await store.create("s1", [CREATED])
        await store.append("s1", [admitted("p1"), ev.Note("x")])
        lease = await store.claim("s1", "owner")
        assert lease is not None
        await store.append("s1", [ev.Note("y")], guard=Guard(token=lease.token), release=lease)
        await store.append("s1", [], release=lease)
        await store.release(lease)
        await store.events("s1")
        await store.session("s1")
        await store.delete("s1")
        names = [point.write for point in store.points.passed]
        assert [point.when for point in store.points.passed] == ["before", "after"] * 7
    assert names[::2] == [
        "create",
        "append:prompt.admitted+note",
        "claim",
        "append:note and release",
        "append and release",
        "release",
        "delete",
    ]


async def test_the_occurrences_of_a_write_are_counted(tmp_path: Path) -> None:
    async with crashing(tmp_path) as store:
        await store.create("s1", [CREATED])
        for _ in range(2):
            await store.append("s1", [ev.Note("x")])
        assert [str(point) for point in store.points.passed[2:]] == [
            "append:note#1:before",
            "append:note#1:after",
            "append:note#2:before",
            "append:note#2:after",
        ]


@pytest.mark.parametrize(
    ("at", "written"), [("append:note#1:before", 1), ("append:note#1:after", 2)]
)
async def test_the_end_comes_before_the_write_or_when_it_is_durable(
    tmp_path: Path, at: str, written: int
) -> None:
    async with crashing(tmp_path, at) as store:
        await store.create("s1", [CREATED])
        with pytest.raises(Ended):
            await store.append("s1", [ev.Note("x")])
        assert len(await store.events("s1")) == written


async def test_a_write_that_is_refused_has_no_point_after_it(tmp_path: Path) -> None:
    async with crashing(tmp_path) as store:
        await store.create("s1", [CREATED])
        with pytest.raises(Exception, match="exists already"):
            await store.create("s1", [CREATED])
        assert [str(point) for point in store.points.passed[2:]] == ["create#2:before"]


def test_a_program_can_name_points_of_its_own() -> None:
    points = CrashPoints("the effect#2:after", end=end)
    with points.around("the effect"):
        pass
    with pytest.raises(Ended), points.around("the effect"):
        pass
    assert points.passed[-1] == CrashPoint("the effect", 2, "before")


def test_without_more_the_process_ends_and_cleans_nothing_up() -> None:
    program = (
        "import atexit\n"
        "from perdure.testing import CrashPoints\n"
        "atexit.register(print, 'cleaned up')\n"
        "try:\n"
        "    with CrashPoints('x#1:before').around('x'):\n"
        "        print('went on')\n"
        "finally:\n"
        "    print('cleaned up')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (CRASHED, b"")


@pytest.mark.parametrize("text", ["", "append", "append#0:before", "append#1", "append#1:during"])
def test_what_names_no_point_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no crash point"):
        CrashPoint.parse(text)


def test_a_point_is_read_as_it_is_written() -> None:
    point = CrashPoint("append:note and release", 12, "after")
    assert CrashPoint.parse(str(point)) == point
