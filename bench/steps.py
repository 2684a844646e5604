"""What one step costs the runtime: CPU and bytes written, at 50 and at 500 steps of history.

    python bench/steps.py [STEPS]

The provider runs in a process of its own and answers at once, so the process time measured here
is the runtime's: admission, boundary with every built-in source, request, stream, settlement. Bytes
are what the process wrote to the store, counted by the kernel (`wchar` of /proc/self/io).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import anyio
from _provider import answering

from perdure import Runtime, Session

AROUND = 25


def written() -> int:
    """Return the bytes that this process has passed to write calls."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


async def one_step(session: Session, number: int) -> tuple[float, int]:
    """Prompt and wait for the answer; return CPU milliseconds and bytes written."""
    size, cpu = written(), time.process_time()
    admission = await session.prompt(f"Question {number}: why does the build fail?")
    async for _ in session.events(after=admission.seq, until_idle=True):
        pass
    return (time.process_time() - cpu) * 1000, written() - size


async def main(steps: int) -> None:
    """Measure and print."""
    with answering() as config, tempfile.TemporaryDirectory() as root:
        async with Runtime.open(Path(root) / "sessions.db", config=config) as runtime:
            session = await runtime.create_session(directory=root)
            costs = [await one_step(session, number) for number in range(steps + AROUND)]
    print(f"{'at step':>8} {'CPU ms':>8} {'bytes written':>14}   (medians of {2 * AROUND} steps)")
    for at in (50, steps // 2, steps):
        near = costs[at - AROUND : at + AROUND]
        cpu = statistics.median(cost for cost, _ in near)
        size = statistics.median(size for _, size in near)
        print(f"{at:>8} {cpu:>8.2f} {size:>14.0f}")


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 500)
