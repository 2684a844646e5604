"""Time and ids that a test decides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from perdure.clock import Clock, Ids
from perdure.testing import FakeClock, SequentialIds

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def test_sleeping_moves_the_time_and_does_not_wait() -> None:
    clock: Clock = FakeClock(NOON)
    with anyio.fail_after(60):
        await clock.sleep(3600)
    assert clock.now() == NOON + timedelta(hours=1)
    assert clock.monotonic() == 3600


async def test_sleeping_together_takes_as_long_as_the_longest() -> None:
    clock = FakeClock(NOON)
    async with anyio.create_task_group() as tasks:
        for seconds in (3, 1, 2):
            tasks.start_soon(clock.sleep, seconds)
    assert clock.monotonic() == 3
    assert clock.slept == [3, 1, 2]


async def test_sleeping_can_be_cancelled() -> None:
    clock = FakeClock(NOON)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await clock.sleep(10)
    assert scope.cancelled_caught
    assert clock.monotonic() == 0


async def test_advancing_moves_both_clocks() -> None:
    clock = FakeClock(NOON)
    clock.advance(60)
    assert (clock.now(), clock.monotonic()) == (NOON + timedelta(minutes=1), 60)
    with pytest.raises(ValueError, match=r"set\(\)"):
        clock.advance(-1)


async def test_the_wall_clock_can_be_set_back_a_day() -> None:
    clock = FakeClock(NOON)
    clock.advance(5)
    clock.set(NOON - timedelta(days=1))
    assert (clock.now(), clock.monotonic()) == (NOON - timedelta(days=1), 5)


async def test_a_clock_without_a_time_zone_is_refused() -> None:
    naive = NOON.replace(tzinfo=None)
    with pytest.raises(ValueError, match="time zone"):
        FakeClock(naive)
    with pytest.raises(ValueError, match="time zone"):
        FakeClock().set(naive)


async def test_ids_count_and_never_repeat() -> None:
    ids: Ids = SequentialIds()
    assert [ids.new(), ids.new()] == ["id000001", "id000002"]
    assert SequentialIds("s").new() == "s000001"


async def test_a_prefix_with_other_characters_is_refused() -> None:
    with pytest.raises(ValueError, match="lower-case"):
        SequentialIds("Id-")
