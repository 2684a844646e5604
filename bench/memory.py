"""How much memory does a session take, idle and at work?

    python bench/memory.py [--active 64]

Resident memory of the process is read before and after. An idle session has answered one prompt,
and the program holds its handle. An active one has a history of so much text, and waits in the
middle of an answer; the text of its history is taken off. The goals are 4 KiB and 300 KiB.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
from _answering import HOLD
from _history import ANSWER, Log, target
from _provider import answering

from perdure import Runtime, Session
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.models.transport import Transport
from perdure.store.sqlite import open_sqlite

ANSWERS = (50, 200, 800)
WARM = 128
FIRST = 8


def resident() -> float:
    """Return the resident memory of this process in KiB."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(dict(line.split(":\t") for line in lines)["VmRSS"].split()[0])


async def idle(runtime: Runtime, directory: str, count: int) -> float:
    """Return KiB for each session that has nothing to do."""
    sessions: list[Session] = []
    before = 0.0
    for number in range(WARM + count):
        if number == WARM:  # caches are full by now
            before = resident()
        session = await runtime.create_session(directory=directory)
        await session.prompt("Why does the build fail?")
        await session.wait()
        sessions.append(session)
    return (resident() - before) / count


async def restore(store: Path, directory: str, count: int, answers: int) -> float:
    """Write sessions with histories; return the KiB of text in each."""
    async with Transport() as transport, await open_sqlite(store, clock=SystemClock()) as opened:
        where = target("openai-chat", transport)
        for number in range(count):
            log = Log(f"active{number:010}", where, directory)
            for _ in range(answers):
                log.prompt()
                log.answer()
            await opened.restore(log.state.session, log.records)
    return answers * (len(ANSWER) + 70) / 1024


async def active(runtime: Runtime, numbers: Sequence[int]) -> float:
    """Return KiB for each session that is in the middle of an answer."""

    async def work(number: int) -> None:
        session = await runtime.session(f"active{number:010}")
        admission = await session.prompt(f"Please {HOLD}.")
        async with aclosing(session.events(after=admission.seq)) as records:
            async for record in records:
                if isinstance(record.data, ev.TextDelta):
                    return

    before = resident()
    async with anyio.create_task_group() as group:
        for number in numbers:
            group.start_soon(work, number)
    spent = resident() - before
    async with anyio.create_task_group() as group:
        for number in numbers:
            session = await runtime.session(f"active{number:010}")
            group.start_soon(session.interrupt)
    return spent / len(numbers)


async def fill_caches(runtime: Runtime, count: int) -> None:
    """Read logs by three: each connection to the database keeps 2 MB of pages, once for all."""

    async def read(first: int) -> None:
        for number in range(first, count, 3):
            session = await runtime.session(f"active{number:010}")
            await session.messages()

    async with anyio.create_task_group() as group:
        for first in range(3):
            group.start_soon(read, first)


async def measure_idle(count: int) -> None:
    """Print what an idle session takes."""
    with answering() as config, tempfile.TemporaryDirectory(dir=".") as root:
        async with Runtime.open(Path(root) / "sessions.db", config=config) as runtime:
            each = await idle(runtime, root, count)
    print(f"idle: {each:.1f} KiB for each of {count}")


async def measure_active(count: int, answers: int) -> None:
    """Print what an active session takes."""
    with answering() as config, tempfile.TemporaryDirectory(dir=".") as root:
        store = Path(root) / "sessions.db"
        text = await restore(store, root, FIRST + count, answers)
        async with Runtime.open(store, config=config) as runtime:
            await fill_caches(runtime, FIRST + count)
            await active(runtime, range(FIRST))
            each = await active(runtime, range(FIRST, FIRST + count))
    print(
        f"active: {each:.0f} KiB for each of {count}, {each - text:.0f} KiB beyond its {text:.0f}"
        " KiB of text"
    )


def main(idle_count: int, active_count: int) -> None:
    """Measure each in a process of its own: memory that was used once is used again."""
    for arguments in (["--idle", idle_count], *(["--answers", each] for each in ANSWERS)):
        program = [sys.executable, __file__, "--active", active_count, *arguments]
        subprocess.run([str(each) for each in program], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--idle", type=int, help="measure so many idle sessions only")
    parser.add_argument("--active", type=int, default=64)
    parser.add_argument("--answers", type=int, help="measure only active ones of such a history")
    given = parser.parse_args()
    if given.answers is not None:
        anyio.run(measure_active, given.active, given.answers)
    elif given.idle is not None:
        anyio.run(measure_idle, given.idle)
    else:
        main(1000, given.active)
