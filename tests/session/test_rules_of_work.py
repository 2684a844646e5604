"""Single rules of the runtime that no other test shows by itself."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest

from perdure import PromptConflict, Session, Tool, ToolContext
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.history.content import ToolCall
from perdure.history.items import AssistantItem, ResultItem, UserItem
from perdure.session.compaction import tail_start
from perdure.store.sqlite import open_sqlite
from perdure.testing import ReceivedRequest, Reply, call, calls, error, hold, say
from tests.session.support import Bench, ask, bench, log_of, of_type

pytestmark = pytest.mark.anyio


class NoArguments(msgspec.Struct):
    """Nothing."""


async def test_a_withdrawn_prompt_is_never_promoted(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with bench(tmp_path, [hold(gate, say("1"))]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("first")
            await b.provider.received(1)
            second = await session.prompt("second", delivery="queue")
            assert list((await session.state()).pending) == [second.id]
            await session.withdraw(second.id)
            gate.set()
            await session.wait()
            with pytest.raises(PromptConflict, match="not pending"):
                await session.withdraw(second.id)
            assert len(of_type(await log_of(session), ev.PromptPromoted)) == 1
        assert len(b.provider.requests) == 1


async def test_a_call_is_durable_before_it_runs(tmp_path: Path) -> None:
    sessions: list[Session] = []
    seen: list[object] = []

    async def look(_arguments: NoArguments, _context: ToolContext) -> str:
        async for record in sessions[0].events():
            seen.append(type(record.data))
            if isinstance(record.data, ev.ToolStarted):
                break
        return "seen"

    tool = Tool(name="look", description="Look.", arguments=NoArguments, run=look)
    async with bench(tmp_path, [call("look"), say("Done.")]) as b:
        async with b.runtime(tools=[tool]) as runtime:
            sessions.append(await b.session(runtime))
            await ask(sessions[0], "Look")
    assert seen[-2:] == [ev.AssistantMessage, ev.ToolStarted]


async def test_calls_of_one_step_run_side_by_side(tmp_path: Path) -> None:
    met = [anyio.Event(), anyio.Event()]

    def meeting(mine: int) -> Tool[NoArguments]:
        async def run(_arguments: NoArguments, _context: ToolContext) -> str:
            met[mine].set()
            await met[1 - mine].wait()
            return "met"

        return Tool(name=f"meet_{mine}", description="Meet.", arguments=NoArguments, run=run)

    async with bench(tmp_path, [calls(("meet_0", {}), ("meet_1", {})), say("Done.")]) as b:
        async with b.runtime(tools=[meeting(0), meeting(1)]) as runtime:
            with anyio.fail_after(60):
                records = await ask(await b.session(runtime), "Meet")
    assert [event.outcome for event in of_type(records, ev.ToolSettled)] == ["completed"] * 2


def _calls_first(request: ReceivedRequest, number: int) -> Reply:
    return calls(("list", {"path": "."}), ("list", {"path": "."})) if number == 0 else say("Yes.")


async def _cut_off(b: Bench, session: str, records: list[ev.Record]) -> list[ev.Record]:
    """Put the beginning of a log into a new store, as a crash leaves it, and go on from there."""
    b.store = b.root / f"cut-{len(records)}.db"
    store = await open_sqlite(b.store, clock=SystemClock())
    await store.create(session, [record.data for record in records])
    await store.close()
    async with b.runtime() as runtime:
        again = await runtime.session(session)
        await ask(again, "Go on.")
        return await log_of(again)


async def test_a_call_that_was_never_started_is_settled_as_not_run(tmp_path: Path) -> None:
    async with bench(tmp_path, _calls_first) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "List it twice")
            records = await log_of(session)
        b.prefix_may_break = "the same session goes on twice"
        answered = [type(record.data) for record in records].index(ev.AssistantMessage)
        went_on = await _cut_off(b, session.id, records[: answered + 1])
        settled = of_type(went_on, ev.ToolSettled)
        assert [event.outcome for event in settled] == ["not_run", "not_run"]
        assert of_type(went_on, ev.ToolStarted) == []


async def test_a_log_cut_off_anywhere_goes_on_with_every_call_settled_once(tmp_path: Path) -> None:
    async with bench(tmp_path, _calls_first) as b:
        b.prefix_may_break = "several sessions that go on from different points"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "List it twice")
            records = await log_of(session)
        for length in range(1, len(records)):
            went_on = await _cut_off(b, session.id, records[:length])
            wanted = [
                part.id
                for answer in of_type(went_on, ev.AssistantMessage)
                for part in answer.parts
                if isinstance(part, ToolCall)
            ]
            assert sorted(e.call for e in of_type(went_on, ev.ToolSettled)) == sorted(wanted)
            assert of_type(went_on, ev.StepFinished)[-1].outcome == "completed"
        assert not b.provider.refused


async def test_a_model_switch_applies_from_the_next_step_on(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with bench(tmp_path, [hold(gate, call("list", {"path": "."})), say("Done.")]) as b:
        b.prefix_may_break = "a model switch"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("List it")
            await b.provider.received(1)
            await session.switch_model("scripted/model-2")
            gate.set()
            await session.wait()
            records = await log_of(session)
        order = [type(record.data) for record in records]
        assert [r.json["model"] for r in b.provider.requests] == ["model-1", "model-2"]
        second_epoch = len(order) - 1 - order[::-1].index(ev.EpochStarted)
        assert order.index(ev.ToolSettled) < second_epoch


async def test_an_interrupt_between_two_attempts_starts_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, [error(429, headers={"retry-after": "15"})]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("Hello")
            async for record in session.events():
                if isinstance(record.data, ev.AttemptFailed):
                    break
            await session.interrupt()
            (finished,) = of_type(await log_of(session), ev.StepFinished)
        assert finished.outcome == "interrupted"
        assert len(b.provider.requests) == 1


async def test_a_baseline_that_alone_exceeds_the_window_is_a_clear_error(tmp_path: Path) -> None:
    words = "This model's maximum context length is 2000 tokens."
    overflow = error(400, "invalid_request_error", words, code="context_length_exceeded")
    async with bench(tmp_path, [overflow]) as b:
        b.config["providers"]["scripted"]["models"]["model-1"] = {"context_window": 2000}
        (b.project / "AGENTS.md").write_text("Be very careful. " * 2000)
        async with b.runtime() as runtime:
            records = await ask(await b.session(runtime), "Hello")
        (finished,) = of_type(records, ev.StepFinished)
        assert finished.failure.error == "ContextOverflow"
        assert "shorten the instruction files" in finished.failure.message
        assert len(b.provider.requests) == 1


def test_the_tail_never_begins_between_a_call_and_its_result() -> None:
    def exchange(step: int) -> list[UserItem | AssistantItem | ResultItem]:
        calling = (ToolCall(f"c{step}", "list", "{}"),)
        return [
            UserItem(5 * step, f"p{step}", "word " * 50),
            AssistantItem(5 * step + 1, step, calling, 1, "scripted/model-1"),
            ResultItem(5 * step + 2, f"c{step}", "list", "word " * 200, "completed"),
        ]

    items = [item for step in range(8) for item in exchange(step)]
    for window in range(0, 60_000, 100):
        assert not isinstance(items[tail_start(items, window)], ResultItem)


async def test_the_last_exchange_stays_beside_a_summary(tmp_path: Path) -> None:
    script = [
        say("long " * 900),
        call("list", {"path": "."}),
        say("It is there."),
        say("We spoke."),
    ]
    async with bench(tmp_path, [*script, say("Yes.")]) as b:
        b.prefix_may_break = "a compaction"
        b.config["providers"]["scripted"]["models"]["model-1"] = {"context_window": 8000}
        (b.project / "a.txt").write_text("alpha")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first question")
            await ask(session, "second question")
            assert await session.compact()
            await ask(session, "third question")
        messages = b.provider.requests[-1].json["messages"]
        assert "first question" not in str(messages)
        assert "second question" in str(messages)
        assert [message["role"] for message in messages].count("tool") == 1


async def test_many_wakes_at_once_start_one_drain(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)

            async def prompt() -> None:
                await session.prompt("Hello", id="mine")

            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(prompt)
            await session.wait()
            assert len(of_type(await log_of(session), ev.StepStarted)) == 1
        assert len(b.provider.requests) == 1


async def test_giving_up_a_wait_does_not_stop_the_work(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with bench(tmp_path, [hold(gate, say("1"))]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await session.prompt("Hello")
        await b.provider.received(1)
        with anyio.move_on_after(0):
            await session.wait()
        gate.set()
        await session.wait()
        (finished,) = of_type(await log_of(session), ev.StepFinished)
    assert finished.outcome == "completed"


async def test_a_longer_answer_takes_no_more_events_in_the_log(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("Yes."), say("word " * 300)]) as b:
        b.prefix_may_break = "two sessions"
        async with b.runtime() as runtime:
            short, long = await b.session(runtime), await b.session(runtime)
            await ask(short, "Hello")
            records = await ask(long, "Hello")
            assert len(of_type(records, ev.TextDelta)) > 10
            assert len(await log_of(long)) == len(await log_of(short))


async def test_a_reader_that_falls_behind_still_gets_every_event_once(tmp_path: Path) -> None:
    long = sum((say("word " * 50) for _ in range(100)), Reply())
    async with bench(tmp_path, [long, say("2")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        records = session.events(until_idle=False)
        seen = [await anext(records)]
        await session.prompt("Hello")
        await session.wait()
        await session.prompt("Hello again")
        await session.wait()
        last = (await log_of(session))[-1].seq
        fragments = 0
        async for record in records:
            fragments += isinstance(record, ev.LiveRecord)
            if isinstance(record, ev.Record):
                seen.append(record)
                if record.seq == last:
                    break
        await records.aclose()
    assert [record.seq for record in seen] == list(range(1, last + 1))
    assert fragments < 1024
