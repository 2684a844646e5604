"""An interrupt at every kind of moment, from the process that works and from another one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.abc import TaskGroup

from perdure import (
    PerdureError,
    PermissionAnswer,
    PermissionRequest,
    Runtime,
    Session,
    Source,
    Tool,
    ToolContext,
)
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.session.attempts import RetryPolicy
from perdure.session.interrupts import until_asked
from perdure.store.sqlite import open_sqlite
from perdure.testing import Reply, ScriptedProvider, call, error, hold, say
from tests.session.support import Bench, ask, bench, log_of, of_type
from tests.session.worker import EffectArguments

pytestmark = pytest.mark.anyio

Where = Literal["here", "elsewhere"]
NEVER = anyio.Event


class Work:
    """A session that works, and signs of how far it has come."""

    def __init__(self, provider: ScriptedProvider) -> None:
        self.provider = provider
        self.at_tool = anyio.Event()
        self.at_question = anyio.Event()
        self.at_boundary = anyio.Event()
        self.loads_before_it_hangs = 1 << 30

    def options(self) -> dict[str, Any]:
        """Return what a runtime needs so that the signs are given."""

        async def effect(arguments: EffectArguments, context: ToolContext) -> str:
            self.at_tool.set()
            await anyio.sleep_forever()
            return ""

        async def asking(request: PermissionRequest) -> PermissionAnswer:
            self.at_question.set()
            await anyio.sleep_forever()
            return PermissionAnswer(True)

        async def load() -> str:
            self.loads_before_it_hangs -= 1
            if self.loads_before_it_hangs == 0:
                self.at_boundary.set()
                await anyio.sleep_forever()
            return "x"

        source = Source(
            key="test/slow",
            type=str,
            load=load,
            baseline=lambda value: value,
            update=lambda _, value: value,
            timeout=60.0,
        )
        tool = Tool(name="effect", description="Work.", arguments=EffectArguments, run=effect)
        return {
            "tools": [tool],
            "sources": [source],
            "ask": asking,
            "retry": RetryPolicy(base=15, waiting=60),
        }


async def _streaming(work: Work, session: Session, group: TaskGroup) -> None:
    await session.prompt("Count")
    await _until(session, ev.TextDelta)


async def _retrying(work: Work, session: Session, group: TaskGroup) -> None:
    await session.prompt("Try")
    await _until(session, ev.AttemptFailed)


async def _running_a_tool(work: Work, session: Session, group: TaskGroup) -> None:
    await session.prompt("Work")
    await work.at_tool.wait()


async def _asking(work: Work, session: Session, group: TaskGroup) -> None:
    await session.prompt("Dare")
    await work.at_question.wait()


async def _between_steps(work: Work, session: Session, group: TaskGroup) -> None:
    work.loads_before_it_hangs = 2
    await session.prompt("Look")
    await work.at_boundary.wait()


async def _compacting(work: Work, session: Session, group: TaskGroup) -> None:
    await ask(session, "Talk")

    async def compact() -> None:
        with suppress(PerdureError):
            await session.compact()

    group.start_soon(compact)
    await work.provider.received(2)


async def _until(session: Session, kind: type[Any]) -> None:
    async for record in session.events():
        if isinstance(record.data, kind):
            return


MOMENTS: dict[str, tuple[Callable[..., Any], Callable[[], list[Reply]]]] = {
    "streaming": (_streaming, lambda: [hold(NEVER(), say("One two three"), after=2)]),
    "retrying": (_retrying, lambda: [error(500)]),
    "running a tool": (_running_a_tool, lambda: [call("effect", {"name": "x"})]),
    "asking": (_asking, lambda: [call("shell", {"command": "true"})]),
    "between steps": (_between_steps, lambda: [call("list", {"path": "."})]),
    "compacting": (_compacting, lambda: [say("long"), hold(NEVER(), say("summary"))]),
}

IN_WORK = {"streaming", "retrying", "running a tool", "asking", "between steps"}


async def stop(b: Bench, session: Session, where: Where) -> None:
    """Interrupt a session and wait until it is idle."""
    with anyio.fail_after(60):
        if where == "here":
            assert await session.interrupt()
            return
        async with b.runtime() as other:
            elsewhere = await other.session(session.id)
            assert await elsewhere.interrupt()
            await elsewhere.wait()
        await session.wait()


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_interrupt_settles_what_runs_and_keeps_what_waits(
    tmp_path: Path, moment: str, where: Where
) -> None:
    arrive, script = MOMENTS[moment]
    async with bench(tmp_path, [*script(), say("Second."), say("Third.")]) as b:
        work = Work(b.provider)
        b.prefix_may_break = "a summary is asked for in some of them"
        async with b.runtime(**work.options()) as runtime, anyio.create_task_group() as group:
            session = await b.session(runtime)
            await arrive(work, session, group)
            sent = len(b.provider.requests)
            waiting = await session.prompt("second", delivery="queue")
            await stop(b, session, where)
            state = await session.state()
            assert (state.step, state.compacting) == (None, False)
            assert state.outcome == ("interrupted" if moment in IN_WORK else "completed")
            assert list(state.pending) == [waiting.id]
            assert len(b.provider.requests) == sent
            await ask(session, "third", delivery="queue")
            assert not (await session.state()).pending
            assert len(b.provider.requests) == sent + 2
        assert not b.provider.refused


@asynccontextmanager
async def streaming(b: Bench, **options: Any) -> AsyncGenerator[tuple[Runtime, Session]]:
    """Give a session whose model speaks and will not end."""
    async with b.runtime(**options) as runtime:
        session = await b.session(runtime)
        await session.prompt("Count")
        await _until(session, ev.TextDelta)
        yield runtime, session


def endless() -> Reply:
    return hold(NEVER(), say("One two three"), after=2)


async def test_asking_twice_for_the_same_drain_writes_one_event(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
        # A drain of a process that does not listen.
        async with await open_sqlite(b.store, clock=SystemClock()) as store:
            lease = await store.claim(session.id, "deaf")
            assert lease is not None
            async with b.runtime() as one, b.runtime() as two:
                for runtime in (one, two, one):
                    asking = await runtime.session(session.id)
                    assert await asking.interrupt()
                    await asking.set_entry("other", runtime is one)
            asked = of_type(await store.events(session.id), ev.InterruptAsked)
            assert asked == [ev.InterruptAsked(lease.token)]


async def test_a_later_drain_is_not_hit_by_an_interrupt_of_an_earlier_one(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1"), say("2")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
        async with await open_sqlite(b.store, clock=SystemClock()) as store:
            lease = await store.claim(session.id, "gone")
            assert lease is not None
            async with b.runtime() as runtime:
                assert await (await runtime.session(session.id)).interrupt()
            await store.release(lease)
        gate = anyio.Event()

        async def load() -> str:
            await gate.wait()
            return "x"

        source = Source(
            key="test/gate", type=str, load=load, baseline=str, update=lambda _, now: now
        )
        async with b.runtime(sources=[source]) as runtime:
            again = await runtime.session(session.id)
            async with b.runtime() as other:
                # Another control event makes the new drain look at what was asked.
                await again.prompt("Hello")
                await (await other.session(session.id)).set_entry("a", 1)
                with anyio.move_on_after(0.5):
                    await again.wait()
            gate.set()
            await again.wait()
            (finished,) = of_type(await log_of(again), ev.StepFinished)
        assert finished.outcome == "completed"


async def test_a_drain_hears_only_what_was_asked_of_itself(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
        async with await open_sqlite(b.store, clock=SystemClock()) as store:
            first = await store.claim(session.id, "one")
            assert first is not None
            await store.release(first)
            second = await store.claim(session.id, "two")
            assert second is not None
            tokens = (first.token, second.token + 1, second.token)
            records = await store.append(session.id, [ev.InterruptAsked(t) for t in tokens])
            with anyio.fail_after(60):
                assert await until_asked(store, second, after=0) == records[-1].seq
                assert await until_asked(store, first, after=0) == 0


async def test_an_interrupt_from_elsewhere_of_an_idle_session_writes_nothing(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [say("1")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "Hello")
        before = await log_of(session)
        async with b.runtime() as other:
            elsewhere = await other.session(session.id)
            assert not await elsewhere.interrupt()
        assert await log_of(session) == before


async def test_who_only_waits_for_its_turn_stops_without_stopping_the_one_who_works(
    tmp_path: Path,
) -> None:
    gate = anyio.Event()
    async with bench(tmp_path, [hold(gate, say("1")), say("2")]) as b:
        async with b.runtime() as working, b.runtime() as waiting:
            session = await b.session(working)
            await session.prompt("first")
            await b.provider.received(1)
            elsewhere = await waiting.session(session.id)
            second = await elsewhere.prompt("second", delivery="queue", hold=True)
            assert await elsewhere.interrupt()
            gate.set()
            await session.wait()
            assert list((await session.state()).pending) == [second.id]
            (finished,) = of_type(await log_of(session), ev.StepFinished)
        assert finished.outcome == "completed"


async def test_only_the_drain_that_was_asked_stops_and_the_next_one_has_its_turn(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [endless(), say("2")]) as b:
        async with streaming(b) as (_, session), b.runtime() as waiting, b.runtime() as third:
            elsewhere = await waiting.session(session.id)
            second = await elsewhere.prompt("second", delivery="queue", hold=True)
            assert await (await third.session(session.id)).interrupt()
            with anyio.fail_after(60):
                await elsewhere.wait()
            outcomes = [e.outcome for e in of_type(await log_of(session), ev.StepFinished)]
            assert outcomes == ["interrupted", "completed"]
            promoted = of_type(await log_of(session), ev.PromptPromoted)
            assert promoted[-1].prompt == second.id


async def test_a_prompt_that_comes_behind_the_interrupt_is_answered(tmp_path: Path) -> None:
    ending, end = anyio.Event(), anyio.Event()

    async def effect(arguments: EffectArguments, context: ToolContext) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                ending.set()
                await end.wait()
        return ""

    tool = Tool(name="effect", description="Work.", arguments=EffectArguments, run=effect)
    async with bench(tmp_path, [call("effect", {"name": "x"}), say("2")]) as b:
        async with b.runtime(tools=[tool]) as runtime, b.runtime() as other:
            session = await b.session(runtime)
            await session.prompt("first")
            await _until(session, ev.ToolStarted)
            elsewhere = await other.session(session.id)
            await elsewhere.interrupt()
            # Nobody but the drain that was asked can answer it: this runtime only admits.
            await elsewhere.prompt("second", delivery="queue")
            assert await elsewhere.interrupt()
            await ending.wait()
            end.set()
            with anyio.fail_after(60):
                await session.wait()
            assert not (await session.state()).pending
        assert len(b.provider.requests) == 2


async def test_an_interrupt_that_is_to_stay_here_leaves_the_work_of_others_alone(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [endless()]) as b, streaming(b) as (_, session):
        async with b.runtime() as other:
            assert not await (await other.session(session.id)).interrupt(only_here=True)
        assert not of_type(await b.log(session.id), ev.InterruptAsked)


async def test_an_interrupt_of_a_recovery_settles_the_step_and_runs_nothing_again(
    tmp_path: Path,
) -> None:
    runs = anyio.Event()

    async def effect(arguments: EffectArguments, context: ToolContext) -> str:
        runs.set()
        await anyio.sleep_forever()
        return ""

    tool = Tool(
        name="effect",
        description="Work.",
        arguments=EffectArguments,
        run=effect,
        idempotent=True,
    )
    async with bench(tmp_path, [call("effect", {"name": "x"}), say("ok")]) as b:
        async with b.runtime(tools=[tool]) as runtime:
            session = await b.session(runtime)
            await session.prompt("first")
            await runs.wait()
            records = await b.log(session.id)
        await b.crash({session.id: records})
        runs = anyio.Event()
        async with b.runtime(tools=[tool]) as runtime:
            assert await runtime.recover() == [session.id]
            again = await runtime.session(session.id)
            with anyio.fail_after(60):
                await runs.wait()
            await again.interrupt()
            went_on = await log_of(again)
            assert [e.outcome for e in of_type(went_on, ev.ToolSettled)] == ["unknown"]
            assert [e.outcome for e in of_type(went_on, ev.StepFinished)] == ["interrupted"]
            await ask(again, "second")
        assert not b.provider.refused
