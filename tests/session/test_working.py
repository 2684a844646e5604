"""Who works on a session and when: interrupts, permissions, several runtimes, the inbox."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from perdure import (
    NoProvider,
    PermissionAnswer,
    PermissionRequest,
    Tool,
    ToolContext,
    UnknownProvider,
)
from perdure.history import events as ev
from perdure.history.items import AssistantItem
from perdure.testing import call, calls, hold, say
from tests.session.support import ask, bench, log_of, of_type
from tests.session.worker import EffectArguments

pytestmark = pytest.mark.anyio


def _blocking_tool(started: anyio.Event) -> Tool[EffectArguments]:
    async def run(arguments: EffectArguments, context: ToolContext) -> str:
        started.set()
        await anyio.sleep_forever()
        return ""

    return Tool(name="block", description="Wait.", arguments=EffectArguments, run=run)


async def test_an_interrupt_settles_the_running_call_and_ends_the_drain(tmp_path: Path) -> None:
    started = anyio.Event()
    async with bench(tmp_path, [call("block", {"name": "x"}), say("Fine.")]) as b:
        async with b.runtime(tools=[_blocking_tool(started)]) as runtime:
            session = await b.session(runtime)
            await session.prompt("Wait for ever")
            await started.wait()
            await session.interrupt()
            records = await log_of(session)
            assert [event.outcome for event in of_type(records, ev.ToolSettled)] == ["interrupted"]
            assert of_type(records, ev.StepFinished)[-1].outcome == "interrupted"
            await ask(session, "Now?")
        assert not b.provider.refused


async def test_an_interrupt_while_the_model_speaks_keeps_the_partial_answer_in_the_log(
    tmp_path: Path,
) -> None:
    async with bench(
        tmp_path, [hold(anyio.Event(), say("One two three"), after=2), say("Fine.")]
    ) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("Count")
            async for record in session.events():
                if isinstance(record.data, ev.TextDelta):
                    break
            await session.interrupt()
            (failed,) = of_type(await log_of(session), ev.AttemptFailed)
            assert failed.partial
            await ask(session, "Go on")
        assert b"One two" not in b.provider.requests[1].body


async def test_an_interrupt_of_an_idle_session_does_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        before = await log_of(session)
        await session.interrupt()
        await session.interrupt()
        assert await log_of(session) == before


async def test_leaving_the_runtime_settles_what_runs_and_keeps_what_waits(tmp_path: Path) -> None:
    started = anyio.Event()
    async with bench(tmp_path, [call("block", {"name": "x"}), say("Second."), say("Third.")]) as b:
        async with b.runtime(tools=[_blocking_tool(started)]) as runtime:
            session = await b.session(runtime)
            await session.prompt("First")
            await started.wait()
            await session.prompt("Second", delivery="queue")
        async with b.runtime(tools=[_blocking_tool(started)]) as runtime:
            again = await runtime.session(session.id)
            assert len((await again.state()).pending) == 1
            records = await ask(again, "Third", delivery="queue")
            assert [event.outcome for event in of_type(records, ev.StepFinished)] == [
                "completed",
                "completed",
            ]


async def test_queued_prompts_are_answered_one_at_a_time_in_order(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with bench(tmp_path, [hold(gate, say("1")), say("2"), say("3")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("first")
            await b.provider.received(1)
            await session.prompt("second", delivery="queue")
            await session.prompt("third", delivery="queue")
            gate.set()
            await session.wait()
        texts = [
            [
                part["text"]
                for m in r.json["messages"]
                if m["role"] == "user"
                for part in m["content"]
            ]
            for r in b.provider.requests
        ]
        assert texts == [["first"], ["first", "second"], ["first", "second", "third"]]


async def test_steering_prompts_are_promoted_together_at_the_next_boundary(tmp_path: Path) -> None:
    gate = anyio.Event()
    script = [hold(gate, call("list", {"path": "."})), say("ok"), say("later")]
    async with bench(tmp_path, script) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("first")
            await b.provider.received(1)
            await session.prompt("later", delivery="queue")
            await session.prompt("left")
            await session.prompt("right")
            gate.set()
            records = await log_of(session)
        order = [
            type(r.data) for r in records if isinstance(r.data, ev.PromptPromoted | ev.StepStarted)
        ]
        step, promoted = ev.StepStarted, ev.PromptPromoted
        assert order == [promoted, step, promoted, promoted, step, promoted, step]


async def test_two_runtimes_of_one_session_never_interleave(tmp_path: Path) -> None:
    gate = anyio.Event()
    script = [hold(gate, call("list", {"path": "."})), say("one"), say("two")]
    async with bench(tmp_path, script) as b, b.runtime() as first, b.runtime() as second:
        session = await b.session(first)
        same = await second.session(session.id)
        one = await session.prompt("first", delivery="queue", hold=True)
        await b.provider.received(1)
        two = await same.prompt("second", delivery="queue", hold=True)
        gate.set()
        with anyio.fail_after(60):
            a = [r async for r in session.events(after=one.seq - 1, prompt=one.id)]
            c = [r async for r in same.events(after=two.seq - 1, prompt=two.id)]
        assert of_type(a, ev.AssistantMessage)[-1].parts[0].text == "one"
        assert of_type(c, ev.AssistantMessage)[-1].parts[0].text == "two"
        assert [r.seq for r in await log_of(session)] == list(
            range(1, len(await log_of(session)) + 1)
        )


async def test_a_tool_that_asks_is_denied_where_nobody_can_answer(tmp_path: Path) -> None:
    script = [call("shell", {"command": "touch made"}), say("I could not.")]
    async with bench(tmp_path, script) as b:
        async with b.runtime() as runtime:
            records = await ask(await b.session(runtime), "Make it")
        assert not (b.project / "made").exists()
        (settled,) = of_type(records, ev.ToolSettled)
        assert settled.outcome == "failed"
        assert of_type(records, ev.ToolStarted) == []
        assert of_type(records, ev.StepFinished)[-1].outcome == "completed"


@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        (PermissionAnswer(False), 1),
        (PermissionAnswer(False, "use git"), 2),
        (PermissionAnswer(True), 2),
    ],
)
async def test_a_refusal_ends_the_drain_unless_it_gives_the_model_a_reason(
    tmp_path: Path, answer: PermissionAnswer, steps: int
) -> None:
    asked: list[PermissionRequest] = []

    async def answer_it(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request)
        return answer

    script = [call("shell", {"command": "touch made"}), say("Well.")]
    async with bench(tmp_path, script) as b:
        async with b.runtime(ask=answer_it) as runtime:
            records = await ask(await b.session(runtime), "Make it")
        assert (b.project / "made").exists() == answer.allowed
        assert len(b.provider.requests) == steps
        assert "touch made" in asked[0].summary
        outcome = of_type(records, ev.StepFinished)[-1].outcome
        assert outcome == ("declined" if steps == 1 else "completed")


async def test_broken_arguments_are_a_result_that_the_model_can_act_on(tmp_path: Path) -> None:
    script = [calls(call("read", '{"path": "a'), call("nothing", {})), say("Sorry.")]
    async with bench(tmp_path, script) as b:
        async with b.runtime() as runtime:
            records = await ask(await b.session(runtime), "Read it")
        first, second = of_type(records, ev.ToolSettled)
        assert "not valid JSON" in first.output + second.output
        assert "no tool named" in first.output + second.output
        assert not b.provider.refused


async def test_a_session_without_any_provider_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        b.config = {}
        async with b.runtime() as runtime:
            with pytest.raises(NoProvider):
                await b.session(runtime)


async def test_the_model_of_a_new_session_can_be_asked_for_without_one(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        assert await runtime.choose_model(tmp_path) == "scripted/model-1"
        assert await runtime.choose_model(tmp_path, "scripted/other") == "scripted/other"
        assert await runtime.sessions() == []


async def test_a_wake_answers_what_waits(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("Yes.")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await session.prompt("Are you there?", wake=False)
        session.wake()
        await session.wait()
        assert isinstance((await session.messages())[-1], AssistantItem)


async def test_a_wake_with_nothing_to_do_changes_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        before = await session.row()
        session.wake()
        await session.wait()
        assert (await session.row()).last_seq == before.last_seq
        assert b.provider.requests == []


async def test_a_boundary_that_fails_leaves_the_prompt_pending(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("Here.")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
        whole = b.config
        b.config = whole | {"providers": {"other": whole["providers"]["scripted"]}}
        async with b.runtime() as runtime:
            again = await runtime.session(session.id)
            with pytest.raises(UnknownProvider):
                await ask(again, "Hello?")
            assert len((await again.state()).pending) == 1
        b.config = whole
        async with b.runtime() as runtime:
            again = await runtime.session(session.id)
            records = await ask(again, "And now?")
            assert len(of_type(records, ev.PromptPromoted)) == 2


async def test_a_reader_gets_every_event_once_wherever_it_begins(tmp_path: Path) -> None:
    async with bench(tmp_path, [call("list", {"path": "."}), say("a"), say("b")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "one")
            await session.prompt("two")
            whole = [r.seq async for r in session.events(until_idle=True) if r.seq]
            for after in whole:
                tail = [r.seq async for r in session.events(after=after, until_idle=True) if r.seq]
                assert tail == list(range(after + 1, whole[-1] + 1))
