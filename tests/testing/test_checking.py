"""The checker of histories finds nothing in sound logs, and every break in others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from perdure import Source, Tool, ToolContext
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.store.sqlite import open_sqlite
from perdure.testing import call, calls, check_history, check_store, error, say
from tests.session.support import Bench, ask, bench, log_of

Log = list[ev.Record]


class Work(msgspec.Struct):
    """What to do."""

    name: str


async def _work(arguments: Work, _context: ToolContext) -> str:
    return f"{arguments.name} is done"


WORK = Tool(name="work", description="Work.", arguments=Work, run=_work)


async def _lived(b: Bench) -> dict[str, Log]:
    """Live through everything once; return the logs of the session, of a copy and of a crash."""
    fact = ["old"]
    source = Source(
        key="test/fact",
        type=str,
        load=lambda: fact[0],
        baseline=lambda now: f"The fact is {now}.",
        update=lambda _, now: f"The fact is now {now}.",
    )
    async with b.runtime(tools=[WORK], sources=[source]) as runtime:
        session = await b.session(runtime)
        await ask(session, "First.", id="first")
        fact[0] = "new"
        await ask(session, "Second.", id="second")
        for prompt in ("queued", "later", "never"):
            await session.prompt(prompt, id=prompt, delivery="queue", wake=False)
        await session.withdraw("never")
        await session.prompt("Steer.", id="steer", wake=False)
        await ask(session, "Steer more.", id="more")
        await session.switch_model("scripted/model-2")
        await ask(session, "Another model.", id="other")
        whole = await log_of(session)
        await session.compact()
        await ask(session, "After the summary.", id="summed")
        copy = await session.fork("second")
        await ask(copy, "In the copy.")
        await session.revert("second")
        await ask(session, "Once more.", id="once")
        logs = {"lived": await log_of(session), "copied": await log_of(copy)}
    logs["crashed"] = await _crashed(b, whole)
    return logs


async def _crashed(b: Bench, whole: Log) -> Log:
    """Cut a log where both calls run, go on, and return what became of it."""
    second = [each.seq for each in whole if isinstance(each.data, ev.ToolStarted)][1]
    await b.crash({"crashed": whole[:second]})
    async with b.runtime(tools=[WORK]) as runtime:
        await runtime.recover()
        session = await runtime.session("crashed")
        await session.wait()
        return await log_of(session)


def _answers(request: Any, number: int) -> Any:
    match number:
        case 0:
            return calls(call("work", {"name": "a"}), call("work", {"name": "b"}))
        case 1:
            return error(529)
        case _:
            return say(f"Answer {number}.")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Log]:
    async def live(root: Path) -> dict[str, Log]:
        async with bench(root, _answers) as b:
            b.prefix_may_break = "there are several epochs and sessions"
            b.config["providers"]["scripted"]["models"]["model-2"] = {}
            return await _lived(b)

    return anyio.run(live, tmp_path_factory.mktemp("lived"))


@pytest.mark.parametrize("name", ["lived", "copied", "crashed"])
def test_nothing_is_wrong_with_a_sound_log_wherever_it_ends(
    logs: dict[str, Log], name: str
) -> None:
    log = logs[name]
    assert check_history(log) == []
    for end, record in enumerate(log, 1):
        if not isinstance(record.data, IN_ONE_WRITE):
            assert check_history(log[:end]) == []


IN_ONE_WRITE = (
    ev.PromptPromoted,
    ev.EpochStarted,
    ev.SystemMessage,
    ev.Note,
)
"""Events behind which a log cannot end: what follows them is in the same write."""

FREE = (
    ev.SessionRenamed,
    ev.EntrySet,
    ev.CompactionAsked,
    ev.PromptDeliveryChanged,
    ev.InterruptAsked,
    ev.SessionForked,
)
"""Events that anybody may write at any time, so that nothing shows that one is missing."""


def numbered(events: Sequence[ev.Event]) -> Log:
    """Return a log of these events, numbered anew."""
    return [ev.Record(seq, seq, event) for seq, event in enumerate(events, 1)]


def place(log: Log, kind: type[ev.Event], number: int = 0) -> int:
    """Return the index of an event of a kind: the first, or another one."""
    return [at for at, each in enumerate(log) if isinstance(each.data, kind)][number]


def without(kind: type[ev.Event], number: int = 0) -> Callable[[Log], Log]:
    def mutate(log: Log) -> Log:
        at = place(log, kind, number)
        return numbered([each.data for each in (*log[:at], *log[at + 1 :])])

    return mutate


def doubled(kind: type[ev.Event], number: int = 0) -> Callable[[Log], Log]:
    def mutate(log: Log) -> Log:
        at = place(log, kind, number)
        return numbered([each.data for each in (*log[: at + 1], *log[at:])])

    return mutate


def moved(kind: type[ev.Event], by: int, number: int = 0) -> Callable[[Log], Log]:
    """Let an event of a kind come so many places later, or earlier."""

    def mutate(log: Log) -> Log:
        at = place(log, kind, number)
        events = [each.data for each in log]
        events.insert(at + by, events.pop(at))
        return numbered(events)

    return mutate


def changed(kind: type[ev.Event], number: int = 0, **fields: Any) -> Callable[[Log], Log]:
    def mutate(log: Log) -> Log:
        at = place(log, kind, number)
        events = [each.data for each in log]
        events[at] = msgspec.structs.replace(events[at], **fields)
        return numbered(events)

    return mutate


def inserted(before: type[ev.Event], *new: ev.Event, number: int = 0) -> Callable[[Log], Log]:
    def mutate(log: Log) -> Log:
        at = place(log, before, number)
        return numbered(
            [each.data for each in log[:at]] + [*new] + [each.data for each in log[at:]]
        )

    return mutate


def epoch_before_the_result(log: Log) -> Log:
    epoch = log[place(log, ev.EpochStarted)].data
    return inserted(ev.ToolSettled, epoch)(log)


def unnumbered(log: Log) -> Log:
    return [*log[:5], *log[6:]]


BREAKS: dict[str, tuple[Callable[[Log], Log], str]] = {
    "a gap": (unnumbered, "it stands in the place of event 6"),
    "no beginning": (without(ev.SessionCreated), "a log begins with session.created"),
    "a revert to what is cut off": (
        changed(ev.SessionReverted, to=9_999),
        "which is not in the history",
    ),
    "a second admission": (doubled(ev.PromptAdmitted), "prompt first is admitted a second time"),
    "a second promotion": (doubled(ev.PromptPromoted), "prompt first is promoted and was promoted"),
    "a promotion from nowhere": (
        without(ev.PromptAdmitted),
        "prompt first is promoted and was never admitted",
    ),
    "promoted and withdrawn": (
        inserted(ev.ModelSwitched, ev.PromptWithdrawn("first")),
        "prompt first is withdrawn and was promoted",
    ),
    "another delivery for what is gone": (
        inserted(ev.ModelSwitched, ev.PromptDeliveryChanged("first", "queue")),
        "prompt first changes its delivery and is not pending",
    ),
    "out of turn": (moved(ev.PromptPromoted, 1, 2), "are promoted in another order than they came"),
    "a queued prompt with others": (
        inserted(ev.PromptPromoted, ev.PromptPromoted("queued"), number=2),
        "prompt queued is queued and is not promoted alone",
    ),
    "a later queued prompt": (
        changed(ev.PromptPromoted, 4, prompt="later"),
        "prompt later is promoted before prompt queued, which came first",
    ),
    "a steering prompt left out": (
        without(ev.PromptPromoted, 2),
        "prompt steer steers and is left out of the boundary",
    ),
    "a promotion without a step": (
        without(ev.StepStarted),
        "a boundary begins and assistant.message comes before its step",
    ),
    "the message before the prompt": (
        moved(ev.SystemMessage, -1),
        "a boundary promotes, notes and tells in another order",
    ),
    "two messages": (doubled(ev.SystemMessage), "a boundary tells two System Messages"),
    "a message beside an epoch": (
        inserted(ev.EpochStarted, ev.SystemMessage("told", {})),
        "a boundary starts an epoch and tells a System Message",
    ),
    "no epoch": (without(ev.EpochStarted), "step 1 starts before there is an epoch"),
    "an epoch between a call and its result": (
        epoch_before_the_result,
        "epoch.started while step 1 has no settlement",
    ),
    "an epoch left out": (
        changed(ev.EpochStarted, 1, epoch=7),
        "epoch 7 starts after epoch 1",
    ),
    "a step of another epoch": (changed(ev.StepStarted, 1, epoch=5), "is of epoch 5 while 1"),
    "a step of another model": (
        changed(ev.StepStarted, 1, model="scripted/x"),
        "step 2 asks scripted/x and scripted/model-1 was chosen",
    ),
    "a broken prefix": (
        changed(ev.StepStarted, 1, prefix=False),
        "step 2 breaks the prefix of its epoch without a cause",
    ),
    "a prefix that was not compared": (
        changed(ev.StepStarted, 1, prefix=None),
        "step 2 is not the first of its epoch, and its prefix is None",
    ),
    "a repeated number": (changed(ev.StepStarted, 1, step=1), "step 1 starts after step 1"),
    "two open steps": (without(ev.StepFinished), "step 2 starts and step 1 has no settlement"),
    "an interrupt between steps within one": (
        inserted(ev.ToolStarted, ev.DrainInterrupted()),
        "drain.interrupted while step 1 has no settlement",
    ),
    "a second settlement": (
        doubled(ev.StepFinished),
        "step.finished is of step 1 and the open one is none",
    ),
    "no answer": (without(ev.AssistantMessage, 1), "is settled as completed and was not answered"),
    "two answers": (doubled(ev.AssistantMessage), "step 1 is answered a second time"),
    "a call before its message": (
        moved(ev.ToolStarted, -1),
        "starts before its assistant message",
    ),
    "a call started twice": (doubled(ev.ToolStarted), "starts a second time"),
    "a call that never started": (
        without(ev.ToolStarted),
        "is settled as completed and was never started",
    ),
    "not run and started": (
        changed(ev.ToolSettled, outcome="not_run"),
        "is settled as not_run and was started",
    ),
    "two results": (doubled(ev.ToolSettled), "is settled a second time"),
    "no result": (without(ev.ToolSettled), "step 1 is settled before its calls"),
    "a result of no call": (changed(ev.ToolSettled, call="x"), "call x is settled and there is no"),
    "an attempt left out": (without(ev.AttemptFailed), "step 2 is answered by attempt 2 of 0"),
    "an attempt twice": (doubled(ev.AttemptFailed), "attempt 1 of step 2 follows attempt 1"),
    "an answer behind the last attempt": (
        changed(ev.AttemptFailed, wait=None),
        "step 2 is answered after its last attempt",
    ),
    "a failure that is not told": (
        changed(ev.StepFinished, outcome="failed"),
        "step 1 is settled as failed and no failure is told",
    ),
    "nothing declined": (
        changed(ev.StepFinished, outcome="declined"),
        "step 1 is settled as declined and no call of it was",
    ),
    "nothing made shorter": (
        changed(ev.StepFinished, outcome="overflowed"),
        "step 1 is settled as overflowed and nothing was made shorter for it",
    ),
    "crashed and not recovered": (
        changed(ev.StepFinished, outcome="crashed"),
        "step 1 is settled as crashed without a recovery",
    ),
    "a compaction from nowhere": (
        without(ev.CompactionStarted),
        "a compaction is settled that was not started",
    ),
    "a compaction without an end": (without(ev.CompactionFinished), "before the compaction of"),
    "two compactions at once": (doubled(ev.CompactionStarted), "a compaction starts before that"),
    "a tail from the future": (
        changed(ev.CompactionFinished, kept_from=9_999),
        "a compaction keeps what begins at event 9999",
    ),
    "a token that falls": (
        inserted(ev.ModelSwitched, ev.InterruptAsked(3), ev.InterruptAsked(2)),
        "a fencing token fell from 3 to 2",
    ),
    "another history": (
        changed(ev.ToolSettled, output="something else"),
        "the request of step 2 is not the one that was sent",
    ),
}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"parent": "other", "call": "call_1"}, "epoch 1 lets a task give tasks"),
        ({"call": "call_1"}, "epoch 1 lets a task give tasks"),
        ({"parent": "other"}, "session other gave a task by no call"),
    ],
)
def test_a_task_that_breaks_a_rule_is_found_out(
    logs: dict[str, Log], made: dict[str, Any], words: str
) -> None:
    found = check_history(changed(ev.SessionCreated, **made)(logs["lived"]))
    assert [line for line in found if words in line], found


@pytest.mark.parametrize("name", BREAKS)
def test_a_log_that_breaks_one_rule_is_found_out(logs: dict[str, Log], name: str) -> None:
    mutate, words = BREAKS[name]
    found = check_history(mutate(logs["lived"]))
    assert [line for line in found if words in line], found


def test_a_compaction_that_cuts_between_a_call_and_its_result_is_found_out(
    logs: dict[str, Log],
) -> None:
    settled = logs["lived"][place(logs["lived"], ev.ToolSettled)].seq
    mutate = changed(ev.CompactionFinished, kept_from=settled)
    words = f"a compaction cuts between a call and its result, event {settled}"
    assert [line for line in check_history(mutate(logs["lived"])) if words in line]


@pytest.mark.parametrize(
    ("mutate", "words"),
    [
        (without(ev.RecoveryStarted), "step 1 is settled as crashed without a recovery"),
        (doubled(ev.RecoveryStarted), "recovery 1 of step 1 follows 1"),
        (
            changed(ev.StepFinished, outcome="completed"),
            "is settled as completed and was recovered",
        ),
    ],
)
def test_a_recovery_that_breaks_a_rule_is_found_out(
    logs: dict[str, Log], mutate: Callable[[Log], Log], words: str
) -> None:
    assert [line for line in check_history(mutate(logs["crashed"])) if words in line]


@pytest.mark.parametrize("times", [0, 2])
@pytest.mark.parametrize("name", ["lived", "copied", "crashed"])
def test_no_event_of_a_drain_can_be_missing_or_come_twice(
    logs: dict[str, Log], name: str, times: int
) -> None:
    log = logs[name]
    events = [each.data for each in log]
    unnoticed = [
        f"event {at + 1}, {event.type}"
        for at, event in enumerate(events)
        if not isinstance(event, FREE)
        and not _is_sound(log, at, times)
        and not check_history(numbered([*events[:at], *([event] * times), *events[at + 1 :]]))
    ]
    assert unnoticed == []


def _is_sound(log: Log, at: int, times: int) -> bool:
    """Say whether it might have been so: less was done so far, or somebody chose once more."""
    if times == 0:
        return at == len(log) - 1 or isinstance(log[at].data, ev.PromptWithdrawn)
    return isinstance(log[at].data, ev.ModelSwitched | ev.SessionMoved | ev.SessionReverted)


@pytest.mark.anyio
async def test_a_whole_store_is_checked_with_its_sessions_named(
    logs: dict[str, Log], tmp_path: Path
) -> None:
    async with await open_sqlite(tmp_path / "s.db", clock=SystemClock()) as store:
        await store.restore("sound", logs["lived"])
        assert await check_store(store) == []
        broken = without(ev.ToolStarted)(logs["copied"])
        await store.restore("broken", broken)
        found = await check_store(store)
    assert found
    assert all(line.startswith("session broken: event ") for line in found)
