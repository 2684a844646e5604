"""How large is the database after 500 steps of text, beside the text itself?

    python bench/database_size.py [--steps 500]

Steps are written as the runtime writes them, in one session with a Baseline and the definitions of
the built-in tools. Counted is every file that is left when the store is closed. The goal: at most
three times the text of prompts and answers, plus 1 MiB.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import anyio
from _history import BASELINE
from store_writes import text_step

from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.store.sqlite import open_sqlite
from perdure.tools import builtin_tools

MIB = 1024 * 1024
SENTENCE = "The parser takes the first brace for a comment, so the rest of the file is skipped. "


def words(size: int, chance: random.Random) -> str:
    """Return so many bytes of text that is no text twice."""
    return f"{chance.random()} {SENTENCE * (size // len(SENTENCE) + 1)}"[:size]


KINDS: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "a word each": lambda _chance: ("go on", "done"),
    "200 to 800 bytes": lambda it: (words(60, it), words(it.randint(140, 740), it)),
    "4 to 8 KiB": lambda it: (words(200, it), words(it.randint(4000, 8000), it)),
}


async def measure(directory: Path, kind: str, steps: int) -> tuple[int, int]:
    """Return the bytes of text and those of all files."""
    chance, text = random.Random(1), 0
    async with await open_sqlite(directory / "store.db", clock=SystemClock()) as store:
        tools = tuple(builtin_tools().definitions())
        await store.create(
            "benchmark0000000",
            [
                ev.SessionCreated("/home/user/project", "/home/user/project", "a/b", "word"),
                ev.EpochStarted(1, ("session started",), "a/b", BASELINE, {}, tools, 1),
            ],
        )
        for number in range(1, steps + 1):
            prompt, answer = KINDS[kind](chance)
            text += len(prompt) + len(answer)
            await text_step(store, "benchmark0000000", number, prompt, answer)
    return text, sum(
        [(await file.stat()).st_size async for file in anyio.Path(directory).iterdir()]
    )


async def main(steps: int) -> None:
    """Print a line for each kind of text."""
    head = ("text KiB", "files KiB", "goal KiB", "of goal")
    print(f"{'in each step':>17}", *(f"{each:>10}" for each in head))
    for kind in KINDS:
        with tempfile.TemporaryDirectory(dir=".") as directory:
            text, size = await measure(Path(directory), kind, steps)
        goal = 3 * text + MIB
        figures = " ".join(f"{each / 1024:>10.0f}" for each in (text, size, goal))
        print(f"{kind:>17} {figures} {size / goal:>10.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    anyio.run(main, parser.parse_args().steps)
