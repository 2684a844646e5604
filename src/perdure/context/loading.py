"""Load all sources of a System Context at once."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import anyio

from perdure.context.guard import Failed, attempt, failure
from perdure.context.source import Source
from perdure.context.threads import Call, is_hung, start


async def load_all(sources: Sequence[Source[Any]]) -> dict[str, Any]:
    """Call every loader once, all of them concurrently, each under its own timeout.

    Returns, by key, what each loader returned, or Failed. An exception of a loader that is no
    Exception (KeyboardInterrupt, SystemExit) is raised after the other loaders were cancelled.
    Cancelling cancels the async loaders and gives up the calls that run in threads.
    """
    loaded: dict[str, Any] = {}
    rest: list[Source[Any]] = []
    for source in sources:
        if source.inline:
            loaded[source.key] = attempt(source.load)
        elif is_hung(source.given_up):
            loaded[source.key] = Failed("has not returned from an earlier call")
        else:
            rest.append(source)
    return loaded | await _load_together(rest) if rest else loaded


async def _load_together(sources: Sequence[Source[Any]]) -> dict[str, Any]:
    loaded: dict[str, Any] = {}
    fatal: list[BaseException] = []

    async def settle(source: Source[Any], call: Callable[[], Any]) -> None:
        try:
            loaded[source.key] = await _load(source.timeout, call)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - raised below, free of the task group
            fatal.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        threaded = {each: Call(each.load, each.given_up) for each in sources if not each.is_async}
        for source in sources:
            if source.is_async:
                group.start_soon(settle, source, source.load)
        await start(list(threaded.values()))
        for source, call in threaded.items():
            group.start_soon(settle, source, call.result)
    if fatal:
        raise fatal[0]
    return loaded


async def _load(timeout: float, call: Callable[[], Any]) -> Any:
    try:
        with anyio.move_on_after(timeout):
            result = await call()
            return await result if inspect.isawaitable(result) else result
        return Failed(f"did not return within {timeout:g} s")
    except Exception as error:  # noqa: BLE001 - a loader may raise anything
        return failure(error)
    except anyio.get_cancelled_exc_class():
        if anyio.current_effective_deadline() == -math.inf:
            raise
        # Nobody cancelled us: the loader awaited something of its own that was cancelled.
        return Failed("was cancelled from within")
