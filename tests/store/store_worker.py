"""A process of its own for the tests of the store; see `store_support.Worker`."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import anyio

from perdure.clock import SystemClock
from perdure.errors import PerdureError
from perdure.history import events as ev
from perdure.store.contract import Guard
from perdure.store.sqlite import SQLiteStore, open_sqlite


def say(*words: object) -> None:
    print(*words, flush=True)


async def admit_for_ever(store: SQLiteStore, session: str) -> None:
    """Eight tasks admit prompts; each id is printed once its admission is acknowledged."""

    async def admit(task: int) -> None:
        for number in range(100_000):
            prompt = f"{task}-{number}"
            await store.append(session, [ev.PromptAdmitted(prompt=prompt, text="hello")])
            say(prompt)

    async with anyio.create_task_group() as tasks:
        for task in range(8):
            tasks.start_soon(admit, task)


async def append_notes(store: SQLiteStore, session: str, count: str) -> None:
    """Append notes one by one; print the seq of each."""
    for number in range(int(count)):
        (record,) = await store.append(session, [ev.Note(text=f"note {number}")])
        say(record.seq)


async def hold(store: SQLiteStore, session: str) -> None:
    """Claim, print the token, then append under it once for each line that comes in."""
    lease = await store.claim(session, "worker")
    say("none" if lease is None else lease.token)
    while lease is not None and await anyio.to_thread.run_sync(sys.stdin.readline):
        try:
            await store.append(session, [ev.Note(text="mine")], guard=Guard(token=lease.token))
            say("appended")
        except PerdureError as error:
            say(type(error).__name__)


async def fill(store: SQLiteStore, session: str) -> None:
    """Append until the file may not grow, then let it grow again."""
    soft, hard = 60_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    appended = 0
    try:
        for _ in range(200):
            await store.append(session, [ev.Note(text="x" * 1000)])
            appended += 1
    except PerdureError as error:
        say(type(error).__name__)
    say(appended, await store.version(session))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    (record,) = await store.append(session, [ev.Note(text="after")])
    say(record.seq)


async def create_at_once(path: Path) -> None:
    """Open a new database in the same moment as others, and begin a session in it."""
    say("ready")
    name = sys.stdin.readline().strip()
    async with await open_sqlite(path, clock=SystemClock()) as store:
        created = ev.SessionCreated(directory="/", project="/", model="a/one", marker="word")
        await store.create(name, [created])
    say("created")


async def forget_to_close(path: Path, session: str) -> None:
    """Claim, append and end the program with the store open."""
    store = await open_sqlite(path, clock=SystemClock(), lease_seconds=0.3)
    await store.claim(session, "forgetful")
    await store.append(session, [ev.Note(text="kept")])
    say("appended")


async def restore(store: SQLiteStore, session: str, count: str, note: str) -> None:
    """Restore a log of so many events, each with a note, once a line comes in."""
    created = ev.SessionCreated(directory="/", project="/", model="a/one", marker="word")
    events = [created, *[ev.Note(note * 500)] * (int(count) - 1)]
    say("ready")
    sys.stdin.readline()
    try:
        await store.restore(session, [ev.Record(n, n, each) for n, each in enumerate(events, 1)])
        say("restored")
    except PerdureError as error:
        say(type(error).__name__)


async def main(command: str, path: str, arguments: list[str]) -> None:
    if command == "create":
        await create_at_once(Path(path))
        return
    if command == "forget":
        await forget_to_close(Path(path), arguments[0])
        return
    run = {
        "admit": admit_for_ever,
        "notes": append_notes,
        "hold": hold,
        "fill": fill,
        "restore": restore,
    }[command]
    lease = 0.3 if command == "hold" and "short" in arguments else 1000.0
    async with await open_sqlite(path, clock=SystemClock(), lease_seconds=lease) as store:
        await run(store, *[each for each in arguments if each != "short"])


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3:])
