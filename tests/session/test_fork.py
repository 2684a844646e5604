"""A fork is what the session was at a message, and is served from the same provider cache."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from perdure import StoreError, Tool, ToolContext, UsageError
from perdure.exchange import output_names
from perdure.history import events as ev
from perdure.history.content import Text, ToolCall
from perdure.history.items import AssistantItem, Item, SummaryItem, UserItem
from perdure.history.state import fold
from perdure.session.fork import forked
from perdure.testing import ReceivedRequest, Reply, call, calls, hold, keeps_prefix, say
from perdure.testing.provider import ProtocolName
from tests.session.support import ask, bench, log_of, of_type

pytestmark = pytest.mark.anyio

PROTOCOLS: tuple[ProtocolName, ...] = ("openai-chat", "anthropic")
BRANCHES = "two sessions take turns"


def cut_of(records: Sequence[ev.Record]) -> int:
    """Return where a fork was cut off from its origin."""
    event = records[-1].data
    assert isinstance(event, ev.SessionForked)
    return event.at


def copy_of(events: Sequence[ev.Event], at: int | str | None = None) -> list[ev.Record]:
    """Fork a log that is made of these events."""
    ids = count(1)
    records = [ev.Record(seq, seq * 10, event) for seq, event in enumerate(events, 1)]
    return forked("origin", records, at, new_id=lambda: f"new{next(ids)}", time=999)


CREATED = ev.SessionCreated("/d", "/d", "p/m", "marker")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_fork_begins_with_the_request_that_the_provider_has_cached(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    script = [call("list", {"path": "."}), say("one"), say("left behind"), say("two")]
    async with bench(tmp_path, script, protocol) as b:
        b.prefix_may_break = BRANCHES
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            cut = (await session.messages())[-1].seq
            await ask(session, "second")
            copy = await session.fork(cut)
            assert await copy.request() == await session.request(2)
            assert (await copy.state()).frame("m").session == session.id
            await ask(copy, "another second")
        second, third = b.provider.requests[1], b.provider.requests[3]
        assert keeps_prefix(second, third)
        assert b"another second" in third.body
        assert b"left behind" not in third.body


async def test_a_fork_is_an_idle_session_of_its_own(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one")]) as b, b.runtime() as runtime:
        session = await b.session(runtime, title="Work")
        before = [*await ask(session, "first")]
        copy = await session.fork()
        assert copy.id != session.id
        assert [row.id for row in await runtime.sessions()] == [copy.id, session.id]
        assert texts(await copy.messages()) == ["first", "one"]
        assert (await copy.state()).title == "Work"
        records = await log_of(copy)
        assert [each.time for each in records[1:-1]] == [
            each.time for each in before if isinstance(each, ev.Record)
        ]
        assert records[-1].data == ev.SessionForked(session.id, len(records) - 1)
        await runtime.delete_session(session.id)
        assert texts(await copy.messages()) == ["first", "one"]


async def test_a_fork_that_ends_with_a_prompt_waits_for_the_next_one(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "first")
        copy = await session.fork((await session.messages())[0].seq)
        assert texts(await copy.messages()) == ["first"]
        await copy.wait()
        assert len(b.provider.requests) == 1
        await ask(copy, "instead")
        assert b"instead" in b.provider.requests[1].body


async def test_a_fork_of_a_fork_still_shares_the_cache(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "first")
        again = await (await session.fork()).fork()
        assert (await again.state()).cache == session.id
        await ask(again, "second")


async def test_a_fork_knows_nested_instructions_and_entries_as_of_the_cut(tmp_path: Path) -> None:
    script = [call("read", {"path": "sub/a.txt"}), say("one"), say("two")]
    async with bench(tmp_path, script) as b, b.runtime() as runtime:
        (b.project / "sub").mkdir()
        (b.project / "sub" / "a.txt").write_text("text")
        (b.project / "sub" / "AGENTS.md").write_text("Nested rule.")
        session = await b.session(runtime)
        await session.set_entry("note", "early")
        await ask(session, "first")
        cut = len(await log_of(session))
        await session.set_entry("note", "late")
        copy = await session.fork(cut)
        assert (await copy.state()).entries == {"note": "early"}
        records = await ask(copy, "second")
        assert of_type(records, ev.SystemMessage) == []
        assert b"Nested rule." in b.provider.requests[2].body


async def test_pending_prompts_are_not_copied(tmp_path: Path) -> None:
    async with bench(tmp_path, [hold(anyio.Event()), say("two")]) as b:
        b.prefix_may_break = BRANCHES
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("first")
            await b.provider.received(1)
            await session.prompt("waits", delivery="queue", id="waits")
            copy = await session.fork()
            state = await copy.state()
            assert (state.pending, state.step, texts(state.items)) == ({}, None, ["first"])
            await ask(copy, "goes on")
            await session.interrupt()
        assert b"waits" not in b.provider.requests[1].body


async def test_a_running_step_is_not_copied_and_goes_on(tmp_path: Path) -> None:
    many = calls(call("shell", {"command": "sleep 30"}), call("list", {"path": "."}))
    async with bench(tmp_path, [say("one"), many]) as b:
        b.config["permissions"] = {"shell": "allow"}
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.prompt("second")
            async for record in session.events():
                if isinstance(record.data, ev.ToolSettled):
                    break
            copy = await session.fork()
            assert texts(await copy.messages()) == ["first", "one", "second"]
            assert (await session.state()).step is not None
            await session.interrupt()


def texts(items: Sequence[Item]) -> list[str]:
    """Return what prompts, summaries and answers say."""
    said: list[str] = []
    for item in items:
        if isinstance(item, UserItem | SummaryItem):
            said.append(item.text)
        elif isinstance(item, AssistantItem):
            said += [part.text for part in item.parts if isinstance(part, Text)]
    return said


@pytest.fixture(scope="module")
def batch() -> list[ev.Event]:
    """A log with one step of two calls, between two that have none."""
    shape = ev.RequestShape("openai-chat", "m", "wrapped", 100)

    def started(step: int) -> ev.StepStarted:
        return ev.StepStarted(step, 1, "p/m", shape, 1, "digest")

    both = (ToolCall("a", "list", "{}"), ToolCall("b", "list", "{}"))
    return [
        CREATED,
        ev.PromptAdmitted("first", "first"),
        ev.PromptPromoted("first"),
        ev.EpochStarted(1, ("session started",), "p/m", "Baseline", {}, (), 1),
        started(1),  # 5
        ev.AttemptFailed(1, 1, ev.Failure("BrokenStream", "cut")),
        ev.AssistantMessage(1, both, "tool_calls"),
        ev.ToolStarted(1, "a", "list"),
        ev.ToolSettled(1, "b", "completed", "b"),
        ev.SessionRenamed("in between"),  # 10
        ev.ToolSettled(1, "a", "completed", "a"),
        ev.InstructionsDiscovered("/d", ("/d/sub/AGENTS.md",)),
        ev.StepFinished(1, "completed"),
        started(2),
        ev.AssistantMessage(2, (Text("done"),), "end"),  # 15
        ev.StepFinished(2, "completed"),
        started(3),
    ]


@pytest.mark.parametrize(
    ("at", "cut"),
    [
        *[(at, at) for at in range(1, 5)],
        *[(at, 4) for at in range(5, 11)],
        *[(at, 13) for at in range(11, 15)],
        (15, 16),
        (16, 16),
        (17, 16),
        (None, 16),
        ("first", 3),
    ],
)
def test_a_cut_is_never_inside_a_step(
    batch: list[ev.Event], at: int | str | None, cut: int
) -> None:
    copy = copy_of(batch, at)
    assert cut_of(copy) == cut
    assert [each.seq for each in copy] == list(range(1, len(copy) + 1))
    assert fold("copy", copy).step is None


def test_a_compaction_keeps_the_item_that_stays_after_the_seqs_have_changed() -> None:
    begun = [CREATED, ev.PromptAdmitted("never", "never"), ev.PromptAdmitted("one", "one")]
    stays = [ev.PromptPromoted("one"), ev.PromptAdmitted("two", "two"), ev.PromptPromoted("two")]
    compacted = [ev.CompactionStarted("asked"), ev.CompactionFinished("summary", kept_from=6)]
    copy = copy_of([*begun, *stays, *compacted])
    assert copy[-2].data == ev.CompactionFinished("summary", kept_from=5)
    assert texts(fold("copy", copy).items) == ["summary", "two"]


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        ([ev.CompactionAsked()], []),
        ([ev.CompactionAsked(), ev.CompactionStarted("asked")], []),
        ([ev.CompactionAsked(), ev.SessionRenamed("x")], ["session.renamed"]),
        ([ev.InterruptAsked(7)], []),
        ([ev.PromptAdmitted("p", "p", "queue"), ev.PromptDeliveryChanged("p", "steer")], []),
    ],
)
def test_what_is_under_way_is_not_copied(events: list[ev.Event], kept: list[str]) -> None:
    assert [each.type for each in copy_of([CREATED, *events])[1:-1]] == kept


def test_an_ask_during_a_compaction_that_has_ended_is_not_copied_either() -> None:
    events: list[ev.Event] = [
        CREATED,
        ev.CompactionAsked(),
        ev.CompactionStarted("asked"),
        ev.CompactionAsked(),
        ev.CompactionFailed(ev.Failure("EmptyAnswer", "the summary is empty")),
    ]
    copy = copy_of(events)
    assert [each.type.rpartition(".")[2] for each in copy] == [
        *("created", "asked", "started", "failed", "forked")
    ]
    assert not fold("copy", copy).asked_to_compact


def test_prompts_get_new_ids_and_no_holder() -> None:
    admitted = ev.PromptAdmitted("old", "text", "queue", "somebody")
    changed = ev.PromptDeliveryChanged("old", "steer")
    copy = copy_of([CREATED, admitted, changed, ev.PromptPromoted("old")])
    assert [each.data for each in copy[1:-1]] == [
        ev.PromptAdmitted("new1", "text", "queue"),
        ev.PromptDeliveryChanged("new1", "steer"),
        ev.PromptPromoted("new1"),
    ]


def test_a_withdrawn_prompt_stays_withdrawn() -> None:
    copy = copy_of([CREATED, ev.PromptAdmitted("old", "text"), ev.PromptWithdrawn("old")])
    assert [each.data for each in copy[1:-1]] == [
        ev.PromptAdmitted("new1", "text"),
        ev.PromptWithdrawn("new1"),
    ]


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


async def _count(_arguments: Nothing, _context: ToolContext) -> str:
    return "".join(f"line {number}\n" for number in range(4000))


COUNT = Tool(name="count", description="Count.", arguments=Nothing, run=_count)


@pytest.mark.parametrize("sharing", ["links", "copies"])
async def test_a_fork_reads_stored_outputs_also_when_its_origin_is_gone(
    tmp_path: Path, sharing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sharing == "copies":
        monkeypatch.setattr("os.link", _cannot_link)
    file: list[str] = []

    def script(_request: ReceivedRequest, number: int) -> Reply:
        reading = {"path": file[0] if file else "", "offset": 2000, "limit": 1}
        return {0: call("count"), 2: call("read", reading)}.get(number, say("ok"))

    async with bench(tmp_path, script) as b, b.runtime(tools=[COUNT]) as runtime:
        session = await b.session(runtime)
        (settled,) = of_type(await ask(session, "count"), ev.ToolSettled)
        file.append(settled.file)
        assert settled.file in settled.output
        copy = await session.fork()
        again = await copy.fork()
        await runtime.delete_session(session.id)
        await runtime.delete_session(copy.id)
        assert not Path(settled.file).exists()
        (read,) = of_type(await ask(again, "what is there?"), ev.ToolSettled)
        assert read.output.startswith("2000\tline 1999\n")


def _cannot_link(*_: Any, **__: Any) -> None:
    raise OSError(1, "Operation not permitted")


async def test_an_output_that_is_gone_keeps_nobody_from_forking(tmp_path: Path) -> None:
    async with bench(tmp_path, [call("count"), say("ok")]) as b:
        async with b.runtime(tools=[COUNT]) as runtime:
            session = await b.session(runtime)
            (settled,) = of_type(await ask(session, "count"), ev.ToolSettled)
            Path(settled.file).unlink()
            copy = await session.fork()
        assert not (Path(settled.file).parent.parent / copy.id).exists()


async def test_nothing_is_left_of_a_fork_whose_outputs_cannot_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path, [call("count"), say("ok")]) as b:
        async with b.runtime(tools=[COUNT]) as runtime:
            session = await b.session(runtime)
            (settled,) = of_type(await ask(session, "count"), ev.ToolSettled)
            monkeypatch.setattr("os.link", _cannot_link)
            monkeypatch.setattr("shutil.copy2", _cannot_link)
            with pytest.raises(StoreError, match="cannot be copied"):
                await session.fork()
            assert len(await runtime.sessions()) == 1
        outputs = Path(settled.file).parent.parent
        assert [each.name for each in outputs.iterdir()] == [session.id]


@pytest.mark.parametrize("file", ["", "..", "/a/..", "/", "name/"])
def test_only_names_of_files_are_looked_for(file: str) -> None:
    settled = ev.ToolSettled(1, "a", "completed", "text", file)
    assert output_names([ev.Record(1, 1, settled)]) == set()


@pytest.mark.parametrize("at", [0, -1, 99, "nobody"])
async def test_what_is_no_message_is_named(tmp_path: Path, at: int | str) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        with pytest.raises(UsageError, match=re.escape(str(at))):
            await session.fork(at)
        with pytest.raises(UsageError, match=re.escape(str(at))):
            await session.revert(at)
        assert len(await runtime.sessions()) == 1
        assert len(await log_of(session)) == 1


@pytest.mark.parametrize("at", [True, 1.5, None, b"1"])
async def test_what_cannot_be_a_message_is_refused_by_its_type(tmp_path: Path, at: Any) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        with pytest.raises(UsageError, match=f"not {type(at).__name__}"):
            await session.revert(at)


@pytest.mark.parametrize("withdrawn", [True, False])
async def test_a_prompt_that_is_not_in_the_history_is_no_message(
    tmp_path: Path, withdrawn: bool
) -> None:
    gate = anyio.Event()
    async with bench(tmp_path, [hold(gate, say("one")), say("two")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await session.prompt("first")
        await b.provider.received(1)
        await session.prompt("second", id="mine", delivery="queue")
        if withdrawn:
            await session.withdraw("mine")
        with pytest.raises(UsageError, match="mine .*withdrawn" if withdrawn else "mine .*pending"):
            await session.fork("mine")
        gate.set()
        await session.wait()
