"""When a session moves: a new Context Epoch, or one System Message that says what changed?

    python bench/moves.py

A trace of 24 steps with 6 moves between three projects: two that belong together (two directories
of one repository) and one that does not. The trace runs under both policies of the configuration
(`on_move`), and for each this is counted:

* kept: requests that begin with the whole request before them;
* billed: input tokens as a provider bills them (cached 0.1, written 1.25; bytes / 4);
* stale: statements still in the request, at the end, about a place where the session is not.
"""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import msgspec
from drift import ANSWER, Bill, Request

from perdure import Runtime
from perdure.testing import ScriptedProvider, isolated_environment, say

STEPS = 24
EVERY = 4


def projects(root: Path) -> list[Path]:
    """Make the three places; each has instructions that name it."""
    shop, kettle = root / "shop", root / "kettle"
    places = [shop / "server", shop / "client", kettle]
    for place in places:
        place.mkdir(parents=True)
        (place / "AGENTS.md").write_text(f"Rules of {place.name}. " * 60)
    for top in (shop, kettle):
        (top / ".git").mkdir()
    (shop / "AGENTS.md").write_text("Rules of shop. " * 60)
    return places


async def trace(policy: str, length: int) -> tuple[list[Request], list[Path]]:
    """Run the trace under a policy, with answers so many times as long.

    Returns the requests and the places.
    """
    requests: list[Request] = []
    async with ScriptedProvider(lambda _request, _number: say(ANSWER * length)) as provider:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            places = projects(root)
            config: dict[str, Any] = {**provider.config(), "on_move": policy}
            async with Runtime.open(
                root / "sessions.db", config=config, environ=isolated_environment(root)
            ) as runtime:
                session = await runtime.create_session(directory=places[0])
                for step in range(STEPS):
                    if step and step % EVERY == 0:
                        await session.move(places[step // EVERY % len(places)])
                    await session.prompt(f"Step {step}: go on.")
                    await session.wait()
                    requests.append(msgspec.json.decode(await session.request()))
    return requests, places


def stale(request: Request, places: list[Path]) -> int:
    """Count rules of other places that the request still holds."""
    here = places[(STEPS - 1) // EVERY % len(places)]
    body = msgspec.json.encode(request["messages"])
    return sum(f"Rules of {place.name}.".encode() in body for place in places if place != here)


async def main() -> None:
    """Measure and print."""
    print(f"{STEPS} steps, a move before every {EVERY}th, answers of {len(ANSWER)} characters * n")
    print("  n  on_move    kept      read   written    billed  stale")
    for length, policy in product((1, 20), ("epoch", "update")):
        requests, places = await trace(policy, length)
        bill = Bill()
        for step, request in enumerate(requests):
            bill.count(requests[step - 1] if step else None, request)
        print(
            f"{length:>3} {policy:>8} {bill.kept:>4}/{STEPS} {bill.read:>9,} {bill.written:>9,} "
            f"{bill.billed:>9,.0f} {stale(requests[-1], places):>6}"
        )


if __name__ == "__main__":
    anyio.run(main)
