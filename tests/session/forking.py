"""Processes for a job each, forked from one that has imported everything already."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from typing import TypeVar

import anyio
import msgspec

Job = TypeVar("Job")


def jobs(kind: type[Job]) -> Iterator[Job]:
    """Yield the jobs that come on standard input, one a line, once everything is imported."""
    anyio.run(_warm_up)
    gc.freeze()  # the children share what is there
    for line in sys.stdin.buffer:
        yield msgspec.json.decode(line, type=kind)


def forked(main: Callable[[Job], Awaitable[None]], job: Job) -> int:
    """Do a job in a process of its own, which exits with 1 where it raises; return its id."""
    child = os.fork()
    if child == 0:
        _do(main, job)
    return child


def _do(main: Callable[[Job], Awaitable[None]], job: Job) -> None:
    try:
        anyio.run(main, job)
    except BaseException:  # noqa: BLE001 - the exit status tells of it
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


async def _warm_up() -> None:
    """Import what is imported on first use, so that no child has to."""
    httpx2 = import_module("httpx2")
    async with httpx2.AsyncClient():
        pass
