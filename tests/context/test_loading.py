"""How the loaders of one System Context are run."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from anyio import to_thread

from perdure.context import ABSENT, UNAVAILABLE, Diagnostic, Source, threads
from tests.context.context_facts import context, fact, raising

pytestmark = pytest.mark.anyio


class Hang:
    """A loader that hangs until it is released, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.begun = threading.Event()
        self.release = threading.Event()

    def __call__(self) -> str:
        self.calls += 1
        self.begun.set()
        assert self.release.wait(60)
        return "v"


async def _until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not true():
            await anyio.sleep(0.002)


async def _values(*sources: Source[Any]) -> dict[str, Any]:
    return (await context(*sources).observe()).values


async def test_sync_and_async_loaders_of_every_shape_are_loaded() -> None:
    async def coroutine(value: str = "v") -> str:
        await anyio.sleep(0)
        return value

    class Loading:
        async def __call__(self) -> str:
            return "v"

    loaders: dict[str, Any] = {
        "l/function": lambda: "v",
        "l/coroutine": coroutine,
        "l/partial": partial(coroutine, "v"),
        "l/object": Loading(),
        "l/lambda": lambda: coroutine(),
    }
    values = await _values(*(fact(key, load) for key, load in loaders.items()))
    assert values == dict.fromkeys(loaders, "v")


async def test_an_observation_tells_values_from_unavailable_and_absent() -> None:
    values = await _values(
        fact("a/v", 3, int),
        fact("a/null", None, int | None),
        fact("a/u", UNAVAILABLE),
        fact("a/a", ABSENT),
    )
    assert values == {"a/v": 3, "a/null": None, "a/u": UNAVAILABLE, "a/a": ABSENT}


@pytest.mark.parametrize("operation", ["initialize", "reconcile", "replace", "observe"])
async def test_every_loader_runs_once_per_operation(operation: str) -> None:
    calls: list[str] = []

    async def loads() -> str:
        calls.append("async")
        return "v"

    def make(key: str, **given: Any) -> Source[Any]:
        return fact(key, lambda: calls.append(key) or "v", **given)

    composed = context(make("s/inline", inline=True), make("s/thread"), fact("s/async", loads))
    snapshot = {"gone/x": (await context(fact("gone/x", "v")).initialize()).snapshot["gone/x"]}
    given = [snapshot] if operation in ("reconcile", "replace") else []
    await getattr(composed, operation)(*given)
    assert sorted(calls) == ["async", "s/inline", "s/thread"]


async def test_decisions_from_one_observation_load_nothing_more() -> None:
    calls: list[int] = []
    observation = await context(fact("a/b", lambda: calls.append(1) or "v")).observe()
    told = observation.initialize()
    observation.reconcile(told.snapshot)
    observation.replace(told.snapshot)
    assert calls == [1]


async def test_async_loaders_run_concurrently() -> None:
    waiting = 0
    all_here = anyio.Event()

    async def meet() -> str:
        nonlocal waiting
        waiting += 1
        if waiting == 5:
            all_here.set()
        await all_here.wait()
        return "v"

    values = await _values(*(fact(f"a/{n}", meet, timeout=60) for n in range(5)))
    assert set(values.values()) == {"v"}


async def test_sync_loaders_run_concurrently() -> None:
    barrier = threading.Barrier(5, timeout=60)
    values = await _values(
        *(fact(f"a/{n}", lambda: str(barrier.wait()), timeout=60) for n in range(5))
    )
    assert sorted(values.values()) == ["0", "1", "2", "3", "4"]


async def test_sync_loaders_that_are_quick_share_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 20)
    values = await _values(*(fact(f"a/{n}", threading.get_ident, int) for n in range(5)))
    assert len(set(values.values())) == 1
    assert threading.get_ident() not in values.values()


async def test_an_inline_loader_runs_in_the_event_loop() -> None:
    values = await _values(fact("a/b", threading.get_ident, int, inline=True))
    assert values == {"a/b": threading.get_ident()}


@pytest.mark.parametrize("inline", [True, False])
async def test_a_loader_that_raises_is_unavailable_and_named_once(
    inline: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="perdure.context"):
        observation = await context(fact("a/b", raising, inline=inline), fact("a/c", "v")).observe()
        observation.initialize()
        observation.reconcile({})
    assert observation.values == {"a/b": UNAVAILABLE, "a/c": "v"}
    [diagnostic] = observation.diagnostics
    assert (diagnostic.key, diagnostic.stage) == ("a/b", "load")
    assert "KeyError at context_facts.py:" in diagnostic.message
    [record] = caplog.records
    assert "a/b" in record.getMessage()
    assert "secret" not in record.getMessage() + diagnostic.message


async def test_an_async_loader_that_is_late_is_unavailable_and_cancelled() -> None:
    left: list[str] = []

    async def late() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            left.append("cancelled")
        return "v"

    observation = await context(fact("a/b", late, timeout=0.01), fact("a/c", "v")).observe()
    assert observation.values == {"a/b": UNAVAILABLE, "a/c": "v"}
    assert observation.diagnostics == [
        Diagnostic("a/b", "load", "the loader did not return within 0.01 s")
    ]
    assert left == ["cancelled"]


async def test_a_timeout_that_a_loader_raises_itself_is_told_from_being_late() -> None:
    async def load() -> str:
        raise TimeoutError

    [diagnostic] = (await context(fact("a/b", load)).observe()).diagnostics
    assert "raised TimeoutError" in diagnostic.message


async def test_a_hung_sync_loader_is_not_started_a_second_time() -> None:
    hang = Hang()
    source = fact("a/b", hang, timeout=0.01)
    first = await context(source).observe()
    second = await context(source).observe()
    third = await context(fact("x/y", "v"), source).observe()
    assert [each.values["a/b"] for each in (first, second, third)] == [UNAVAILABLE] * 3
    assert hang.calls == 1
    assert "did not return within" in first.diagnostics[0].message
    assert second.diagnostics == third.diagnostics
    assert "has not returned from an earlier call" in second.diagnostics[0].message
    hang.release.set()
    await _until(lambda: not threads.is_hung(source.given_up))
    assert await _values(source) == {"a/b": "v"}
    assert hang.calls == 2


async def test_two_observations_at_once_may_both_call_a_loader_that_is_only_slow() -> None:
    barrier = threading.Barrier(2, timeout=60)
    composed = context(fact("a/b", lambda: str(barrier.wait() >= 0), timeout=60))
    found: list[dict[str, Any]] = []

    async def observe() -> None:
        found.append((await composed.observe()).values)

    async with anyio.create_task_group() as group:
        group.start_soon(observe)
        group.start_soon(observe)
    assert found == [{"a/b": "True"}] * 2


async def test_hung_loaders_leave_the_programs_own_threads_alone() -> None:
    hangs = [Hang() for _ in range(5)]
    limiter = to_thread.current_default_thread_limiter()
    async with anyio.create_task_group() as group:
        group.start_soon(context(*(fact(f"a/{n}", hang) for n, hang in enumerate(hangs))).observe)
        await _until(lambda: all(hang.begun.is_set() for hang in hangs))
        assert limiter.borrowed_tokens == 0
        for hang in hangs:
            hang.release.set()


async def test_cancelling_the_caller_gives_up_the_running_call_and_makes_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 20)
    hang, later = Hang(), Hang()
    source, waiting = fact("a/b", hang), fact("a/c", later)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(context(source, waiting).observe)
            await _until(hang.begun.is_set)
            scope.cancel()
    assert scope.cancelled_caught
    assert await _values(source) == {"a/b": UNAVAILABLE}
    hang.release.set()
    await _until(lambda: not threads.is_hung(source.given_up))
    assert (hang.calls, later.calls) == (1, 0)
    later.release.set()
    assert await _values(source, waiting) == {"a/b": "v", "a/c": "v"}


async def test_cancelling_the_caller_cancels_async_loaders() -> None:
    begun = anyio.Event()
    ended: list[str] = []

    async def load() -> str:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")
        return "v"

    async with anyio.create_task_group() as group:
        group.start_soon(context(fact("a/b", load)).observe)
        await begun.wait()
        group.cancel_scope.cancel()
    assert ended == ["cancelled"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("how", ["inline", "thread", "async"])
async def test_an_exception_that_is_no_error_propagates_as_it_is(
    kind: type[BaseException], how: str
) -> None:
    def load() -> str:
        raise kind

    async def load_async() -> str:
        raise kind

    bad = fact("a/b", load_async if how == "async" else load, inline=how == "inline")
    with pytest.raises(kind):
        await context(bad, fact("a/c", anyio.sleep_forever)).observe()


async def test_a_loader_cancelled_from_within_is_unavailable() -> None:
    async def load() -> str:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    observation = await context(fact("a/b", load), fact("a/c", "v")).observe()
    assert observation.values == {"a/b": UNAVAILABLE, "a/c": "v"}
    assert observation.diagnostics == [
        Diagnostic("a/b", "load", "the loader was cancelled from within")
    ]


async def test_a_system_without_threads_left_makes_sync_loaders_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        observation = await context(fact("a/b", str), fact("a/c", str)).observe()
    assert observation.values == {"a/b": UNAVAILABLE, "a/c": UNAVAILABLE}
    assert [each.stage for each in observation.diagnostics] == ["load", "load"]


def test_a_hung_loader_does_not_keep_the_program_from_ending() -> None:
    program = (
        "import anyio, threading\n"
        "from perdure.context import Source, SystemContext\n"
        "load = threading.Event().wait\n"
        "source = Source(key='a/b', type=bool, load=load, baseline=str, update=max, timeout=0.01)\n"
        "print(anyio.run(SystemContext.make(source).observe).values)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "{'a/b': UNAVAILABLE}\n"
