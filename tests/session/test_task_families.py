"""Tasks and the session that gave them, when one of them is copied, carried, cut or deleted."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from perdure import LeaseLost
from perdure.history import events as ev
from perdure.session.delegation import task_session
from perdure.testing import call, hold, keeps_prefix, say
from tests.exchange.exchange_support import other_machine
from tests.session.support import ask, log_of, of_type
from tests.session.tasks import Cast, begun, bench, gives, numbered, only_child, results

pytestmark = pytest.mark.anyio


async def test_a_session_names_its_tasks_oldest_first(tmp_path: Path) -> None:
    cast = Cast(
        main=[gives("first"), gives("second"), say("Done.")],
        first=[say("First.")],
        second=[say("Second.")],
    )
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session, other = await b.session(runtime), await b.session(runtime)
        await ask(session, "main.")
        children = await session.children()
        assert [row.parent for row in children] == [session.id, session.id]
        first = await (await runtime.session(children[0].id)).messages()
        assert "first." in str(first[0])
        assert await other.children() == []
        assert {row.id: row.parent for row in await runtime.sessions()} == {
            session.id: "",
            other.id: "",
            **{row.id: session.id for row in children},
        }


async def test_a_fork_has_none_of_the_tasks_and_gives_its_own(tmp_path: Path) -> None:
    cast = Cast(
        main=[numbered("part"), say("Done."), numbered("part"), say("Done again.")],
        part=[say("Part."), say("Another part.")],
    )
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        child = await only_child(runtime, session)
        copy = await session.fork((await session.messages())[0].seq)
        assert await copy.children() == []
        for requests in cast.asked.values():
            requests.clear()  # each session keeps a prefix of its own
        await ask(copy, "main.")
        other = await only_child(runtime, copy)
        assert other.id != child.id
        assert other.id == task_session(copy.id, 1, "call_1")
        assert results(await log_of(copy))[0][1].startswith("Another part.")


async def test_a_fork_of_a_task_belongs_to_nobody_and_keeps_its_requests(tmp_path: Path) -> None:
    cast = Cast(main=[gives("part"), say("Done.")], part=[say("Part."), say("More.")])
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        child = await only_child(runtime, session)
        copy = await child.fork()
        assert (await copy.row()).parent == ""
        assert len(await session.children()) == 1
        records = await ask(copy, "More?")
        assert of_type(records, ev.EpochStarted) == []
        first, again = cast.asked["part"]
        assert keeps_prefix(first.json, again.json)
        await runtime.delete_session(session.id)
        assert [row.id for row in await runtime.sessions()] == [copy.id]


async def test_a_task_stays_when_the_history_that_called_for_it_is_cut_off(tmp_path: Path) -> None:
    cast = Cast(
        main=[say("Hello."), numbered("first"), say("Done."), numbered("second"), say("Done.")],
        first=[say("First.")],
        second=[say("Second.")],
    )
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        hello = (await session.messages())[-1].seq
        await ask(session, "Have it done.")
        await session.revert(hello)
        assert len(await session.children()) == 1
        cast.asked["main"].clear()
        records = await ask(session, "Have something else done.")
        assert results(records)[0][1].startswith("Second.")
        assert len(await session.children()) == 2


async def test_a_session_is_deleted_with_its_tasks_and_their_outputs(tmp_path: Path) -> None:
    cast = Cast(
        main=[gives("part"), say("Done.")],
        part=[call("shell", {"command": "seq 5000"}), say("Part.")],
    )
    async with bench(tmp_path, cast) as b, b.runtime(allow_all=True) as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        child = await only_child(runtime, session)
        (settled,) = of_type(await log_of(child), ev.ToolSettled)
        assert Path(settled.file).exists()
        await runtime.delete_session(session.id)
        assert await runtime.sessions() == []
        assert not Path(settled.file).parent.exists()


async def test_nothing_is_deleted_while_a_task_is_worked_on(tmp_path: Path) -> None:
    gate = anyio.Event()
    cast = Cast(main=[gives("part"), say("Done.")], part=[say("Part."), hold(gate, say("More."))])
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        child = await only_child(runtime, session)
        await child.prompt("More?")
        await b.provider.received(4)
        with pytest.raises(LeaseLost, match=f"session {child.id} is being run by"):
            await runtime.delete_session(session.id)
        gate.set()
        await child.wait()
        assert len(await runtime.sessions()) == 2


async def test_a_task_alone_can_be_deleted(tmp_path: Path) -> None:
    cast = Cast(main=[gives("part"), say("Done."), say("On.")], part=[say("Part.")])
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        await runtime.delete_session((await only_child(runtime, session)).id)
        assert await session.children() == []
        await ask(session, "And on.")


async def test_an_export_holds_the_session_alone_and_its_tasks_can_follow(tmp_path: Path) -> None:
    cast = Cast(main=[gives("part"), say("Done.")], part=[say("Part.")])
    async with bench(tmp_path, cast) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "main.")
            child = await only_child(runtime, session)
            whole = await session.export(tmp_path / "whole.jsonl")
            part = await child.export(tmp_path / "part.jsonl")
        async with other_machine(b, tmp_path / "other").runtime() as runtime:
            imported = await runtime.import_session(part)
            assert (await imported.row()).parent == session.id
            await runtime.import_session(whole)
            again = await runtime.session(session.id)
            assert [row.id for row in await again.children()] == [child.id]


async def test_a_task_that_ran_when_its_session_was_exported_is_begun_anew_elsewhere(
    tmp_path: Path,
) -> None:
    cast = Cast(
        main=[gives("part"), say("Done."), say("Done there.")],
        part=[hold(anyio.Event(), say("Never.")), say("Part, done there.")],
    )
    async with bench(tmp_path, cast) as b:
        async with b.runtime() as runtime:
            session = await begun(b, runtime, 2)
            whole = await session.export(tmp_path / "whole.jsonl")
            child = await only_child(runtime, session)
        async with other_machine(b, tmp_path / "other").runtime() as runtime:
            imported = await runtime.import_session(whole)
            assert await runtime.recover() == [imported.id]
            await imported.wait()
            ((outcome, output),) = results(await log_of(imported))
            assert (outcome, output.partition("\n")[0]) == ("completed", "Part, done there.")
            assert [row.id for row in await imported.children()] == [child.id]


async def test_a_task_of_an_older_history_with_other_words_is_not_taken_for_this_one(
    tmp_path: Path,
) -> None:
    cast = Cast(
        main=[say("Hello."), numbered("first"), say("Done."), numbered("second"), say("Done.")],
        first=[say("First.")],
        second=[],
    )
    async with bench(tmp_path, cast) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "main.")
        early = await session.export(tmp_path / "early.jsonl")
        await ask(session, "Have it done.")
        part = await (await only_child(runtime, session)).export(tmp_path / "part.jsonl")
        await runtime.delete_session(session.id)
        session = await runtime.import_session(early)
        await runtime.import_session(part)
        cast.asked["main"].clear()
        ((outcome, output),) = results(await ask(session, "Have something else done."))
        assert outcome == "failed"
        assert "is there already and has another task" in output
