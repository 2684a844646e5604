"""How many durable admissions a second, beside a bare loop over apsw on the same disk?

    python bench/admissions.py [--writers 64] [--seconds 3] [--rounds 3]

Each writer admits one prompt after the other to a session of its own. The bare loop is the least
that can keep the same promise: one thread, one commit for all who wait, and for each of them the
same three rows (the session's counter, the event, the prompt), with no check of anything. Rounds
of both alternate; medians are printed, and the share must be at least 60 %.
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import apsw

from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.store.database import Connection
from perdure.store.schema import PAGE_SIZE
from perdure.store.sqlite import open_sqlite

TEXT = "Why does the third test of the parser fail since this morning"
Admit = Callable[[int, int], Awaitable[object]]


class Bare:
    """A group commit over apsw and nothing else."""

    def __init__(self, path: Path, writers: int) -> None:
        self._queue: queue.SimpleQueue[tuple[int, int, asyncio.Future[None]] | None] = (
            queue.SimpleQueue()
        )
        self._connection = cast("Connection", apsw.Connection(str(path)))
        for statement in (
            f"PRAGMA page_size = {PAGE_SIZE}",
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE session (number INTEGER PRIMARY KEY, last_seq INTEGER)",
            "CREATE TABLE event (place INTEGER PRIMARY KEY, time INTEGER, type TEXT, data TEXT)",
            "CREATE TABLE prompt (id TEXT PRIMARY KEY, session INTEGER, seq INTEGER) WITHOUT ROWID",
        ):
            self._connection.execute(statement).fetchall()
        for number in range(writers):
            self._connection.execute("INSERT INTO session VALUES (?, 0)", (number,))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    async def admit(self, writer: int, number: int) -> None:
        """Write one admission; return when it is durable."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put((writer, number, done))
        await done

    def close(self) -> None:
        """End the thread."""
        self._queue.put(None)
        self._thread.join()
        self._connection.close()

    def _serve(self) -> None:
        execute = self._connection.execute
        while (item := self._queue.get()) is not None:
            batch = [item]
            while len(batch) < 256 and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    return
                batch.append(following)
            execute("BEGIN IMMEDIATE")
            for writer, number, _ in batch:
                data = f'{{"prompt":"{writer:06}{number:010}","text":"{TEXT}"}}'
                execute("UPDATE session SET last_seq = last_seq + 1 WHERE number = ?", (writer,))
                place = (writer << 32) + number
                execute(
                    "INSERT INTO event VALUES (?, ?, ?, ?)",
                    (place, 1790000000000, "prompt.admitted", data),
                )
                execute(
                    "INSERT INTO prompt VALUES (?, ?, ?)",
                    (f"{writer:06}{number:010}", writer, number),
                )
            execute("COMMIT")
            loop = batch[0][2].get_loop()
            loop.call_soon_threadsafe(_resolve, [done for _, _, done in batch])


def _resolve(waiting: list[asyncio.Future[None]]) -> None:
    for done in waiting:
        done.set_result(None)


async def rate(admit: Admit, writers: int, seconds: float) -> float:
    """Return admissions per second."""
    end = time.perf_counter() + seconds

    async def write(writer: int) -> int:
        number = 0
        while time.perf_counter() < end:
            number += 1
            await admit(writer, number)
        return number

    start = time.perf_counter()
    done = await asyncio.gather(*(write(writer) for writer in range(writers)))
    return sum(done) / (time.perf_counter() - start)


async def bare(path: Path, writers: int, seconds: float) -> float:
    """Measure the bare loop."""
    loop = Bare(path, writers)
    try:
        return await rate(loop.admit, writers, seconds)
    finally:
        loop.close()


async def ours(path: Path, writers: int, seconds: float) -> float:
    """Measure the store."""
    async with await open_sqlite(path, clock=SystemClock()) as store:
        for writer in range(writers):
            created = ev.SessionCreated("/home/user/project", "/home/user/project", "a/b", "word")
            await store.create(f"session{writer:09}", [created])

        async def admit(writer: int, number: int) -> None:
            prompt = ev.PromptAdmitted(prompt=f"{writer:06}{number:010}", text=TEXT)
            await store.append(f"session{writer:09}", [prompt])

        return await rate(admit, writers, seconds)


async def main(writers: int, seconds: float, rounds: int) -> None:
    """Print both rates and the share."""
    rates: dict[str, list[float]] = {"bare apsw": [], "perdure": []}
    for _ in range(rounds):
        for name, measure in (("bare apsw", bare), ("perdure", ours)):
            with tempfile.TemporaryDirectory(dir=".") as directory:
                rates[name].append(await measure(Path(directory) / "store.db", writers, seconds))
    medians = {name: statistics.median(each) for name, each in rates.items()}
    for name, median in medians.items():
        print(f"{name:<10} {median:>8,.0f} admissions/s")
    print(f"share      {medians['perdure'] / medians['bare apsw']:>8.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    asyncio.run(main(given.writers, given.seconds, given.rounds))
