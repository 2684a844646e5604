"""What once broke a session: races, callers and callbacks that go wrong, limits that met."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from perdure import (
    UNAVAILABLE,
    PermissionAnswer,
    PermissionRequest,
    Source,
    Tool,
    ToolContext,
    ToolOutput,
    UnknownProvider,
    UsageError,
)
from perdure.clock import SystemClock
from perdure.errors import StoreFull
from perdure.history import events as ev
from perdure.session.attempts import RetryPolicy
from perdure.store.sqlite import open_sqlite
from perdure.testing import call, calls, cut, error, hold, say, think
from tests.session.support import ask, bench, log_of, of_type
from tests.session.worker import EffectArguments

pytestmark = pytest.mark.anyio


def _tool(run: Callable[[], Awaitable[Any]]) -> Tool[EffectArguments]:
    async def effect(arguments: EffectArguments, context: ToolContext) -> Any:
        return await run()

    return Tool(name="effect", description="Work.", arguments=EffectArguments, run=effect)


async def test_prompts_that_come_while_calls_end_side_by_side_break_nothing(tmp_path: Path) -> None:
    many = calls(*(call("effect", {"name": str(n)}) for n in range(8)))
    async with bench(tmp_path, [many, *([say("ok")] * 60)]) as b:

        async def work() -> str:
            await anyio.sleep(0)
            return "done"

        async with b.runtime(tools=[_tool(work)]) as runtime:
            session = await b.session(runtime)
            for n in range(60):
                await session.prompt(f"prompt {n}")
            await session.wait()
            records = await log_of(session)
        assert not (await _pending(b, session.id))
        assert {event.outcome for event in of_type(records, ev.StepFinished)} == {"completed"}
        assert not b.provider.refused


async def _pending(b: Any, session: str) -> list[str]:
    async with b.runtime() as runtime:
        return list((await (await runtime.session(session)).state()).pending)


async def test_a_prompt_that_comes_while_an_interrupt_settles_starts_the_next_drain(
    tmp_path: Path,
) -> None:
    started, ending, end = anyio.Event(), anyio.Event(), anyio.Event()

    async def work() -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                ending.set()
                await end.wait()
        return ""

    async with bench(tmp_path, [call("effect", {"name": "x"}), say("ok")]) as b:
        async with b.runtime(tools=[_tool(work)]) as runtime:
            session = await b.session(runtime)
            await session.prompt("one")
            await started.wait()
            async with anyio.create_task_group() as group:
                group.start_soon(session.interrupt)
                await ending.wait()
                await session.prompt("two")
                end.set()
            await session.wait()
            assert not (await session.state()).pending
        assert len(b.provider.requests) == 2


class _Watched:
    """A store that says when a step has become durable, before its writer learns of it."""

    def __init__(self, store: Any) -> None:
        self.started = anyio.Event()
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, session: str, events: Sequence[ev.Event], **how: Any) -> Any:
        records = await self._store.append(session, events, **how)
        if any(isinstance(event, ev.StepStarted) for event in events):
            self.started.set()
            await anyio.sleep(0.01)
        return records


async def test_an_interrupt_settles_a_step_that_became_durable_just_before_it(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [say("ok")] * 2) as b:
        store = _Watched(await open_sqlite(b.store, clock=SystemClock()))
        b.store = cast("Path", store)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("one")
            await store.started.wait()
            await session.interrupt()
            assert of_type(await log_of(session), ev.StepFinished)[-1].outcome == "interrupted"
            await ask(session, "two")
        await store.close()


async def test_a_queued_prompt_is_answered_after_the_step_limit_was_reached(
    tmp_path: Path,
) -> None:
    look = call("list", {"path": "."})
    async with bench(tmp_path, [look, look, say("ok")]) as b:
        async with b.runtime(config={"step_limit": 2}) as runtime:
            session = await b.session(runtime)
            await ask(session, "one")
            await ask(session, "two", delivery="queue")
            assert not (await session.state()).pending


async def test_an_overflow_in_the_last_step_is_still_done_once_more(tmp_path: Path) -> None:
    long = error(400, message="maximum context length exceeded", code="context_length_exceeded")
    async with bench(tmp_path, [say("1"), long, say("summary"), say("2"), say("3")]) as b:
        b.prefix_may_break = "a compaction starts an epoch"
        async with b.runtime(config={"step_limit": 1}) as runtime:
            session = await b.session(runtime)
            await ask(session, "one")
            records = await ask(session, "two")
            assert of_type(records, ev.StepFinished)[-1].outcome == "completed"
            assert len(of_type(records, ev.Note)) == 1
            await ask(session, "three")
            assert not (await session.state()).pending


async def test_a_delivery_that_does_not_exist_is_refused_and_writes_nothing(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [say("ok")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        with pytest.raises(UsageError, match="must be steer or queue"):
            await session.prompt("one", delivery="soon")  # pyright: ignore[reportArgumentType]
        await ask(session, "two")


@pytest.mark.parametrize("value", [None, 5, b"text"])
async def test_what_is_no_text_is_refused_by_name(tmp_path: Path, value: Any) -> None:
    async with bench(tmp_path, [say("ok")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        for attempt in (session.rename, session.prompt):
            with pytest.raises(UsageError, match="must be a str"):
                await attempt(value)
        with pytest.raises(UsageError, match="must be a str"):
            await b.session(runtime, instructions=value)
        await ask(session, "two")


async def test_a_question_that_cannot_be_asked_is_a_result_that_the_model_can_act_on(
    tmp_path: Path,
) -> None:
    async def asking(request: PermissionRequest) -> PermissionAnswer:
        raise ValueError("the window is closed")

    async with bench(tmp_path, [call("shell", {"command": "true"}), say("ok")]) as b:
        async with b.runtime(ask=asking) as runtime:
            session = await b.session(runtime)
            (settled,) = of_type(await ask(session, "one"), ev.ToolSettled)
        assert settled.outcome == "failed"
        assert "nobody is there to give it" in settled.output


@pytest.mark.parametrize("answer", [None, True, "yes"])
async def test_an_answer_that_is_none_allows_nothing(tmp_path: Path, answer: Any) -> None:
    async def asking(request: PermissionRequest) -> PermissionAnswer:
        return answer

    async with bench(tmp_path, [call("shell", {"command": "true"}), say("ok")]) as b:
        async with b.runtime(ask=asking) as runtime:
            session = await b.session(runtime)
            records = await ask(session, "one")
        assert [event.outcome for event in of_type(records, ev.ToolSettled)] == ["failed"]
        assert not of_type(records, ev.ToolStarted)


async def test_a_refusal_without_words_is_a_refusal(tmp_path: Path) -> None:
    nothing: Any = None

    async def asking(request: PermissionRequest) -> PermissionAnswer:
        return PermissionAnswer(False, nothing)

    async with bench(tmp_path, [call("shell", {"command": "true"})]) as b:
        async with b.runtime(ask=asking) as runtime:
            session = await b.session(runtime)
            records = await ask(session, "one")
        assert [event.outcome for event in of_type(records, ev.StepFinished)] == ["declined"]


async def test_a_tool_that_names_no_paths_has_succeeded_all_the_same(tmp_path: Path) -> None:
    wrong: Any = (None, 5, "a\0b")

    async def work() -> ToolOutput:
        return ToolOutput("done", paths=wrong)

    async with bench(tmp_path, [call("effect", {"name": "x"}), say("ok")]) as b:
        async with b.runtime(tools=[_tool(work)]) as runtime:
            session = await b.session(runtime)
            (settled,) = of_type(await ask(session, "one"), ev.ToolSettled)
        assert (settled.outcome, settled.output) == ("completed", "done")


async def test_an_interrupt_while_waiting_to_try_again_records_the_failure_once(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [cut(say("One two three"), after=2), say("ok")]) as b:
        async with b.runtime(retry=RetryPolicy(base=10)) as runtime:
            session = await b.session(runtime)
            await session.prompt("one")
            async for record in session.events():
                if isinstance(record.data, ev.AttemptFailed):
                    break
            await session.interrupt()
            assert len(of_type(await log_of(session), ev.AttemptFailed)) == 1
            await ask(session, "two")


async def test_a_request_is_given_back_across_a_blocked_switch_to_a_model_of_another_form(
    tmp_path: Path,
) -> None:
    told: dict[str, Any] = {"my/held": "x", "my/thing": "a"}

    def source(key: str) -> Source[str]:
        return Source(
            key=key,
            type=str,
            load=lambda: told[key],
            baseline=lambda value: f"{key} is {value}.",
            update=lambda _, value: f"{key} is now {value}.",
        )

    async with bench(tmp_path, [say(str(n)) for n in range(4)], "anthropic") as b:
        b.prefix_may_break = "the model is switched in an epoch that cannot end"
        models = b.config["providers"]["scripted"]["models"]
        forms = {"claude-opus-5": "native", "old": "wrapped"}
        models |= {name: {"system_messages": form} for name, form in forms.items()}
        async with b.runtime(sources=[source(key) for key in told]) as runtime:
            session = await b.session(runtime, model="scripted/claude-opus-5")
            await ask(session, "one")
            told["my/thing"] = "b"
            await ask(session, "two")
            told["my/held"] = UNAVAILABLE
            for model in ("scripted/old", "scripted/claude-opus-5"):
                await session.switch_model(model)
                await ask(session, f"now {model}")
            for number, request in enumerate(b.provider.requests, 1):
                assert await session.request(number) == request.body
        assert not b.provider.refused


async def test_thinking_behind_tool_results_goes_back_as_it_came(tmp_path: Path) -> None:
    script = [call("list", {"path": "."}), think("Hm.") + say("ok"), say("fine")]
    async with bench(tmp_path, script, "anthropic") as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "one")
            await ask(session, "two")
        assert not b.provider.refused
        assert b'"thinking":"Hm."' in b.provider.requests[2].body


async def test_what_happens_to_a_prompt_goes_on_behind_an_overflow(tmp_path: Path) -> None:
    long = error(400, message="maximum context length exceeded", code="context_length_exceeded")
    async with bench(tmp_path, [say("1"), long, say("summary"), say("2")]) as b:
        b.prefix_may_break = "a compaction starts an epoch"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "one")
            admission = await session.prompt("two")
            records = [r async for r in session.events(after=admission.seq, prompt=admission.id)]
        outcomes = [event.outcome for event in of_type(records, ev.StepFinished)]
        assert outcomes == ["overflowed", "completed"]


async def test_sealed_thinking_does_not_go_back_behind_a_summary_in_a_blocked_epoch(
    tmp_path: Path,
) -> None:
    value: Any = "a"
    source = Source(
        key="my/thing",
        type=str,
        load=lambda: value,
        baseline=lambda value: f"It is {value}.",
        update=lambda _, value: f"It is now {value}.",
    )
    script = [say("0"), think("Hm.") + say("1"), say("summary"), think("So.") + say("2"), say("3")]
    async with bench(tmp_path, script, "anthropic") as b:
        b.prefix_may_break = "a compaction replaces the history"
        async with b.runtime(sources=[source]) as runtime:
            session = await b.session(runtime)
            await ask(session, "zero " * 17_000)
            await ask(session, "one")
            value = UNAVAILABLE
            assert await session.compact()
            await ask(session, "two")
            await ask(session, "three")
            assert len(of_type(await log_of(session), ev.EpochStarted)) == 1
        assert not b.provider.refused
        last = b.provider.requests[-1].body
        assert b'"Hm."' in last
        assert b'"thinking":"Hm."' not in last
        assert b'"thinking":"So."' in last


async def test_the_context_is_shown_where_the_provider_is_no_longer_configured(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [say("ok")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "one")
        b.config = {"model": "other/x", "providers": {"other": b.config["providers"]["scripted"]}}
        async with b.runtime() as runtime:
            again = await runtime.session(session.id)
            with pytest.raises(UnknownProvider, match="scripted"):
                await ask(again, "two")
            assert len((await again.state()).pending) == 1
            context = await again.context()
        assert (context.next, context.model) == ("unchanged", "scripted/model-1")


class _Full:
    """A store that writes nothing while its disk is full, not even the end of a lease."""

    def __init__(self, store: Any) -> None:
        self.full = False
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, *what: Any, **how: Any) -> Any:
        return await self._written(self._store.append, *what, **how)

    async def release(self, lease: Any) -> None:
        await self._written(self._store.release, lease)

    async def _written(self, write: Callable[..., Awaitable[Any]], *what: Any, **how: Any) -> Any:
        if self.full:
            raise StoreFull("the disk is full")
        return await write(*what, **how)


async def test_a_disk_that_fills_in_a_step_ends_the_waiting_and_the_next_drain_goes_on(
    tmp_path: Path,
) -> None:
    answer = anyio.Event()
    async with bench(tmp_path, [hold(answer, say("lost")), say("ok")]) as b:
        store = _Full(await open_sqlite(b.store, clock=SystemClock()))
        b.store = cast("Path", store)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("one")
            await b.provider.received(1)
            store.full = True
            answer.set()
            with pytest.raises(StoreFull), anyio.fail_after(60):
                await session.wait()
            store.full = False
            records = await ask(session, "two")
        await store.close()
        outcomes = [event.outcome for event in of_type(records, ev.StepFinished)]
        assert outcomes == ["crashed", "completed"]
        assert b"one" in b.provider.requests[1].body


async def test_a_disk_that_fills_in_a_revert_leaves_the_session_to_the_next_drain(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [say("1"), say("2")]) as b:
        store = _Full(await open_sqlite(b.store, clock=SystemClock()))
        b.store = cast("Path", store)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "one")
            store.full = True
            with pytest.raises(StoreFull):
                await session.revert(1)
            store.full = False
            with anyio.fail_after(60):
                records = await ask(session, "two")
        await store.close()
        assert [event.outcome for event in of_type(records, ev.StepFinished)] == ["completed"]
