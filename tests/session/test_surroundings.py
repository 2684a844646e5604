"""Surroundings that turn against a session: each ends in a bounded, typed outcome, and goes on."""

from __future__ import annotations

import os
import resource
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, aclosing, contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from perdure import Runtime, Session, Tool, ToolContext
from perdure.errors import StoreError, StoreFull, StoreReadOnly
from perdure.history import events as ev
from perdure.history.content import Text
from perdure.history.items import AssistantItem, UserItem
from perdure.session.attempts import RetryPolicy
from perdure.session.feed import Feed
from perdure.session.reading import AnyRecord
from perdure.store.sqlite import open_sqlite
from perdure.testing import FakeClock, ReceivedRequest, call, error, hold, say, trickle
from tests.session.support import Bench, ask, bench, log_of, of_type, told
from tests.session.worker import EffectArguments
from tests.store.store_support import unprivileged_directory

pytestmark = pytest.mark.anyio

MANY = 10_000
EFFECT = call("effect", {"name": "x"})


@contextmanager
def limited(what: int, most: int) -> Generator[None]:
    """Lower a limit that the system sets to this process."""
    before = resource.getrlimit(what)
    resource.setrlimit(what, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)


@contextmanager
def no_more_files() -> Generator[None]:
    """Let this process open nothing more."""
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    with limited(resource.RLIMIT_NOFILE, free):
        yield


def full_disk(b: Bench) -> Any:
    """Let no file grow beyond what the log of the database has now."""
    size = b.store.with_name(f"{b.store.name}-wal").stat().st_size
    return limited(resource.RLIMIT_FSIZE, size)


def effect(effects: list[str]) -> Tool[EffectArguments]:
    """Return a tool that writes down its effects."""

    async def run(arguments: EffectArguments, context: ToolContext) -> str:
        effects.append(arguments.name)
        return "done"

    return Tool(name="effect", description="Work.", arguments=EffectArguments, run=run)


def outcomes(records: list[AnyRecord]) -> list[str]:
    return [event.outcome for event in of_type(records, ev.StepFinished)]


async def test_a_prompt_whose_answer_finds_a_full_disk_is_answered_when_there_is_space(
    tmp_path: Path,
) -> None:
    answer = anyio.Event()
    async with bench(tmp_path, [say("x"), hold(answer, say("lost " * 200_000)), say("ok")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "zero")
            await session.prompt("one")
            await b.provider.received(2)
            with full_disk(b):
                answer.set()
                with pytest.raises(StoreFull), anyio.fail_after(60):
                    await session.wait()
                with pytest.raises(StoreFull):
                    await session.prompt("too much " * 100_000)
            records = await ask(session, "two")
        assert outcomes(records)[-1] == "completed"
        assert b"one" in b.provider.requests[2].body
        assert b"too much" not in b.provider.requests[2].body


async def test_a_disk_that_fills_while_a_tool_runs_causes_no_second_effect(tmp_path: Path) -> None:
    effects: list[str] = []
    started, go_on = anyio.Event(), anyio.Event()

    async def run(arguments: EffectArguments, context: ToolContext) -> str:
        effects.append(arguments.name)
        started.set()
        await go_on.wait()
        return "done " * 200_000

    tool = Tool(name="effect", description="Work.", arguments=EffectArguments, run=run)
    async with bench(tmp_path, [EFFECT, say("I look first.")]) as b:
        allowed = {"permissions": {"effect": "allow"}}
        async with b.runtime(tools=[tool], config=allowed) as runtime:
            session = await b.session(runtime)
            await session.prompt("one")
            await started.wait()
            with full_disk(b):
                go_on.set()
                with pytest.raises(StoreFull), anyio.fail_after(60):
                    await session.wait()
            records = await ask(session, "two")
        (settled,) = of_type(await whole_log(b, session), ev.ToolSettled)
    assert settled.outcome == "unknown"
    assert effects == ["x"]
    assert outcomes(records)[-1] == "completed"


async def whole_log(b: Bench, session: Session) -> list[ev.Record]:
    async with b.runtime() as runtime:
        return await log_of(await runtime.session(session.id))


async def test_a_runtime_in_a_directory_that_cannot_be_written_is_refused_by_name() -> None:
    with unprivileged_directory() as directory:
        directory.chmod(0o500)
        with pytest.raises(StoreReadOnly, match=str(directory)):
            async with Runtime.open(directory / "sessions.db"):
                pass
        directory.chmod(0o700)


async def test_a_database_that_is_removed_while_a_step_runs_ends_the_waiting(
    tmp_path: Path,
) -> None:
    answer = anyio.Event()
    async with bench(tmp_path, [hold(answer, say("lost"))]) as b:
        with anyio.fail_after(60):
            async with b.runtime() as runtime:
                session = await b.session(runtime)
                await session.prompt("one")
                await b.provider.received(1)
                b.store.unlink()
                answer.set()
                with pytest.raises(StoreError, match="was removed or replaced"):
                    await session.wait()
                with pytest.raises(StoreError, match="was removed or replaced"):
                    await session.prompt("two")


async def test_a_clock_that_is_set_back_a_day_changes_nothing_but_the_times(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with bench(tmp_path, [say("a"), error(503), say("b")]) as b:
        async with b.runtime(clock=clock, retry=RetryPolicy(base=8.0)) as runtime:
            session = await b.session(runtime)
            await ask(session, "one")
            clock.set(clock.now() - timedelta(days=1))
            slept = len(clock.slept)
            records = await ask(session, "two")
            log = await log_of(session)
        assert outcomes(records) == ["completed"]
        assert [record.seq for record in log] == list(range(1, len(log) + 1))
        assert log[-1].time < log[0].time
        assert all(wait <= 8.0 for wait in clock.slept[slept:])
        async with b.runtime(clock=clock) as runtime:
            again = await runtime.session(session.id)
            assert [item.text for item in await again.messages() if isinstance(item, UserItem)] == [
                "one",
                "two",
            ]


@pytest.mark.parametrize(
    ("bound", "name"), [("silence_timeout", "SilentStream"), ("attempt_timeout", "SlowStream")]
)
async def test_a_provider_that_drips_for_ever_fails_the_step_and_not_the_session(
    tmp_path: Path, bound: str, name: str
) -> None:
    # A byte in a while is no word for longer than the silence; words come again and again else.
    seconds = 0.05 if bound == "silence_timeout" else 0.002
    drip = trickle(say("word " * 200), seconds=seconds)
    async with bench(tmp_path, [drip, drip, say("b")]) as b:
        b.config["providers"]["scripted"][bound] = 0.5
        async with b.runtime(retry=RetryPolicy(attempts=2, base=0.001)) as runtime:
            session = await b.session(runtime)
            failed = await ask(session, "one")
            records = await ask(session, "two")
        assert [event.failure.error for event in of_type(failed, ev.AttemptFailed)] == [name, name]
        assert outcomes(failed) == ["failed"]
        assert outcomes(records) == ["completed"]
        assert b"one" in b.provider.requests[2].body


async def test_what_a_reader_has_not_read_is_bounded() -> None:
    feed = Feed()
    with feed.reader("s1") as slow, feed.reader("s1") as quick:
        got = 0
        for seq in range(1, MANY + 1):
            feed.publish("s1", [ev.Record(seq, 0, ev.Note("x"))])
            got += len(quick.take())
        assert got == MANY
        assert len(slow.take()) < MANY / 5


async def test_fragments_that_come_at_once_wake_their_reader_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Long enough that they come at once on a busy machine, too.
    monkeypatch.setattr("perdure.session.feed._TOGETHER", 0.5)
    feed = Feed()
    with feed.reader("s1") as reader:
        heard: list[object] = []
        wakes: list[bool] = []

        async def follow() -> None:
            while len(heard) < len(shown):
                wakes.append(await reader.wait())
                heard.extend(reader.take())
            group.cancel_scope.cancel()

        shown = [ev.LiveRecord(7, ev.TextDelta(1, str(number))) for number in range(500)]
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(feed.run)
                group.start_soon(follow)
                for fragment in shown:
                    feed.show("s1", fragment)
                    await anyio.lowlevel.checkpoint()
    assert heard == shown
    assert len(wakes) < len(shown) / 5


async def test_a_reader_to_whom_much_comes_at_once_is_woken_before_any_is_dropped() -> None:
    feed = Feed()  # whose clock does not run, so nothing is handed over later
    heard: list[object] = []
    with feed.reader("s1") as reader:
        shown = [ev.LiveRecord(7, ev.TextDelta(1, str(number))) for number in range(MANY)]

        async def show() -> None:
            for number, fragment in enumerate(shown):
                feed.show("s1", fragment)
                if number % 500 == 0:  # as many as one read of the socket may bring
                    await anyio.lowlevel.checkpoint()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(show)
                while len(heard) < len(shown) * 0.9:
                    await reader.wait()
                    heard.extend(reader.take())
    assert heard == shown[: len(heard)]


async def test_a_fragment_that_comes_alone_is_handed_over_at_once() -> None:
    feed = Feed()  # whose clock does not run, so nothing is handed over later
    with feed.reader("s1") as reader:
        for time in (0, 20, 40):
            feed.show("s1", ev.LiveRecord(time, ev.TextDelta(1, "a")))
            with anyio.fail_after(60):
                assert await reader.wait()
            assert len(reader.take()) == 1


async def test_a_reader_that_does_not_read_disturbs_nobody_and_misses_nothing(
    tmp_path: Path,
) -> None:
    async def rename(session: Session, numbers: Any) -> None:
        for number in numbers:
            await session.rename(f"title {number}")

    async with bench(tmp_path, [say("a")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            async with aclosing(session.events()) as slow:
                assert (await anext(slow)).seq == 1
                async with anyio.create_task_group() as group:
                    for _ in range(100):
                        group.start_soon(rename, session, range(MANY // 100))
                assert outcomes(await ask(session, "one")) == ["completed"]
                last = (await session.state()).last_seq
                rest = [await anext_durable(slow) for _ in range(last - 1)]
    assert last > MANY
    assert rest == list(range(2, last + 1))


async def anext_durable(records: AsyncGenerator[AnyRecord]) -> int:
    while (seq := (await anext(records)).seq) is None:
        pass
    return seq


def long_log(b: Bench, messages: int) -> list[ev.Record]:
    """Return the log of a session of so many prompts and answers."""
    directory, model = str(b.project), str(b.config["model"])
    shape = ev.RequestShape("openai-chat", "model-1", "wrapped", 4096)
    events: list[ev.Event] = [ev.SessionCreated(directory, directory, model, "word")]
    events.append(ev.EpochStarted(1, ("session started",), model, "Facts.", {}, (), 1))
    for number in range(1, messages // 2 + 1):
        events += [
            ev.PromptAdmitted(f"p{number}", f"question {number}"),
            ev.PromptPromoted(f"p{number}"),
            ev.StepStarted(number, 1, model, shape, 2 * number - 1, "0" * 32, True),
            ev.AssistantMessage(number, (Text(f"answer {number}"),), "end"),
            ev.StepFinished(number, "completed"),
        ]
    return [ev.Record(seq, 1_790_000_000_000 + seq, each) for seq, each in enumerate(events, 1)]


async def test_a_session_of_five_thousand_messages_goes_on(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("the newest answer"), say("and one more")]) as b:
        b.config["providers"]["scripted"]["models"]["model-1"]["context_window"] = 1_000_000
        async with await open_sqlite(b.store, clock=FakeClock()) as store:
            await store.restore("long", long_log(b, 5000))
        async with b.runtime() as runtime:
            session = await runtime.session("long")
            assert outcomes(await ask(session, "a new question")) == ["completed"]
            assert outcomes(await ask(session, "and another")) == ["completed"]
            assert await session.request() == b.provider.requests[1].body
            messages = await session.messages()
        first, second = (request.body for request in b.provider.requests)
        assert all(f"question {number}".encode() in first for number in (1, 1250, 2500))
        assert b"the newest answer" in second
        said = [item for item in messages if isinstance(item, UserItem | AssistantItem)]
        assert len(said) == 5004


async def test_sixty_four_sessions_with_tools_work_at_once(tmp_path: Path) -> None:
    together, effects, waiting = 64, list[str](), count(1)
    all_there = anyio.Event()

    def script(request: ReceivedRequest, _number: int) -> Any:
        if any(message["role"] == "tool" for message in request.json["messages"]):
            return say("done")
        if next(waiting) == together:
            all_there.set()
        return hold(all_there, EFFECT)

    async def work(runtime: Runtime, b: Bench) -> None:
        records = await ask(await b.session(runtime), "work")
        assert outcomes(records) == ["completed", "completed"]
        assert [event.outcome for event in of_type(records, ev.ToolSettled)] == ["completed"]

    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "the requests are of many sessions"
        allowed = {"permissions": {"effect": "allow"}}
        with anyio.fail_after(60):
            async with b.runtime(tools=[effect(effects)], config=allowed) as runtime:
                async with anyio.create_task_group() as group:
                    for _ in range(together):
                        group.start_soon(work, runtime, b)
    assert effects == ["x"] * together


async def test_a_store_that_may_open_no_more_files_is_refused_and_opens_when_it_may(
    tmp_path: Path,
) -> None:
    path = tmp_path / "sessions.db"
    with no_more_files(), pytest.raises(StoreError, match=str(path)):
        async with Runtime.open(path):
            pass
    async with Runtime.open(path) as runtime:
        assert await runtime.sessions() == []


async def test_a_step_that_may_open_no_more_files_goes_on_with_what_it_has(tmp_path: Path) -> None:
    async def run(arguments: EffectArguments, context: ToolContext) -> str:
        scarcity.enter_context(no_more_files())
        return "no more files from now on"

    tool = Tool(name="effect", description="Work.", arguments=EffectArguments, run=run)
    read = call("read", {"path": "AGENTS.md"})
    async with bench(tmp_path, [EFFECT, read, say("I wait."), read, say("I see.")]) as b:
        (b.project / "AGENTS.md").write_text("Be short.")
        allowed = {"permissions": {"effect": "allow"}}
        async with b.runtime(tools=[tool], config=allowed) as runtime:
            session = await b.session(runtime)
            with ExitStack() as scarcity:
                scarce = await ask(session, "one")
            records = await ask(session, "two")
    _, refused = of_type(scarce, ev.ToolSettled)
    assert (refused.outcome, "Too many open files" in refused.output) == ("failed", True)
    assert told(scarce) == [], "a file that cannot be read now is not gone"
    assert outcomes(scarce)[-1] == "completed"
    (settled,) = of_type(records, ev.ToolSettled)
    assert settled.outcome == "completed"
