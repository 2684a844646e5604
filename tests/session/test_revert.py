"""A revert takes the history back to a message, and leaves what is a setting, the log and files."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest

from perdure import ConcurrencyError, Source, StoreDamaged, UsageError
from perdure.clock import RandomIds, SystemClock
from perdure.history import events as ev
from perdure.history.content import Text, ToolCall
from perdure.history.items import SystemItem
from perdure.history.standing import standing
from perdure.history.state import MOVED, SessionState, fold
from perdure.session.owner import new_owner
from perdure.session.revert import reverting
from perdure.store.contract import Guard
from perdure.store.sqlite import open_sqlite
from perdure.testing import call, hold, keeps_prefix, say, think
from perdure.testing.provider import ProtocolName
from tests.session.support import Bench, ask, bench, log_of, of_type, told
from tests.session.test_fork import texts

pytestmark = pytest.mark.anyio

PROTOCOLS: tuple[ProtocolName, ...] = ("openai-chat", "anthropic")
TAKEN_BACK = "a revert"


def flag(value: list[str]) -> Source[str]:
    """A source that holds what the list holds."""

    async def load() -> str:
        return value[0]

    return Source(
        key="demo/flag",
        type=str,
        load=load,
        baseline=lambda value: f"The flag is {value}.",
        update=lambda _, current: f"The flag is now {current}.",
    )


async def check(b: Bench) -> list[str]:
    store = await open_sqlite(b.store, clock=SystemClock())
    try:
        return list(await store.check())
    finally:
        await store.close()


class Watched(SystemClock):
    """The host's clock, which tells that somebody sleeps."""

    def __init__(self) -> None:
        self.slept = 0

    async def sleep(self, seconds: float) -> None:
        self.slept += 1
        await super().sleep(seconds)

    async def looks(self) -> None:
        """Wait until who waits for its turn has looked at the session once more."""
        before = self.slept
        with anyio.fail_after(60):
            while self.slept < before + 2:
                await anyio.sleep(0.01)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_next_request_continues_the_history_that_was_kept(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    script = [
        think("Hm.") + call("list", {"path": "."}, "same"),
        say("one"),
        think("Hm.") + call("list", {"path": "."}, "same"),
        say("left behind"),
        say("instead"),
    ]
    async with bench(tmp_path, script, protocol) as b:
        b.prefix_may_break = TAKEN_BACK
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            last = (await session.messages())[-1].seq
            await ask(session, "second")
            await session.revert(last)
            records = await ask(session, "another second")
            (step,) = of_type(records, ev.StepStarted)
            assert (step.step, step.prefix, step.epoch) == (5, True, 1)
            assert await session.request() == b.provider.requests[4].body
            assert await session.request(4) == b.provider.requests[3].body
        assert keeps_prefix(b.provider.requests[1], b.provider.requests[4])
        assert b"left behind" not in b.provider.requests[4].body
        assert not b.provider.refused
        assert await check(b) == []


async def test_a_revert_is_shown_in_transcripts_and_kept_in_the_log(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "first")
        await ask(session, "second", id="mine")
        before = await log_of(session)
        await session.revert(before[-1].seq - 4)
        records = await log_of(session)
        assert records[: len(before)] == before
        assert records[-1].type == "session.reverted"
        assert texts(await session.messages()) == ["first", "one"]
        (row,) = await runtime.sessions()
        assert (row.outcome, row.owner, row.pending) == ("reverted", "", 0)
        with pytest.raises(UsageError, match=r"no longer in the history.*reverted by event"):
            await session.revert("mine")


async def test_a_revert_starts_nothing_and_files_stay(tmp_path: Path) -> None:
    script = [call("write", {"path": "a.txt", "content": "written"}), say("done")]
    async with bench(tmp_path, script) as b:
        b.config["permissions"] = {"write": "allow"}
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "write", id="mine")
            await session.revert("mine")
            await session.wait()
            assert texts(await session.messages()) == ["write"]
        assert (b.project / "a.txt").read_text() == "written"
        assert len(b.provider.requests) == 2


async def test_what_has_changed_since_is_told_again_exactly_once(tmp_path: Path) -> None:
    value = ["red"]
    async with bench(tmp_path, [say(str(n)) for n in range(5)]) as b:
        b.prefix_may_break = TAKEN_BACK
        async with b.runtime(sources=[flag(value)]) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            first = (await session.messages())[-1].seq
            value[0] = "blue"
            assert told(await ask(session, "second")) == ["The flag is now blue."]
            await session.revert(first)
            view = await session.context()
            assert (view.next, view.next_text) == ("message", "The flag is now blue.")
            assert view.messages == ()
            assert told(await ask(session, "second")) == ["The flag is now blue."]
            assert told(await ask(session, "third")) == []
            await session.revert(first)
            value[0] = "red"
            assert told(await ask(session, "second")) == []
        assert await check(b) == []


async def test_settings_stay_as_they_are_now(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b:
        b.prefix_may_break = TAKEN_BACK
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            cut = (await session.messages())[-1].seq
            await session.rename("Renamed")
            await session.set_entry("note", "late")
            await session.switch_model("scripted/model-2")
            await session.revert(cut)
            state = await session.state()
            assert (state.title, state.entries) == ("Renamed", {"note": "late"})
            assert state.model == "scripted/model-2"
            (epoch,) = of_type(await ask(session, "second"), ev.EpochStarted)
            assert epoch.reasons == ("model switched",)
        assert b.provider.requests[1].json["model"] == "model-2"


async def test_a_move_since_then_makes_the_epoch_due(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two"), say("three")]) as b:
        b.prefix_may_break = TAKEN_BACK
        (b.root / "other").mkdir()
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            cut = (await session.messages())[-1].seq
            await session.move(b.root / "other")
            await ask(session, "second")
            await session.revert(cut)
            assert (await session.state()).due == (MOVED,)
            (epoch,) = of_type(await ask(session, "again"), ev.EpochStarted)
            assert epoch.reasons == (MOVED,)
            assert epoch.epoch == 2
            assert str(b.root / "other") in epoch.baseline


async def test_a_move_away_and_back_makes_nothing_due(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two"), say("three")]) as b:
        b.prefix_may_break = TAKEN_BACK
        (b.root / "other").mkdir()
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            cut = (await session.messages())[-1].seq
            await session.move(b.root / "other")
            await ask(session, "second")
            await session.move(b.project)
            await session.revert(cut)
            assert of_type(await ask(session, "again"), ev.EpochStarted) == []
        assert keeps_prefix(b.provider.requests[0], b.provider.requests[2])


async def test_nested_instructions_are_those_of_the_kept_history(tmp_path: Path) -> None:
    script = [call("read", {"path": "sub/a.txt"}), say("one"), say("two"), say("three")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = TAKEN_BACK
        (b.project / "sub").mkdir()
        (b.project / "sub" / "a.txt").write_text("text")
        (b.project / "sub" / "AGENTS.md").write_text("Nested rule.")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first", id="first")
            await ask(session, "second", id="second")
            await session.revert("second")
            assert len((await session.state()).discovered) == 1
            await session.revert("first")
            assert (await session.state()).discovered == ()
            await ask(session, "again")
        assert b"Nested rule." not in b.provider.requests[3].body


async def test_a_revert_goes_back_across_a_compaction(tmp_path: Path) -> None:
    script = [say("one"), say("two"), say("summary"), say("three"), say("four")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = TAKEN_BACK
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await ask(session, "second")
            cut = (await session.messages())[-1].seq
            assert await session.compact()
            await ask(session, "third")
            await session.revert(cut)
            (step,) = of_type(await ask(session, "fourth"), ev.StepStarted)
            assert (step.epoch, step.prefix) == (1, True)
            view = await session.context()
            assert [epoch.number for epoch in view.epochs] == [1]
        assert keeps_prefix(b.provider.requests[1], b.provider.requests[4])
        assert await check(b) == []


async def test_a_session_goes_back_to_before_its_first_step(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "left behind")
        await session.revert(1)
        assert await session.messages() == []
        records = await ask(session, "second")
        (epoch,) = of_type(records, ev.EpochStarted)
        assert (epoch.epoch, epoch.reasons) == (1, ("session started",))
        b.prefix_may_break = TAKEN_BACK
    assert b"left behind" not in b.provider.requests[1].body


async def test_a_revert_follows_a_fork_and_a_fork_a_revert(tmp_path: Path) -> None:
    script = [say("one"), say("two"), say("three"), say("four")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = TAKEN_BACK
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            cut = (await session.messages())[-1].seq
            await ask(session, "second")
            copy = await session.fork()
            await copy.revert(cut)
            await ask(copy, "third")
            assert texts(await session.messages()) == ["first", "one", "second", "two"]
            again = await copy.fork()
            assert texts(await again.messages()) == ["first", "one", "third", "three"]
            gone = (await session.messages())[-1].seq
            with pytest.raises(UsageError, match=f"fork {copy.id} --at {gone}"):
                await copy.revert(gone)
            back = await copy.fork(gone)
            assert texts(await back.messages()) == ["first", "one", "second", "two"]
            await ask(back, "fourth")
        assert keeps_prefix(b.provider.requests[1], b.provider.requests[3])
        assert await check(b) == []


async def test_a_session_that_is_being_worked_on_is_not_reverted(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), hold(anyio.Event(), say("never"))]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first", id="mine")
            await session.prompt("second")
            await b.provider.received(2)
            with pytest.raises(ConcurrencyError, match="interrupt it first"):
                await session.revert("mine")
            await session.interrupt()
            await session.revert("mine")
            assert texts(await session.messages()) == ["first"]


async def test_a_session_that_another_process_works_on_is_not_reverted(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "first", id="mine")
        store = await open_sqlite(b.store, clock=SystemClock())
        try:
            lease = await store.claim(session.id, new_owner(RandomIds()))
            with pytest.raises(ConcurrencyError, match="is being worked on"):
                await session.revert("mine")
            assert lease is not None
            await store.release(lease)
        finally:
            await store.close()
        await session.revert("mine")


async def test_who_waits_for_its_turn_goes_on_after_a_revert(tmp_path: Path) -> None:
    clock = Watched()
    async with bench(tmp_path, [say("one"), say("two")]) as b, b.runtime(clock=clock) as runtime:
        session = await b.session(runtime)
        await ask(session, "first")
        state = await session.state()
        cut = (await session.messages())[-1].seq + 1
        store = await open_sqlite(b.store, clock=SystemClock())
        try:
            lease = await store.claim(session.id, new_owner(RandomIds()))
            assert lease is not None
            await session.prompt("second", id="second")
            await clock.looks()
            reverted = ev.SessionReverted(cut, state.snapshot)
            guard = Guard(token=lease.token)
            await store.append(session.id, [reverted], guard=guard)
            await clock.looks()
            await store.release(lease)
        finally:
            await store.close()
        await session.wait()
        assert texts(await session.messages()) == ["first", "one", "second", "two"]
        assert await check(b) == []


async def test_what_a_dead_process_left_open_is_settled_by_a_revert(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        records = await ask(session, "first")
        cut = (await session.messages())[-1].seq
        (step,) = of_type(records, ev.StepStarted)
        store = await open_sqlite(b.store, clock=SystemClock())
        called = ev.AssistantMessage(2, (ToolCall("a", "list", "{}"),), "tool_calls")
        again = msgspec.structs.replace(step, step=2)
        await store.append(session.id, [again, called, ev.ToolStarted(2, "a", "list")])
        await store.close()
        await session.revert(cut)
        after = (await log_of(session))[-3:]
        assert [each.type for each in after] == [
            *("tool.settled", "step.finished", "session.reverted")
        ]
        (next_step,) = of_type(await ask(session, "second"), ev.StepStarted)
        assert (next_step.step, next_step.prefix) == (3, True)
        assert await check(b) == []


async def test_a_refused_revert_gives_the_session_free(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        with pytest.raises(UsageError):
            await session.revert(99)
        assert (await runtime.sessions())[0].owner == ""
        await ask(session, "first")


async def test_prompts_that_wait_are_kept(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "first")
        cut = (await session.messages())[-1].seq
        store = await open_sqlite(b.store, clock=SystemClock())
        await store.append(session.id, [ev.PromptAdmitted("later", "later", "steer")])
        await store.close()
        await session.revert(cut)
        assert list((await session.state()).pending) == ["later"]
        await session.wait()
        assert len(b.provider.requests) == 1
        await ask(session, "second")
        assert texts(await session.messages()) == ["first", "one", "later", "second", "two"]


SHAPE = ev.RequestShape("openai-chat", "m", "wrapped", 100)
CRASHED: list[ev.Event] = [
    ev.SessionCreated("/d", "/d", "p/m", "marker"),
    ev.PromptAdmitted("first", "first"),
    ev.PromptPromoted("first"),
    ev.EpochStarted(1, ("session started",), "p/m", "Baseline", {}, (), 1),
    ev.StepStarted(1, 1, "p/m", SHAPE, 1, "digest"),
    ev.AssistantMessage(
        1, (ToolCall("a", "list", "{}"), ToolCall("b", "list", "{}")), "tool_calls"
    ),
    ev.ToolStarted(1, "a", "list"),
    ev.CompactionStarted("overflow"),
]


def records_of(events: list[ev.Event]) -> list[ev.Record]:
    return [ev.Record(seq, seq, event) for seq, event in enumerate(events, 1)]


def test_what_a_crash_left_open_is_settled_and_not_run() -> None:
    *settled, reverted = reverting("s", records_of(CRASHED), "first")
    assert [each.type for each in settled] == [
        *("compaction.failed", "tool.settled", "tool.settled", "step.finished")
    ]
    assert [(each.call, each.outcome) for each in settled if isinstance(each, ev.ToolSettled)] == [
        *(("a", "unknown"), ("b", "not_run"))
    ]
    assert reverted == ev.SessionReverted(3, {})
    state = fold("s", records_of([*CRASHED, *settled, reverted]))
    assert (state.step, state.compacting, state.unread) == (None, False, False)
    assert state.last_seq == state.rebuilt == len(CRASHED) + 5


def test_the_form_of_a_message_is_free_again_where_its_answer_was_taken_back() -> None:
    shape, answer = ev.StepStarted(1, 1, "p/m", SHAPE, 1, "d", forms=("wrapped",)), (Text("ok"),)
    told_at = [*CRASHED[:4], ev.SystemMessage("news", {})]
    step: list[ev.Event] = [shape, ev.AssistantMessage(1, answer, "end")]
    back = [*told_at, *step, ev.StepFinished(1, "completed"), ev.SessionReverted(5, {})]
    free = fold("s", records_of(back)).items[-1]
    assert free == SystemItem(5, "news", None)
    again = msgspec.structs.replace(shape, step=2, forms=("native",))
    bound = fold("s", records_of([*back, again, ev.AssistantMessage(2, answer, "end")])).items
    assert bound[-2] == SystemItem(5, "news", "native")


def test_many_reverts_are_folded_in_one_pass() -> None:
    events: list[ev.Event] = [CRASHED[0]]
    for number in range(1500):
        events += [ev.PromptAdmitted(f"p{number}", "x"), ev.PromptPromoted(f"p{number}")]
        events.append(ev.SessionReverted(len(events) - 2 if number % 2 else 1, {}))
    copies = 0

    class Counted(SessionState):
        def copied(self) -> SessionState:
            nonlocal copies
            copies += 1
            return super().copied()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("perdure.history.state.SessionState", Counted)
        state = fold("s", records_of(events))
    assert copies <= 1500
    assert state.items == []


def test_a_revert_to_what_is_not_before_it_is_damage() -> None:
    with pytest.raises(StoreDamaged, match="a revert to 7"):
        fold("s", records_of([CRASHED[0], ev.SessionReverted(7, {})]))


def test_what_stands_is_what_no_revert_has_taken_out() -> None:
    events = [CRASHED[0], *(ev.Note(str(n)) for n in range(2, 5)), ev.SessionReverted(2, {})]
    events += [ev.Note("6"), ev.Note("7"), ev.SessionReverted(6, {}), ev.Note("9")]
    assert [each.seq for each in standing(records_of(events))] == [1, 2, 5, 6, 8, 9]
    again = [*events, ev.SessionReverted(1, {})]
    assert [each.seq for each in standing(records_of(again))] == [1, 10]


def test_a_prompt_that_was_admitted_before_a_revert_still_stands() -> None:
    events = [CRASHED[0], ev.PromptAdmitted("p", "text"), ev.SessionReverted(1, {})]
    state = fold("s", records_of([*events, ev.PromptPromoted("p")]))
    assert texts(state.items) == ["text"]
    assert len(standing(records_of(events))) == 3
