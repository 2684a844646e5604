"""The inbox: what waits in it, changes of it, and their race with the promotion."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import anyio
import pytest

from perdure import PromptConflict, Runtime, Session, UsageError
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.history.state import fold
from perdure.store.sqlite import SQLiteStore, open_sqlite
from perdure.testing import call, hold, say
from tests.session.support import Bench, bench, log_of, of_type

pytestmark = pytest.mark.anyio


def texts(session_log: Sequence[ev.Record]) -> list[str]:
    """Return what was promoted, in order."""
    admitted = {event.prompt: event.text for event in of_type(session_log, ev.PromptAdmitted)}
    return [admitted[event.prompt] for event in of_type(session_log, ev.PromptPromoted)]


async def test_the_inbox_lists_what_waits_in_the_order_of_promotion(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1"), say("2")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await session.prompt("later", delivery="queue", id="q", wake=False)
        first = await session.prompt("now", id="s", wake=False)
        waiting = await session.inbox()
        assert [(each.id, each.text, each.delivery) for each in waiting] == [
            ("s", "now", "steer"),
            ("q", "later", "queue"),
        ]
        assert waiting[0].seq == first.seq
        await session.prompt("and this")
        await session.wait()
        log = await log_of(session)
        assert [each.time for each in log if each.seq == first.seq] == [waiting[0].time]
        assert texts(log) == ["now", "and this", "later"]
        assert await session.inbox() == []


async def test_a_prompt_without_a_wake_starts_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await session.prompt("wait", wake=False)
        await session.wait()
        assert [each.text for each in await session.inbox()] == ["wait"]
        assert b.provider.requests == []


async def test_a_redelivered_steer_joins_the_work_at_the_next_boundary(tmp_path: Path) -> None:
    gate = anyio.Event()
    script = [hold(gate, call("list", {"path": "."})), say("both"), say("x")]
    async with bench(tmp_path, script) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await session.prompt("first")
        while not b.provider.requests:
            await anyio.sleep(0.001)
        queued = await session.prompt("second", delivery="queue")
        last = await session.prompt("third", delivery="queue")
        await session.redeliver(queued.id, "steer")
        await session.redeliver(last.id, "queue")  # as it is: nothing is written
        gate.set()
        await session.wait()
        log = await log_of(session)
    assert len(of_type(log, ev.PromptDeliveryChanged)) == 1
    assert texts(log) == ["first", "second", "third"]
    steps = of_type(log, (ev.StepStarted, ev.PromptPromoted))
    order = [each.step if isinstance(each, ev.StepStarted) else each.prompt for each in steps]
    assert order[1:] == [1, queued.id, 2, last.id, 3]


async def test_a_redelivered_steer_starts_a_drain_of_an_idle_session(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("done")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        prompt = await session.prompt("wait", delivery="queue", wake=False)
        await session.redeliver(prompt.id, "queue")
        await session.redeliver(prompt.id, "steer", wake=False)
        await session.wait()
        assert b.provider.requests == []
        await session.redeliver(prompt.id, "steer")
        await session.wait()
        assert await session.inbox() == []


async def test_a_steer_that_is_queued_waits_for_the_work_before_it(tmp_path: Path) -> None:
    gate = anyio.Event()
    script = [hold(gate, call("list", {"path": "."})), say("one"), say("two")]
    async with bench(tmp_path, script) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await session.prompt("first")
        while not b.provider.requests:
            await anyio.sleep(0.001)
        steered = await session.prompt("second")
        await session.redeliver(steered.id, "queue")
        gate.set()
        await session.wait()
        log = await log_of(session)
    finished = [each.seq for each in log if isinstance(each.data, ev.StepFinished)]
    promoted = [each.seq for each in log if each.data == ev.PromptPromoted(steered.id)]
    assert finished[1] < promoted[0] < finished[2]


async def test_an_interrupt_keeps_what_waits(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with bench(tmp_path, [hold(gate, say("never")), say("all")]) as b:
        b.prefix_may_break = "the first answer never comes"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("first")
            while not b.provider.requests:
                await anyio.sleep(0.001)
            await session.prompt("second", id="second")
            await session.prompt("third", id="third", delivery="queue")
            assert await session.interrupt()
            gate.set()
            kept = await session.inbox()
        async with b.runtime() as runtime:
            assert await (await runtime.session(session.id)).inbox() == kept
    assert [each.id for each in kept] == ["second", "third"]


async def test_what_is_not_pending_here_cannot_be_changed(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("done")]) as b, b.runtime() as runtime:
        session, other = await b.session(runtime), await b.session(runtime)
        done = await session.prompt("done")
        await session.wait()
        gone = await session.prompt("gone", wake=False)
        await session.withdraw(gone.id)
        foreign = await other.prompt("foreign", wake=False)
        before = await log_of(session)
        for prompt in (done.id, gone.id, foreign.id, "no-such-prompt"):
            with pytest.raises(PromptConflict, match=prompt):
                await session.withdraw(prompt)
            with pytest.raises(PromptConflict, match=prompt):
                await session.redeliver(prompt, "queue")
        assert await log_of(session) == before
        assert [each.id for each in await other.inbox()] == [foreign.id]


async def test_a_wait_for_what_is_done_here_leaves_the_work_of_others_alone(
    tmp_path: Path,
) -> None:
    gate = anyio.Event()
    async with (
        bench(tmp_path, [hold(gate, say("one")), say("two")]) as b,
        b.runtime() as runtime,
        b.runtime() as other,
    ):
        session = await b.session(runtime)
        await session.prompt("one")
        while not b.provider.requests:
            await anyio.sleep(0.001)
        waiting = await other.session(session.id)
        await waiting.prompt("two", delivery="queue", hold=True)
        await waiting.wait(only_here=True)
        assert [each.text for each in await waiting.inbox()] == ["two"]
        gate.set()
        await session.wait(only_here=True)
        await waiting.wait()
        assert texts(await log_of(session)) == ["one", "two"]


async def test_a_wait_for_what_is_done_here_lasts_from_the_prompt_to_its_answer(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [say("one")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await session.prompt("one")
        await session.wait(only_here=True)
        assert len(of_type(await log_of(session), ev.StepFinished)) == 1


async def test_the_same_id_gives_the_first_admission_whatever_became_of_it(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("done")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            promoted = await session.prompt("a", id="a")
            await session.wait()
            withdrawn = await session.prompt("b", id="b", wake=False)
            await session.withdraw("b")
        async with b.runtime() as runtime:
            session = await runtime.session(session.id)
            assert await session.prompt("again", id="a") == promoted
            assert await session.prompt("again", id="b") == withdrawn
            await session.wait()
            assert await session.inbox() == []
            with pytest.raises(PromptConflict, match="another session"):
                await (await b.session(runtime)).prompt("a", id="a")
        assert len(b.provider.requests) == 1


WRONG: dict[str, Callable[[Session, Any], Awaitable[object]]] = {
    "prompt": lambda session, wrong: session.prompt(wrong),
    "id": lambda session, wrong: session.prompt("x", id=wrong),
    "delivery": lambda session, wrong: session.prompt("x", delivery=wrong),
    "redeliver": lambda session, wrong: session.redeliver(wrong, "steer"),
    "redelivery": lambda session, wrong: session.redeliver("x", wrong),
    "withdraw": lambda session, wrong: session.withdraw(wrong),
    "rename": lambda session, wrong: session.rename(wrong),
    "switch": lambda session, wrong: session.switch_model(wrong),
    "move": lambda session, wrong: session.move(wrong),
    "entry": lambda session, wrong: session.set_entry(wrong, 1),
    "no entry": lambda session, wrong: session.remove_entry(wrong),
    "revert": lambda session, wrong: session.revert(wrong),
    "context": lambda session, wrong: session.context(at=wrong),
    "request": lambda session, wrong: session.request(wrong),
    "events": lambda session, wrong: anext(session.events(after=wrong)),
}


@pytest.mark.parametrize("method", WRONG)
async def test_a_value_of_a_wrong_type_is_a_usage_error(tmp_path: Path, method: str) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        before = await log_of(session)
        wrongs: tuple[Any, ...] = (3.5, ["x"], {}, b"x")
        for wrong in wrongs:
            with pytest.raises(UsageError):
                await WRONG[method](session, wrong)
        assert await log_of(session) == before


WORDS: dict[str, Callable[[Session, Any], Awaitable[object]]] = {
    "": lambda session, wrong: session.prompt("x", id=wrong),
    "soon": lambda session, wrong: session.prompt("x", delivery=wrong),
    "later": lambda session, wrong: session.redeliver("x", wrong),
    "-1": lambda session, wrong: anext(session.events(after=int(wrong))),
    "-2": lambda session, wrong: session.context(at=int(wrong)),
}


@pytest.mark.parametrize("word", WORDS)
async def test_an_unknown_word_is_a_usage_error(tmp_path: Path, word: str) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        with pytest.raises(UsageError):
            await WORDS[word](await b.session(runtime), word)


class Turns:
    """Whose read or write of a session comes next; after the last turn everybody is free."""

    def __init__(self, order: str) -> None:
        self._left = list(order)
        self._moved = anyio.Event()

    @asynccontextmanager
    async def turn(self, side: str) -> AsyncGenerator[None]:
        """Wait for the next turn of that side, and give it up once what it does is done."""
        while self._left[0] != side:
            await self._moved.wait()
        try:
            yield
        finally:
            del self._left[0]
            self._moved.set()
            self._moved = anyio.Event()


class Taking:
    """A store whose first read and first write take turns with those of another one."""

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store
        self._turns: Turns | None = None
        self._side = ""
        self._left = {"events", "append"}

    def begin(self, turns: Turns, side: str) -> None:
        """Take turns from now on."""
        self._turns, self._side = turns, side

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if self._turns is None or name not in self._left:
            return method
        self._left.remove(name)
        turns = self._turns

        async def in_turn(*arguments: Any, **options: Any) -> Any:
            async with turns.turn(self._side):
                return await method(*arguments, **options)

        return in_turn


@asynccontextmanager
async def taking(b: Bench) -> AsyncGenerator[tuple[Taking, Runtime]]:
    """Open the database once more, as another program would."""
    async with await open_sqlite(b.store, clock=SystemClock()) as store:
        turns: Any = Taking(store)
        async with Runtime.open(turns, config=b.config, environ=b.environ) as runtime:
            yield turns, runtime


ORDERS = sorted({"".join(order) for order in permutations("ddcc")})
"""Each way in which the read and the write of a drain and of a change can lie in each other."""


async def raced(
    b: Bench, order: str, change: Callable[[Session, str], Awaitable[None]]
) -> tuple[bool, list[ev.Record]]:
    """Let a drain promote a prompt while another program changes it; say whether the change won."""
    async with b.runtime() as runtime:
        session = await b.session(runtime)
        prompt = await session.prompt("the prompt", wake=False)
    async with taking(b) as (drain, drains), taking(b) as (changing, changes):
        turns, won = Turns(order), True
        assert await drains.recover() == [session.id]
        drain.begin(turns, "d")
        changing.begin(turns, "c")
        try:
            await change(await changes.session(session.id), prompt.id)
        except PromptConflict:
            won = False
        drained = await drains.session(session.id)
        await drained.wait(only_here=True)
        return won, await log_of(drained)


@pytest.mark.parametrize("order", ORDERS)
async def test_of_a_withdrawal_and_a_promotion_the_first_to_write_wins(
    tmp_path: Path, order: str
) -> None:
    async with bench(tmp_path, [say("answer")]) as b:
        won, log = await raced(b, order, lambda session, prompt: session.withdraw(prompt))
        assert len(b.provider.requests) == (not won)
    assert won == (order[-1] == "d")
    settled = of_type(log, (ev.PromptWithdrawn, ev.PromptPromoted))
    assert [type(each) for each in settled] == [ev.PromptWithdrawn if won else ev.PromptPromoted]
    assert fold("s", log).pending == {}


@pytest.mark.parametrize("order", ORDERS)
async def test_a_delivery_is_changed_before_the_promotion_or_not_at_all(
    tmp_path: Path, order: str
) -> None:
    async with bench(tmp_path, [say("answer")]) as b:
        won, log = await raced(
            b, order, lambda session, prompt: session.redeliver(prompt, "queue", wake=False)
        )
    assert won == (order[-1] == "d")
    kinds: list[type] = [
        type(each) for each in of_type(log, (ev.PromptDeliveryChanged, ev.PromptPromoted))
    ]
    assert kinds == [*([ev.PromptDeliveryChanged] if won else []), ev.PromptPromoted]
    assert fold("s", log).pending == {}


async def test_what_a_closed_runtime_held_is_left_to_others(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1"), say("2")]) as b:
        async with b.runtime() as closed:
            session = await b.session(closed)
            await session.prompt("first", delivery="queue", hold=True, wake=False)
        async with b.runtime() as runtime:
            assert await runtime.recover() == []
            again = await runtime.session(session.id)
            standing = await runtime.standing(await again.row())
            assert standing.reason.startswith("1 prompt waits and nobody works on it")
            await again.prompt("second", delivery="queue")
            await again.wait()
            promoted = of_type(await log_of(again), ev.PromptPromoted)
        assert len(promoted) == 2
