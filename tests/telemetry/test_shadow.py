"""Spans where the work does not go to its end: crashes, lost leases, titles beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from perdure import PerdureError, Runtime
from perdure.clock import SystemClock
from perdure.errors import LeaseLost, StoreError
from perdure.history import events as ev
from perdure.store.sqlite import open_sqlite
from perdure.testing import CrashingStore, call, say
from tests.session.support import Bench, ask, bench, log_of, of_type
from tests.telemetry.collected import Collected, attributes
from tests.telemetry.test_spans import AGENT, CHAT, effect

pytestmark = pytest.mark.anyio

TOOL = "execute_tool effect"


@asynccontextmanager
async def failing(b: Bench, seen: Collected, at: str, error: Exception) -> AsyncGenerator[Runtime]:
    """Open a runtime whose store raises an error at one write."""

    def end() -> None:
        raise error

    async with await open_sqlite(b.store, clock=SystemClock()) as opened:
        store = CrashingStore(opened, at=at, end=end)
        async with Runtime.open(
            store,
            config=b.config,
            environ=b.environ,
            tools=[effect()],
            allow_all=True,
            telemetry=seen.telemetry,
        ) as runtime:
            yield runtime


async def test_a_call_that_recovery_settles_has_no_second_span(tmp_path: Path) -> None:
    seen = Collected()
    async with bench(tmp_path, [call("effect", {"name": "a"}), say("I see.")]) as b:
        at = "append:tool.settled#1:before"
        async with failing(b, seen, at, StoreError("the disk is gone")) as runtime:
            session = await b.session(runtime)
            await session.prompt("Work")
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
    async with bench(tmp_path, [call("effect", {"name": "a"}), say("I see.")]) as b:
        at = "append:tool.settled#1:before"
        async with failing(b, seen, at, LeaseLost("another process has it")) as runtime:
            session = await b.session(runtime)
            await session.prompt("Work")
            await session.wait(only_here=True)
    assert seen.one(AGENT)["error.type"] == "LeaseLost"
    assert [name for name, _ in seen.tree()][:3] == [AGENT, CHAT, TOOL]


async def test_a_title_is_a_request_below_its_drain_and_not_in_its_sum(tmp_path: Path) -> None:
    seen = Collected()
    async with bench(tmp_path, [say("It is old.")], titles=[say("The old one")]) as b:
        async with b.runtime(titles=True, telemetry=seen.telemetry) as runtime:
            session = await b.session(runtime)
            await ask(session, "How old is it?")
            async for record in session.events():
                if record.type == "session.renamed":
                    break
    purposes = {attributes(span)["perdure.purpose"]: span for span in seen.named(CHAT)}
    assert set(purposes) == {"step", "title"}
    assert set(seen.tree()) == {(AGENT, ""), (CHAT, AGENT)}
    step = attributes(purposes["step"])
    assert seen.one(AGENT)["gen_ai.usage.input_tokens"] == step["gen_ai.usage.input_tokens"]
