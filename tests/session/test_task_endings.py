"""A task that is interrupted or comes to nothing: its giver hears why, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from perdure import PermissionAnswer, PermissionRequest, Source
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.store.sqlite import open_sqlite
from perdure.testing import Reply, call, error, hold, say
from tests.session.support import Bench, ask, log_of, of_type
from tests.session.tasks import Cast, begun, bench, gives, only_child, results
from tests.session.test_interrupts import Work, stop
from tests.store.store_support import raw

pytestmark = pytest.mark.anyio

NEVER = anyio.Event
MOMENTS: dict[str, Callable[[], Reply]] = {
    "streaming": lambda: hold(NEVER(), say("One two three"), after=2),
    "running a tool": lambda: call("effect", {"name": "x"}),
    "asking": lambda: call("shell", {"command": "true"}),
}


async def arrive(moment: str, work: Work) -> None:
    """Wait until a task whose request has come is at a moment."""
    if moment == "running a tool":
        await work.at_tool.wait()
    elif moment == "asking":
        await work.at_question.wait()


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_interrupt_of_who_gave_a_task_interrupts_the_task(
    tmp_path: Path, moment: str, where: Literal["here", "elsewhere"]
) -> None:
    cast = Cast(main=[gives("part"), say("On.")], part=[MOMENTS[moment]()])
    async with bench(tmp_path, cast) as b:
        work = Work(b.provider)
        async with b.runtime(**work.options()) as runtime:
            session = await begun(b, runtime, 2)
            await arrive(moment, work)
            child = await only_child(runtime, session)
            await stop(b, session, where)
            assert [outcome for outcome, _ in results(await log_of(session))] == ["interrupted"]
            state = await child.state()
            assert (state.step, state.outcome, state.pending) == (None, "interrupted", {})
            assert (await child.row()).owner == ""
            inside = [outcome for outcome, _ in results(await log_of(child))]
            # A question that nobody answered is about a call that was never started.
            expected = {"streaming": [], "asking": ["not_run"], "running a tool": ["interrupted"]}
            assert inside == expected[moment]
            assert await runtime.recover() == []
            await ask(session, "Go on.")
            assert len(await session.children()) == 1


async def test_all_tasks_of_a_step_are_interrupted_together(tmp_path: Path) -> None:
    cast = Cast(
        main=[gives("left", "right", "done"), say("On.")],
        left=[hold(NEVER(), say("Left"))],
        right=[hold(NEVER(), say("Right"))],
        done=[say("The third is done.")],
    )
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await begun(b, runtime, 4)
        async for record in session.events():
            if isinstance(record.data, ev.ToolSettled):
                break
        await session.interrupt()
        outcomes = sorted(outcome for outcome, _ in results(await log_of(session)))
        assert outcomes == ["completed", "interrupted", "interrupted"]
        ends = sorted([row.outcome for row in await session.children()])
        assert ends == ["completed", "interrupted", "interrupted"]


async def test_a_runtime_that_is_closed_leaves_neither_with_work(tmp_path: Path) -> None:
    cast = Cast(main=[gives("part"), say("On.")], part=[hold(NEVER(), say("Part"))])
    async with bench(tmp_path, cast) as b:
        async with b.runtime() as runtime:
            session = await begun(b, runtime, 2)
        async with b.runtime() as runtime:
            assert await runtime.recover() == []
            rows = await runtime.sessions()
            assert [row.outcome for row in rows] == ["interrupted", "interrupted"]
            await ask(await runtime.session(session.id), "Go on.")


async def test_a_task_that_had_not_begun_is_taken_back(tmp_path: Path) -> None:
    cast = Cast(main=[gives("part"), say("On.")], part=[say("Never.")])
    async with bench(tmp_path, cast) as b:
        work = Work(b.provider)
        work.loads_before_it_hangs = 2
        async with b.runtime(**work.options()) as runtime:
            session = await begun(b, runtime, 1)
            await work.at_boundary.wait()
            await session.interrupt()
            child = await only_child(runtime, session)
            kinds = [record.type for record in await log_of(child)]
            assert kinds == ["session.created", "prompt.admitted", "prompt.withdrawn"]
            assert await runtime.recover() == []


async def test_a_task_that_is_interrupted_itself_ends_nothing_else(tmp_path: Path) -> None:
    cast = Cast(main=[gives("part"), say("I see.")], part=[hold(NEVER(), say("One two"), after=1)])
    async with bench(tmp_path, cast) as b:
        async with b.runtime() as runtime:
            session = await begun(b, runtime, 2)
            child = await only_child(runtime, session)
            await child.interrupt()
            await session.wait()
            words = f"the task was interrupted; it may be done in part (session {child.id})."
            assert results(await log_of(session)) == [("failed", words)]
            assert (await session.state()).outcome == "completed"


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ([error(400)], "the task failed: "),
        ([say("It is lo", stop="length")], "the result of the task was cut off"),
        ([call("shell", {"command": "true"})], "the user declined a tool call of it"),
        (
            [say("Looking.") + call("list", {"path": "."}), say("So.") + call("list")],
            "the task reached its step limit before it was done",
        ),
    ],
)
async def test_a_task_that_comes_to_nothing_is_a_failed_call_that_says_why(
    tmp_path: Path, replies: list[Reply], words: str
) -> None:
    async def decline(request: PermissionRequest) -> PermissionAnswer:
        return PermissionAnswer(False)

    cast = Cast(main=[gives("part"), say("I see.")], part=replies)
    async with bench(tmp_path, cast) as b:
        b.config["step_limit"] = 2
        async with b.runtime(ask=decline) as runtime:
            session = await b.session(runtime)
            ((outcome, output),) = results(await ask(session, "main."))
            child = await only_child(runtime, session)
            assert outcome == "failed"
            assert words in output
            assert f"(session {child.id})." in output
            assert (await session.state()).outcome == "completed"
            assert await runtime.recover() == []


async def test_the_last_words_of_a_task_that_came_to_nothing_are_told(tmp_path: Path) -> None:
    cast = Cast(
        main=[gives("part"), say("I see.")],
        part=[say("I found two files so far.") + call("list"), error(400)],
    )
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        ((_, output),) = results(await ask(session, "main."))
        assert output.endswith("Its last words were:\n\nI found two files so far.")


async def test_an_answer_on_the_last_permitted_step_is_a_result(tmp_path: Path) -> None:
    cast = Cast(main=[gives("part"), say("I see.")], part=[call("list"), say("As far as I came.")])
    async with bench(tmp_path, cast) as b:
        b.config["step_limit"] = 2
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            ((outcome, output),) = results(await ask(session, "main."))
            assert (outcome, output.partition("\n")[0]) == ("completed", "As far as I came.")


async def test_a_task_whose_boundary_cannot_be_crossed_says_why_and_waits_for_nobody(
    tmp_path: Path,
) -> None:
    cast = Cast(main=[gives("part"), say("I see.")], part=[])
    async with bench(tmp_path, cast) as b:
        loads = 0

        async def load() -> str:
            nonlocal loads
            loads += 1
            if loads == 2:
                await _lose_the_model_of_the_task(b)
            return "x"

        source = Source(
            key="test/fact", type=str, load=load, baseline=str, update=lambda _, now: now
        )
        async with b.runtime(sources=[source]) as runtime:
            session = await b.session(runtime)
            ((outcome, output),) = results(await ask(session, "main."))
            assert outcome == "failed"
            assert "the task could not go on: " in output
            assert "nowhere" in output
            child = await only_child(runtime, session)
            assert of_type(await b.log(child.id), ev.PromptWithdrawn)
            assert await runtime.recover() == []


async def _lose_the_model_of_the_task(b: Bench) -> None:
    async with await open_sqlite(b.store, clock=SystemClock()) as store:
        (child,) = [row.id for row in await store.sessions() if row.parent]
        await store.append(child, [ev.ModelSwitched("nowhere/model")])


async def test_a_task_counts_its_own_tokens(tmp_path: Path) -> None:
    cast = Cast(main=[gives("part"), say("Done.")], part=[say("Part.")])
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        child = await only_child(runtime, session)
        own = of_type(await log_of(session), ev.AssistantMessage)
        assert [each.step for each in own] == [1, 2]
        (answer,) = of_type(await log_of(child), ev.AssistantMessage)
        assert answer.usage.input > 0


async def test_a_task_can_be_prompted_further_like_any_session(tmp_path: Path) -> None:
    cast = Cast(main=[gives("part"), say("Done.")], part=[say("Part."), say("And more.")])
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        before = len(await log_of(session))
        child = await only_child(runtime, session)
        answers: list[Any] = of_type(await ask(child, "More?"), ev.AssistantMessage)
        assert [part.text for part in answers[-1].parts] == ["And more."]
        assert len(await log_of(session)) == before


async def test_a_task_goes_on_for_the_process_that_took_over_who_gave_it(tmp_path: Path) -> None:
    answers = anyio.Event()
    cast = Cast(main=[gives("part"), say("I see.")], part=[hold(answers, say("Part done."))])
    async with bench(tmp_path, cast) as b, b.runtime() as first:
        session = await begun(b, first, 2)
        child = await only_child(first, session)
        free_of_its_owner(b.store, session.id)
        async with b.runtime() as second:
            taken_over = await second.session(session.id)
            assert await second.recover() == [session.id]
            await session.wait(only_here=True)
            assert (await child.state()).step is not None
            answers.set()
            await taken_over.wait()
        ((outcome, output),) = results(await log_of(session))
        assert (outcome, output.partition("\n")[0]) == ("completed", "Part done.")
        assert [each.outcome for each in of_type(await log_of(child), ev.StepFinished)] == [
            "completed"
        ]


def free_of_its_owner(store: Path, session: str) -> None:
    """Leave a session as it is when the lease of who drains it has run out."""
    with raw(store) as connection:
        connection.execute("UPDATE session SET owner = '', holder = NULL WHERE id = ?", (session,))


async def crashed_while_a_task_spoke(b: Bench) -> tuple[str, str]:
    """Leave a session and its task in a new store as a crash does; return the ids of both."""
    async with b.runtime() as runtime:
        session = await begun(b, runtime, 2)
        child = await only_child(runtime, session)
        logs = {id_: await b.log(id_) for id_ in (session.id, child.id)}
    await b.crash(logs)
    return session.id, child.id


def speaking() -> Cast:
    return Cast(main=[gives("part"), say("On.")], part=[hold(NEVER(), say("Part")), say("Part")])


async def test_a_task_is_not_gone_on_with_once_its_call_was_reverted(tmp_path: Path) -> None:
    async with bench(tmp_path, speaking()) as b:
        session, child = await crashed_while_a_task_spoke(b)
        async with b.runtime() as runtime:
            await (await runtime.session(session)).revert(1)
            assert await runtime.recover() == []
            task = await runtime.session(child)
            assert [each.outcome for each in of_type(await log_of(task), ev.StepFinished)] == [
                "interrupted"
            ]
            assert await runtime.recover() == []
        assert len(b.provider.requests) == 2


async def test_a_task_whose_call_is_not_run_again_is_not_gone_on_with(tmp_path: Path) -> None:
    async with bench(tmp_path, speaking()) as b:
        session, child = await crashed_while_a_task_spoke(b)
        async with await open_sqlite(b.store, clock=SystemClock()) as store:
            await store.append(session, [ev.RecoveryStarted(1, attempt) for attempt in (1, 2, 3)])
        async with b.runtime() as runtime:
            assert await runtime.recover() == [session]
            giver = await runtime.session(session)
            await giver.wait()
            assert [outcome for outcome, _ in results(await log_of(giver))] == ["unknown"]
            assert await runtime.recover() == []
            assert (await (await runtime.session(child)).row()).outcome == "interrupted"
        assert len(b.provider.requests) == 3


async def test_a_task_is_woken_by_its_call_and_by_nobody_else(tmp_path: Path) -> None:
    async with bench(tmp_path, speaking()) as b:
        session, _ = await crashed_while_a_task_spoke(b)
        async with b.runtime() as runtime:
            assert await runtime.recover() == [session]
            giver = await runtime.session(session)
            await giver.wait()
            assert [outcome for outcome, _ in results(await log_of(giver))] == ["completed"]
