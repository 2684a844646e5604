"""How many bytes does the store write for one text step?

    python bench/store_writes.py [--sessions N]

A text step is a claim, an admitted prompt of 60 characters, its boundary, and an answer of about
400 characters: four transactions. Two counts are printed, per step and averaged over 500 steps:

* `written`: bytes that the process hands to the system, write-ahead log and checkpoints together;
* `in the file`: by how much the database grows. The log itself (`said`) is what must be there.

`written` must stay under 12 KiB, and must not grow with the length of the history.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import anyio

from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.history.content import Text, Usage
from perdure.store.contract import Guard
from perdure.store.sqlite import SQLiteStore, open_sqlite

HISTORIES = (50, 500, 2000)
MEASURED = 500
PROMPT = "Why does the third test of the parser fail since this morning"
ANSWER = "The parser takes the first brace for a comment, so the rest of the file is skipped. " * 5
SHAPE = ev.RequestShape(protocol="anthropic", model="claude-opus-5", form="native", max_output=8192)


def written() -> int:
    """Return how many bytes this process has handed to the system."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


async def text_step(
    store: SQLiteStore, session: str, number: int, text: str = PROMPT, said: str = ANSWER
) -> int:
    """Run one step as the runtime does; return how many bytes its events have."""
    prompt = f"{session[:4]}{number * 2654435761 % 2**48:012x}"
    admitted = [ev.PromptAdmitted(prompt=prompt, text=text)]
    boundary = [
        ev.PromptPromoted(prompt=prompt),
        ev.StepStarted(
            step=number,
            epoch=1,
            model="anthropic/claude-opus-5",
            request=SHAPE,
            blocks=2 * number + 3,
            digest="0123456789abcdef" * 2,
            prefix=True,
        ),
    ]
    usage = Usage(input=1000 + number, output=120, cache_read=900 + number)
    answer = [
        ev.AssistantMessage(step=number, parts=(Text(said),), stop="end", usage=usage),
        ev.StepFinished(step=number, outcome="completed"),
    ]
    await store.append(session, admitted)
    lease = await store.claim(session, "abcdefgh01234567")
    if lease is None:
        raise SystemExit(f"session {session} is owned by another process")
    guard = Guard(token=lease.token)
    await store.append(session, boundary, guard=guard)
    await store.append(session, answer, guard=guard, release=lease)
    return sum(len(ev.encode(event)) for event in (*admitted, *boundary, *answer))


async def measure(path: Path, sessions: list[str], history: int) -> tuple[float, float, float]:
    """Return bytes written, bytes the file grows, and bytes said, per step after a history."""
    async with await open_sqlite(path, clock=SystemClock()) as store:
        for session in sessions:
            created = ev.SessionCreated("/home/user/project", "/home/user/project", "a/b", "word")
            await store.create(session, [created])
        for number in range(history * len(sessions)):
            await text_step(store, sessions[number % len(sessions)], number)
    size, before, said = await file_size(path), written(), 0
    first = history * len(sessions)
    async with await open_sqlite(path, clock=SystemClock()) as store:
        for number in range(first, first + MEASURED):
            said += await text_step(store, sessions[number % len(sessions)], number)
    # Closing has brought everything into the file, so the last checkpoint is counted as well.
    spent, grown = written() - before, await file_size(path) - size
    return spent / MEASURED, grown / MEASURED, said / MEASURED


async def file_size(path: Path) -> int:
    """Return a file's length in bytes."""
    return (await anyio.Path(path).stat()).st_size


async def main(count: int) -> None:
    """Print one line for each length of history."""
    print(f"{'steps before':>12} {'written':>12} {'in the file':>12} {'said':>12}")
    for history in HISTORIES:
        with tempfile.TemporaryDirectory(dir=".") as directory:
            sessions = [f"{each:x}7f3k2m9x0p4q8z1w"[:16] for each in range(count)]
            figures = await measure(Path(directory) / "store.db", sessions, history)
        print(f"{history:>12}", *(f"{figure / 1024:>8.2f} KiB" for figure in figures))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=1, help="how many take turns")
    anyio.run(main, parser.parse_args().sessions)
