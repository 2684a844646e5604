"""Spans of work that is cut off: results that cannot be stored, lost leases."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from perdure import PerdureError, Runtime, Session
from perdure.clock import SystemClock
from perdure.errors import LeaseLost, StoreError
from perdure.history import events as ev
from perdure.store.sqlite import open_sqlite
from perdure.testing import CrashingStore, call, say
from tests.session.support import bench, log_of, of_type
from tests.telemetry.collected import Collected
from tests.telemetry.test_spans import AGENT, CHAT, effect

pytestmark = pytest.mark.anyio

TOOL = "execute_tool effect"


@asynccontextmanager
async def failing(
    root: Path, seen: Collected, error: Exception
) -> AsyncGenerator[tuple[Runtime, Session]]:
    """Give a session whose first call has a result that the store refuses with an error."""

    def end() -> None:
        raise error

    async with (
        bench(root, [call("effect", {"name": "a"}), say("I see.")]) as b,
        await open_sqlite(b.store, clock=SystemClock()) as opened,
        Runtime.open(
            CrashingStore(opened, at="append:tool.settled#1:before", end=end),
            config=b.config,
            environ=b.environ,
            tools=[effect()],
            allow_all=True,
            telemetry=seen.telemetry,
        ) as runtime,
    ):
        session = await b.session(runtime)
        await session.prompt("Work")
        yield runtime, session


async def test_a_call_that_recovery_settles_has_no_second_span(tmp_path: Path) -> None:
    seen = Collected()
    async with failing(tmp_path, seen, StoreError("the disk is gone")) as (runtime, session):
        with suppress(PerdureError):
            await session.wait()
        assert seen.one(AGENT)["error.type"] == "StoreError"
        await runtime.recover()
        await session.wait()
        settled = of_type(await log_of(session), ev.ToolSettled)
    assert [event.outcome for event in settled] == ["unknown"]
    assert seen.tree() == [(AGENT, ""), (CHAT, AGENT), (TOOL, AGENT), (AGENT, ""), (CHAT, AGENT)]


async def test_a_lost_lease_ends_the_spans(tmp_path: Path) -> None:
    seen = Collected()
    async with failing(tmp_path, seen, LeaseLost("another process has it")) as (_, session):
        await session.wait(only_here=True)
    assert seen.one(AGENT)["error.type"] == "LeaseLost"
    assert [name for name, _ in seen.tree()][:3] == [AGENT, CHAT, TOOL]
