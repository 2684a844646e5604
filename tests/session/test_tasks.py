"""A task is worked on by a session of its own, of which only the result comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from perdure import PermissionAnswer, PermissionRequest
from perdure.clock import SystemClock, derived_id
from perdure.history import events as ev
from perdure.history.items import ResultItem
from perdure.session.delegation import INSTRUCTIONS, task_session
from perdure.store.sqlite import open_sqlite
from perdure.testing import Reply, call, calls, hold, say
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.session.support import ask, log_of, of_type
from tests.session.tasks import Cast, begun, bench, gives, numbered, only_child, results

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_task_has_a_history_of_its_own_and_only_its_result_comes_back(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    cast = Cast(
        main=[gives("part"), say("All is done.")],
        part=[call("list", {"path": "."}), say("There is a file called secret.txt.")],
    )
    async with bench(tmp_path, cast, protocol) as b, b.runtime() as runtime:
        (b.project / "secret.txt").write_text("x")
        (b.project / "other.txt").write_text("x")
        session = await b.session(runtime)
        records = await ask(session, "main.")
        child = await only_child(runtime, session)
        note = f"(the task was session {child.id})"
        assert results(records) == [
            ("completed", f"There is a file called secret.txt.\n{note}"),
        ]
        roles = [type(item).__name__ for item in await child.messages()]
        assert roles == ["UserItem", "AssistantItem", "ResultItem", "AssistantItem"]
        assert len(await session.messages()) == 4
    assert b"other.txt" not in b"".join(each.body for each in cast.asked["main"])
    assert b"main." not in b"".join(each.body for each in cast.asked["part"])


async def test_a_task_begins_like_its_giver_with_a_system_context_of_its_own(
    tmp_path: Path,
) -> None:
    cast = Cast(main=[gives("part"), say("Done.")], part=[say("Part.")])
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        b.config["providers"]["scripted"]["models"]["model-2"] = {}
        session = await b.session(runtime, instructions="Be brief.", model="scripted/model-2")
        await ask(session, "main.")
        child = await only_child(runtime, session)
        state, giver = await child.state(), await session.state()
        assert (state.directory, state.project) == (giver.directory, giver.project)
        assert (state.model, state.title) == ("scripted/model-2", "A part of it")
        assert state.instructions == f"Be brief.\n\n{INSTRUCTIONS}"
        assert state.marker not in {giver.marker, ""}
        assert state.epoch is not None
        assert giver.epoch is not None
        assert (state.epoch.number, state.epoch.reasons) == (1, ("session started",))
        assert INSTRUCTIONS in state.epoch.baseline
        assert INSTRUCTIONS not in giver.epoch.baseline
        (created,) = of_type(await log_of(child), ev.SessionCreated)
        (started,) = of_type(await log_of(session), ev.ToolStarted)
        assert (created.parent, created.call) == (session.id, started.call)


async def test_a_task_uses_the_model_of_its_step_whatever_the_session_was_switched_to(
    tmp_path: Path,
) -> None:
    gate = anyio.Event()
    cast = Cast(main=[hold(gate, gives("part")), say("Done.")], part=[say("Part.")])
    async with bench(tmp_path, cast) as b:
        b.config["providers"]["scripted"]["models"]["model-2"] = {}
        async with b.runtime() as runtime:
            session = await begun(b, runtime, 1)
            await session.switch_model("scripted/model-2")
            gate.set()
            await session.wait()
            cast.asked["main"].pop()  # of another model, and so of another epoch
            assert (await (await only_child(runtime, session)).row()).model == "scripted/model-1"


async def test_the_tasks_of_one_step_are_worked_on_side_by_side(tmp_path: Path) -> None:
    both = anyio.Event()
    cast = Cast(
        main=[gives("left", "right"), say("Done.")],
        left=[hold(both, say("Left is done."))],
        right=[hold(both, say("Right is done."))],
    )
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await begun(b, runtime, 3)
        both.set()
        await session.wait()
        items = (await session.state()).items
        words = [item.output for item in items if isinstance(item, ResultItem)]
        assert [each.partition("\n")[0] for each in words] == ["Left is done.", "Right is done."]
        assert len({row.id for row in await session.children()}) == 2


async def test_no_more_than_eight_tasks_are_worked_on_at_a_time(tmp_path: Path) -> None:
    names = [f"part{number}" for number in range(10)]
    held = anyio.Event()
    parts: dict[str, list[Reply]] = {name: [hold(held, say("Done."))] for name in names}
    cast = Cast(main=[gives(*names), say("All done.")], **parts)
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await begun(b, runtime, 9)
        assert len(await session.children()) == 8
        held.set()
        await session.wait()
        assert len(await session.children()) == 10
        assert {outcome for outcome, _ in results(await log_of(session))} == {"completed"}


async def test_a_task_is_not_offered_the_tool_and_cannot_use_it(tmp_path: Path) -> None:
    cast = Cast(
        main=[gives("part"), say("Done.")],
        part=[gives("deeper"), say("I did it myself.")],
        deeper=[],
    )
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        child = await only_child(runtime, session)
        ((outcome, words),) = results(await log_of(child))
        assert outcome == "failed"
        assert "there is no tool named 'task'" in words
        assert await child.children() == []
        offered = {tool["function"]["name"] for tool in cast.asked["main"][0].json["tools"]}
        inside = {tool["function"]["name"] for tool in cast.asked["part"][0].json["tools"]}
        assert offered - inside == {"task"}


async def test_a_long_result_is_cut_like_every_output_and_kept_whole_in_a_file(
    tmp_path: Path,
) -> None:
    long = "\n".join(f"line {number}" for number in range(5000))
    cast = Cast(main=[gives("part"), say("Done.")], part=[say(long)])
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        (settled,) = of_type(await log_of(session), ev.ToolSettled)
        child = await only_child(runtime, session)
        assert settled.output.endswith(f"\n(the task was session {child.id})")
        assert len(settled.output.splitlines()) < 2010
        assert Path(settled.file).read_text() == long


async def test_the_calls_of_a_task_are_shown_live_with_the_call_that_gave_it(
    tmp_path: Path,
) -> None:
    cast = Cast(
        main=[gives("part"), say("Done.")],
        part=[
            calls(("list", {"path": "."}), ("glob", {"pattern": "*.\x1b[31m"})),
            say("Part."),
        ],
    )
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        records = await ask(await b.session(runtime), "main.")
        shown = of_type(records, ev.ToolProgress)
        (started,) = of_type(records, ev.ToolStarted)
        assert {each.call for each in shown} == {started.call}
        assert sorted(each.text.partition(":")[0] for each in shown) == ["glob", "list"]
        assert all(each.text.endswith("\n") and "\x1b" not in each.text for each in shown)


async def test_a_question_about_a_call_of_a_task_names_the_session_of_the_task(
    tmp_path: Path,
) -> None:
    asked: list[PermissionRequest] = []

    async def allow(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request)
        return PermissionAnswer(True)

    cast = Cast(
        main=[gives("part"), say("Done.")],
        part=[call("write", {"path": "a.txt", "content": "a"}), say("Part.")],
    )
    async with bench(tmp_path, cast) as b, b.runtime(ask=allow) as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        child = await only_child(runtime, session)
        assert [(each.session, each.tool) for each in asked] == [(child.id, "write")]
        assert (b.project / "a.txt").read_text() == "a"


async def test_a_call_id_that_comes_again_gives_another_task(tmp_path: Path) -> None:
    cast = Cast(
        main=[numbered("first"), numbered("second"), say("Done.")],
        first=[say("First.")],
        second=[say("Second.")],
    )
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        words = [output.partition("\n")[0] for _, output in results(await log_of(session))]
        assert words == ["First.", "Second."]
        expected = {task_session(session.id, step, "call_1") for step in (1, 2)}
        assert {row.id for row in await session.children()} == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"description": "A part", "prompt": ""}, "length >= 1"),
        ({"description": "A part", "prompt": " \n\t"}, "the prompt of the task is empty"),
        ({"description": "", "prompt": "part."}, "length >= 1"),
        ({"prompt": "part."}, "missing required field `description`"),
        ({"description": "A part", "prompt": ["part."]}, "Expected `str`"),
        ({"description": "A part", "prompt": "part.", "model": "best"}, "unknown field `model`"),
    ],
)
async def test_arguments_that_are_no_task_begin_no_session(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    cast = Cast(main=[call("task", arguments), say("I see.")])
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        ((outcome, output),) = results(await ask(session, "main."))
        assert outcome == "failed"
        assert words in output
        assert await session.children() == []


@pytest.mark.parametrize(
    ("description", "title"),
    [
        ("Look\x1b[31m red\x00", "Look\\x1b[31m red\ufffd"),
        ("two\nlines  and\ttabs", "two lines and tabs"),
        ("x" * 5_000, "x" * 60),
        ("\n \n", "part. It has\\u202e more.\ufffd"),
    ],
)
async def test_a_description_becomes_one_printable_line(
    tmp_path: Path, description: str, title: str
) -> None:
    prompt = "part. It has\u202e more.\x00"
    arguments = {"description": description, "prompt": prompt}
    cast = Cast(main=[call("task", arguments), say("Done.")], part=[say("Part.")])
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        child = await only_child(runtime, session)
        assert (await child.row()).title == title
        (admitted,) = of_type(await log_of(child), ev.PromptAdmitted)
        assert admitted.text == prompt.replace("\x00", "\ufffd")


async def test_a_session_that_has_the_id_of_a_task_already_is_left_alone(tmp_path: Path) -> None:
    gate = anyio.Event()
    cast = Cast(main=[hold(gate, numbered("part")), say("I see.")], part=[say("Never.")])
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await begun(b, runtime, 1)
        taken = task_session(session.id, 1, "call_1")
        created = ev.SessionCreated("/", "/", "a/b", "word", parent=session.id, call="call_1")
        async with await open_sqlite(b.store, clock=SystemClock()) as store:
            admitted = ev.PromptAdmitted(derived_id("prompt", taken), "Something else.")
            await store.create(taken, [created, admitted])
        gate.set()
        await session.wait()
        ((outcome, output),) = results(await log_of(session))
        assert outcome == "failed"
        assert f"session {taken} is there already and has another task" in output
        assert len(await log_of(await runtime.session(taken))) == 2


def test_derived_ids_are_like_others_and_differ_with_every_part() -> None:
    ids = {
        derived_id("task", "ab", "c"),
        derived_id("task", "a", "bc"),
        derived_id("task", "abc", ""),
        derived_id("prompt", "ab", "c"),
        derived_id("task", "ab", "\ud800"),
    }
    assert len(ids) == 5
    assert derived_id("task", "ab", "c") == "wr57exbngjbhhmry"
    assert {len(each) for each in ids} == {16}
    assert set("".join(ids)) <= set("0123456789abcdefghjkmnpqrstvwxyz")
