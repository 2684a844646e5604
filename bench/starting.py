"""How long does `perdure run` take to its first request, in a session with a long history?

    python bench/starting.py [--steps 500] [--rounds 7]

Counted is the wall time from starting the program until the whole request has arrived here:
interpreter, imports, configuration, opening the database, reading and folding the log, facts,
lowering, connecting. The goal is under 600 ms for 500 steps.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from _answering import RESPONSE
from _history import history, target
from _serving import read_request

from perdure.clock import SystemClock
from perdure.models.transport import Transport
from perdure.store.sqlite import open_sqlite

SESSION = "benchmark0000000"
CONFIG = """
[providers.bench]
protocol = "openai-chat"
base_url = "http://127.0.0.1:{port}/v1"
"""


async def restore(store: Path, directory: Path, steps: int) -> None:
    """Write the session."""
    async with Transport() as transport:
        log = history(SESSION, target("openai-chat", transport), "text", 2 * steps, str(directory))
    async with await open_sqlite(store, clock=SystemClock()) as opened:
        await opened.restore(SESSION, log.records)


async def first_request(home: Path, directory: Path, arrived: asyncio.Event) -> float:
    """Run the program once; return the milliseconds to its first request."""
    arrived.clear()
    paths = {f"PERDURE_{name}_DIR": str(home) for name in ("CONFIG", "DATA")}
    begun = time.perf_counter()
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure", "run", "-s", SESSION, "And now?"),
        cwd=directory,
        env=os.environ | paths,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await asyncio.wait_for(arrived.wait(), 60)
    spent = (time.perf_counter() - begun) * 1000
    if await program.wait():
        raise SystemExit("the program failed")
    return spent


async def main(steps: int, rounds: int) -> None:
    """Print the median and the range."""
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        arrived.set()
        writer.write(RESPONSE)
        await reader.read()  # until the program leaves
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 26)
    with tempfile.TemporaryDirectory(dir=await asyncio.to_thread(Path.cwd)) as root:
        home, directory = Path(root) / "home", Path(root) / "project"
        for each in (home, directory):
            await asyncio.to_thread(each.mkdir)
        config = CONFIG.format(port=server.sockets[0].getsockname()[1])
        await asyncio.to_thread((home / "config.toml").write_text, config)
        await restore(home / "perdure.db", directory, steps)
        times = [await first_request(home, directory, arrived) for _ in range(rounds + 1)][1:]
    server.close()
    low, high = min(times), max(times)
    print(f"{statistics.median(times):.0f} ms (median of {rounds}, {low:.0f} to {high:.0f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    asyncio.run(main(given.steps, given.rounds))
