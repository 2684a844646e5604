"""A session that goes to another machine in a file, and goes on there as if nothing had been."""

from __future__ import annotations

import io
from pathlib import Path

import anyio
import msgspec
import pytest

from perdure import Session
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.store.sqlite import open_sqlite
from perdure.testing import call, hold, keeps_prefix, say
from perdure.testing.provider import ProtocolName
from tests.exchange.exchange_support import FLOOD, PROTOCOLS, SCRIPT, lively, other_machine
from tests.session.support import ask, bench, log_of, of_type

pytestmark = pytest.mark.anyio


async def bodies(session: Session) -> list[bytes]:
    steps = of_type(await log_of(session), ev.StepStarted)
    return [await session.request(each.step) for each in steps]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_imported_session_has_the_same_events_and_the_same_requests(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    async with bench(tmp_path, [*SCRIPT, say("Here.")], protocol) as b:
        b.prefix_may_break = "a compaction and a switch"
        there = other_machine(b, tmp_path / "there")
        async with b.runtime(tools=[FLOOD]) as runtime:
            session = await lively(b, runtime)
            file = await session.export(tmp_path / "session.jsonl")
            sent, log = await bodies(session), await log_of(session)
        async with there.runtime(tools=[FLOOD]) as runtime:
            copy = await runtime.import_session(file)
            assert copy.id == session.id
            assert await bodies(copy) == sent
            assert [without_holder(each) for each in log] == await log_of(copy)
            again = await copy.export(tmp_path / "again.jsonl")
            assert again.read_bytes() == file.read_bytes()
            await ask(copy, "Are you there?")
        last, here = b.provider.requests[-2:]
        assert keeps_prefix(last.json, here.json)


def without_holder(record: ev.Record) -> ev.Record:
    if not isinstance(record.data, ev.PromptAdmitted):
        return record
    data = msgspec.structs.replace(record.data, holder="")
    return msgspec.structs.replace(record, data=data)


async def test_forks_and_reverts_go_along(tmp_path: Path) -> None:
    async with bench(tmp_path, [*SCRIPT, say("From here.")]) as b:
        b.prefix_may_break = "a compaction, a switch, a fork and a revert"
        there = other_machine(b, tmp_path / "there")
        async with b.runtime(tools=[FLOOD]) as runtime:
            session = await lively(b, runtime)
            copy = await session.fork()
            answers = [each for each in await log_of(copy) if each.type == "assistant.message"]
            await copy.revert(answers[2].seq)
            await ask(copy, "Once more.")
            file = await copy.export(tmp_path / "session.jsonl")
            sent, items = await bodies(copy), await copy.messages(system=True)
        async with there.runtime() as runtime:
            arrived = await runtime.import_session(file)
            assert await bodies(arrived) == sent
            assert await arrived.messages(system=True) == items


async def test_a_stored_output_is_read_by_the_path_that_the_history_names(tmp_path: Path) -> None:
    script = [call("flood", {}, "flood-1"), say("Much.")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "the tools of the other machine are others"
        there = other_machine(b, tmp_path / "there")
        async with b.runtime(tools=[FLOOD]) as runtime:
            session = await b.session(runtime)
            await ask(session, "Say much.")
            file = await session.export(tmp_path / "session.jsonl")
            (settled,) = of_type(await log_of(session), ev.ToolSettled)
            await runtime.delete_session(session.id)
        assert settled.file in settled.output
        assert not Path(settled.file).exists()
        path = {"path": settled.file, "offset": 1500, "limit": 1}
        script += [call("read", path), say("There it is.")]
        async with there.runtime() as runtime:
            copy = await runtime.import_session(file)
            records = await ask(copy, "What is in the middle?")
            (read,) = of_type(records, ev.ToolSettled)
        kept = there.root / "sessions.db-outputs" / session.id / "flood-1.txt"
        assert "line 1500 " in read.output
        assert kept.stat().st_mode & 0o777 == 0o600


async def test_what_is_under_way_is_settled_and_what_waits_is_answered_there(
    tmp_path: Path,
) -> None:
    answer = anyio.Event()
    script = [hold(answer, say("Never read.")), say("First."), say("Second.")]
    async with bench(tmp_path, script) as b:
        there = other_machine(b, tmp_path / "there")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("One?", hold=True)
            await b.provider.received(1)
            await session.prompt("Two?", id="two", delivery="queue", hold=True)
            file = await session.export(tmp_path / "session.jsonl")
        async with there.runtime() as runtime:
            copy = await runtime.import_session(file)
            (row,) = await runtime.sessions()
            assert (row.outcome, row.pending) == ("open", 1)
            assert (await runtime.standing(row)).status == "interrupted"
            assert await runtime.recover() == [session.id]
            await copy.wait()
            records = await log_of(copy)
        outcomes = [event.outcome for event in of_type(records, ev.StepFinished)]
        assert outcomes == ["crashed", "completed", "completed"]
        assert of_type(records, ev.PromptPromoted)[-1].prompt == "two"


async def test_a_stream_is_as_good_as_a_file(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("Hello.")]) as b:
        there = other_machine(b, tmp_path / "there")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Hi")
            file = await session.export(tmp_path / "session.jsonl")
            streamed = b"".join([block async for block in session.exported()])
        assert streamed == file.read_bytes()
        async with there.runtime() as runtime:
            copy = await runtime.import_session(io.BytesIO(streamed))
            assert [item.text for item in (await copy.messages())[:1]] == ["Hi"]  # pyright: ignore


async def test_a_session_that_never_ran_can_be_carried(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        there = other_machine(b, tmp_path / "there")
        async with b.runtime() as runtime:
            session = await b.session(runtime, title="New")
            file = await session.export(tmp_path / "session.jsonl")
        async with there.runtime() as runtime:
            assert (await (await runtime.import_session(file)).state()).title == "New"
        assert not (there.root / "sessions.db-outputs").exists()


async def test_an_output_that_is_no_text_goes_along_byte_for_byte(tmp_path: Path) -> None:
    async with bench(tmp_path, [call("flood", {}, "flood-1"), say("Much.")]) as b:
        there = other_machine(b, tmp_path / "there")
        name = "flood-1.txt"
        async with b.runtime(tools=[FLOOD]) as runtime:
            session = await b.session(runtime)
            await ask(session, "Say much.")
            kept = b.root / "sessions.db-outputs" / session.id / name
            data = bytes(range(256)) * 5000 + "\u00e4".encode() * 700_000 + b"\xc3"
            kept.write_bytes(data)
            file = await session.export(tmp_path / "session.jsonl")
        async with there.runtime() as runtime:
            await runtime.import_session(file)
        assert (there.root / "sessions.db-outputs" / session.id / name).read_bytes() == data


async def test_an_interrupt_of_the_old_machine_is_none_on_the_new_one(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        there = other_machine(b, tmp_path / "there")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
        async with await open_sqlite(b.store, clock=SystemClock()) as store:
            await store.append(session.id, [ev.InterruptAsked(1)])
        async with b.runtime() as runtime:
            file = await (await runtime.session(session.id)).export(tmp_path / "session.jsonl")
        async with there.runtime() as runtime:
            records = await log_of(await runtime.import_session(file))
        assert records[-1].data == ev.InterruptAsked(0)


async def test_a_drain_forgets_what_it_knew_when_the_session_comes_back_another(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [say("One."), say("Two."), say("Three.")]) as b:
        b.prefix_may_break = "the session goes back to what the file holds"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Alpha?")
            file = await session.export(tmp_path / "session.jsonl")
            await ask(session, "Beta?")
            async with b.runtime() as other:
                await other.delete_session(session.id)
                await other.import_session(file)
            with anyio.fail_after(60):
                await ask(session, "Gamma?")
        sent = b.provider.requests[-1].body
        assert b"Alpha?" in sent
        assert b"Gamma?" in sent
        assert b"Beta?" not in sent
