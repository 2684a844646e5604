"""What does it cost to open a long session and build its first request?

    python bench/opening.py [--messages 5000] [--rounds 7]

The session is in a database file, nothing of it is in memory, the code is loaded. Counted is the
CPU of the whole process from the first read of the log to the bytes of the next request: reading
the rows, decoding the events, folding them, lowering every item, the digest chain, the body. The
goal is under 150 ms for 5,000 messages.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from pathlib import Path

import anyio
from _history import PROTOCOLS, QUESTION, Kind, history, target

from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.history.state import SessionState
from perdure.models.transport import Transport
from perdure.session.memory import Remembered
from perdure.session.requests import Requests
from perdure.session.workplace import Target
from perdure.store.contract import Store
from perdure.store.sqlite import open_sqlite

Cost = tuple[float, float, float]
"""CPU milliseconds of reading, folding and lowering."""


async def first_request(store: Store, session: str, where: Target) -> tuple[Cost, int, bool]:
    """Return what each part costs, the size of the body, and whether the prefix was kept."""
    gc.collect()
    begun = time.process_time()
    records = await store.events(session)
    read = time.process_time()
    state = SessionState(session)
    state.apply_all(records)
    folded = time.process_time()
    ahead = state.preview([ev.PromptPromoted(prompt) for prompt in state.pending])
    started, request = Requests(Remembered(state)).prepare(ahead, where)
    lowered = time.process_time()
    cost = (read - begun) * 1000, (folded - read) * 1000, (lowered - folded) * 1000
    return cost, len(request.body), started.prefix is True


async def measure(store: Path, where: Target, kind: Kind, messages: int, rounds: int) -> str:
    """Return a line of medians for one protocol and one kind of history."""
    log = history("benchmark0000000", where, kind, messages)
    log.add(ev.PromptAdmitted("next000000000000", QUESTION))
    async with await open_sqlite(store, clock=SystemClock()) as opened:
        await opened.restore(log.state.session, log.records)
    costs: list[Cost] = []
    size = 0
    for _ in range(rounds):
        async with await open_sqlite(store, clock=SystemClock()) as opened:
            cost, size, kept = await first_request(opened, log.state.session, where)
        costs.append(cost)
        if not kept:
            raise SystemExit("the first request does not continue the last one")
    parts = [statistics.median(part) for part in zip(*costs, strict=True)]
    figures = (*parts, statistics.median(sum(cost) for cost in costs))
    return " ".join(f"{figure:>8.1f}" for figure in figures) + f"   body {size / 1e6:.2f} MB"


async def main(messages: int, rounds: int) -> None:
    """Print a line for each protocol and kind of history."""
    kinds: tuple[Kind, ...] = ("text", "tools")
    head = " ".join(f"{each:>8}" for each in ("read", "fold", "request", "CPU ms"))
    print(f"{'':>21}{head}   (medians of {rounds})")
    async with Transport() as transport:
        for protocol in PROTOCOLS:
            for kind in kinds:
                with tempfile.TemporaryDirectory(dir=".") as directory:
                    store, where = Path(directory) / "store.db", target(protocol, transport)
                    line = await measure(store, where, kind, messages, rounds)
                print(f"{protocol:>12} {kind:>7} {line}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    anyio.run(main, given.messages, given.rounds)
