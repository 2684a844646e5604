"""How much memory does a session take, idle and at work?

    python bench/memory.py [--idle 1000] [--active 64]

Resident memory of the process is read before and after. An idle session has answered one prompt,
and the program holds its handle. An active one has a history of so much text, and waits in the
middle of an answer; the text of its history is taken off. The goals are 4 KiB and 300 KiB.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
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


async def restore(store: Path, directory: str, first: int, count: int, answers: int) -> float:
    """Write sessions with histories; return the KiB of text in each."""
    async with Transport() as transport, await open_sqlite(store, clock=SystemClock()) as opened:
        where = target("openai-chat", transport)
        for number in range(first, first + count):
            log = Log(f"active{number:010}", where, directory)
            for _ in range(answers):
                log.prompt()
                log.answer()
            await opened.restore(log.state.session, log.records)
    return answers * (len(ANSWER) + 70) / 1024


async def active(runtime: Runtime, first: int, count: int) -> float:
    """Return KiB for each session that is in the middle of an answer."""

    async def work(number: int) -> None:
        session = await runtime.session(f"active{number:010}")
        admission = await session.prompt(f"Please {HOLD}.")
        async with aclosing(session.events(after=admission.seq)) as records:
            async for record in records:
                if isinstance(record.data, ev.TextDelta):
                    return

    numbers = range(first, first + count)
    before = resident()
    async with anyio.create_task_group() as group:
        for number in numbers:
            group.start_soon(work, number)
    spent = resident() - before
    async with anyio.create_task_group() as group:
        for number in numbers:
            session = await runtime.session(f"active{number:010}")
            group.start_soon(session.interrupt)
    return spent / count


async def main(idle_count: int, active_count: int) -> None:
    """Print what a session takes."""
    with answering() as config, tempfile.TemporaryDirectory(dir=".") as root:
        store = Path(root) / "sessions.db"
        async with Runtime.open(store, config=config) as runtime:
            each = await idle(runtime, root, idle_count)
            print(f"idle: {each:.1f} KiB for each of {idle_count}")
            for place, answers in enumerate(ANSWERS):
                first = place * active_count
                text = await restore(store, root, first, active_count, answers)
                each = await active(runtime, first, active_count)
                print(
                    f"active, {text:>4.0f} KiB of text: {each:>6.0f} KiB for each of"
                    f" {active_count}, {each - text:.0f} KiB beyond the text"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--active", type=int, default=64)
    given = parser.parse_args()
    anyio.run(main, given.idle, given.active)
