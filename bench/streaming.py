"""What one streamed token costs the runtime, beyond reading it from the socket.

    python bench/streaming.py [--tokens 20000] [--rounds 5]

The provider runs in a process of its own, so the process time measured here is that of the reader:
a bare httpx2 client that throws the bytes away, a session, and a session whose events somebody
follows. What an answer of one token costs is taken off, since that is the price of a step. Tokens
come as fast as they are read, so that many arrive together, or one by one. The goal is under 40 µs
for each token beyond the bare client.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
from _provider import running

from perdure import Runtime, Session
from perdure.history.events import TextDelta

GOAL = 40
PAUSES = {"together": 0.0, "one by one": 0.0002}
"""How tokens come, and the seconds between them."""

PATHS = {
    "openai-chat": "chat/completions",
    "openai-responses": "responses",
    "anthropic": "v1/messages",
    "gemini": "models/model-1:streamGenerateContent",
}
"""By protocol: where it is spoken."""


@asynccontextmanager
async def opened(protocol: str, address: str, stream: str) -> AsyncGenerator[Session]:
    """Open a session that has answered once, so that everything is loaded."""
    config = {
        "providers": {
            name: {
                "protocol": protocol,
                "base_url": f"{address}/{path}",
                "models": {"model-1": {"context_window": 10_000_000}},
            }
            for name, path in (("first", "1/0"), ("bench", stream))
        }
    }
    with tempfile.TemporaryDirectory() as root:
        async with Runtime.open(Path(root) / "sessions.db", config=config) as runtime:
            session = await runtime.create_session(directory=root, model="first/model-1")
            await session.prompt("Say one word.")
            await session.wait()
            await session.switch_model("bench/model-1")
            yield session


async def bare(protocol: str, address: str, stream: str) -> float:
    """Read the same bytes and do nothing with them; return seconds of CPU."""
    url = f"{address}/{stream}/{PATHS[protocol]}"
    async with httpx2.AsyncClient(timeout=None) as client:
        begun = time.process_time()
        async with client.stream("POST", url, json={}) as response:
            async for _ in response.aiter_bytes():
                pass
        return time.process_time() - begun


async def alone(protocol: str, address: str, stream: str) -> float:
    """Let a session answer while nobody looks; return seconds of CPU."""
    async with opened(protocol, address, stream) as session:
        begun = time.process_time()
        await session.prompt("Say it.")
        await session.wait(only_here=True)
        return time.process_time() - begun


async def followed(protocol: str, address: str, stream: str) -> float:
    """Let a session answer while somebody follows its events; return seconds of CPU."""
    words = 0
    async with opened(protocol, address, stream) as session:
        begun = time.process_time()
        admission = await session.prompt("Say it.")
        async for record in session.events(after=admission.seq, until_idle=True):
            if isinstance(record.data, TextDelta):
                words += record.data.text.count(" ")
        spent = time.process_time() - begun
    if words != int(stream.partition("/")[0]):
        raise SystemExit(f"of {stream} only {words} tokens were heard")
    return spent


Reader = Callable[[str, str, str], Awaitable[float]]
READERS: tuple[Reader, ...] = (bare, alone, followed)


async def each_token(
    reader: Reader, address: str, protocol: str, tokens: int, pause: float
) -> float:
    """Return microseconds of CPU for each token of an answer, beyond those of the step."""
    first = await reader(protocol, address, "1/0")
    whole = await reader(protocol, address, f"{tokens}/{pause}")
    return (whole - first) / (tokens - 1) * 1e6


async def measure(
    address: str, protocol: str, tokens: int, pause: float, rounds: int
) -> list[float]:
    """Return the medians of each reader. They take turns, for the machine may have other work."""
    spent: list[list[float]] = [[] for _ in READERS]
    for _ in range(rounds):
        for reader, times in zip(READERS, spent, strict=True):
            times.append(await each_token(reader, address, protocol, tokens, pause))
    return [statistics.median(times) for times in spent]


async def main(tokens: int, rounds: int) -> None:
    """Print a line for each protocol and pace, and the worst of all."""
    worst = 0.0
    print(
        f"{'µs of CPU for each token':<30} {'bare':>8} {'session':>9} {'followed':>9} {'beyond':>8}"
    )
    with running("_tokens.py") as address:
        for pace, pause in PAUSES.items():
            for protocol in PATHS:
                # With pauses, fewer are enough: their time is longer than that of the work.
                count = tokens // 5 if pause else tokens
                read, quiet, heard = await measure(address, protocol, count, pause, rounds)
                beyond = heard - read
                worst = max(worst, beyond)
                name = f"{protocol}, {pace}"
                print(f"{name:<30} {read:>8.1f} {quiet:>9.1f} {heard:>9.1f} {beyond:>8.1f}")
    print(f"worst: {worst:.1f} µs beyond the bare client (goal: under {GOAL})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    anyio.run(main, given.tokens, given.rounds)
