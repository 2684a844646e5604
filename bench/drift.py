"""What do facts that change cost, and does the model learn of them?

    python bench/drift.py

A trace of 60 steps with 30 changes: the date, an instruction file edited and deleted, a session
entry, a skill, and a fact of the program that changes and has outages. The same trace is counted
for

* perdure: the requests that a session really sends;
* rebuild: a runtime that puts the facts of now into its system prompt at each step;
* freeze: a runtime that keeps the system prompt of the first step.

The two others send the same prompts and answers; they are computed, not run. Tokens are bytes / 4.
`read` is what the provider's prompt cache already holds (the longest run of blocks, from the start,
that the last request had too), `written` is all that follows it. A cached token is billed at 0.1
and a written one at 1.25 of a fresh one, as Anthropic and OpenAI do for their short-lived caches.
The price takes 5 dollars for a million fresh tokens, the list price of Anthropic's Opus models.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec

from perdure import UNAVAILABLE, Runtime, Session, Source, Unavailable
from perdure.testing import (
    FakeClock,
    ScriptedProvider,
    blocks,
    isolated_environment,
    keeps_prefix,
    say,
)

STEPS = 60
ANSWER = "I looked at the parser and moved the check before the loop. " * 6
READ, WRITTEN = 0.1, 1.25
DOLLARS = 5 / 1_000_000

Request = dict[str, Any]


class Change(msgspec.Struct, frozen=True):
    """A change of the world before a step, and the words that the model must then have read."""

    make: Callable[[], Any]
    words: str | None


class World:
    """The facts of the trace, and what changes them."""

    def __init__(self, root: Path) -> None:
        self.clock = FakeClock(datetime(2026, 12, 1, 12, tzinfo=UTC))
        self.file = root / "AGENTS.md"
        self.weather: str | Unavailable = "dry"
        self.file.write_text("Rule 0: write short sentences. " * 20)

    def source(self) -> Source[str]:
        """Return the fact that has outages."""

        async def load() -> str | Unavailable:
            return self.weather

        return Source(
            key="trace/weather",
            type=str,
            load=load,
            baseline=lambda value: f"# Weather\n\nThe weather is {value}.",
            update=lambda _, current: f"# Weather\n\nThe weather is now {current}.",
        )

    def change(self, number: int, session: Session) -> Change:
        """Return the n-th of the thirty changes."""
        match number % 7:
            case 0:
                return Change(self.next_day, f"{self.clock.now() + timedelta(days=1):%Y-%m-%d}")
            case 1:
                text = f"Rule {number}: "
                return Change(lambda: self.file.write_text(f"{text}be exact. " * 20), text)
            case 2:
                branch = f"branch-{number}"
                return Change(lambda: session.set_entry("branch", branch), branch)
            case 3:
                return Change(lambda: self.set_weather(UNAVAILABLE), None)
            case 4:
                return Change(lambda: self.set_weather(f"w{number}"), f"w{number}")
            case 5:
                return Change(lambda: self.file.unlink(missing_ok=True), "no longer applies")
            case _:
                return Change(lambda: self.write_skill(number), f"Release {number}.")

    def write_skill(self, number: int) -> None:
        """Change what a skill is for."""
        folder = self.file.with_name(".agents") / "skills" / "release"
        folder.mkdir(parents=True, exist_ok=True)
        words = f"---\nname: release\ndescription: Release {number}.\n---\nTag and push."
        (folder / "SKILL.md").write_text(words)

    def next_day(self) -> None:
        """Let a day pass."""
        self.clock.set(self.clock.now() + timedelta(days=1))

    def set_weather(self, value: str | Unavailable) -> None:
        """Change the weather, or let nobody know it."""
        self.weather = value


class Bill(msgspec.Struct):
    """What one way to tell facts costs over the trace, in tokens."""

    read: int = 0
    written: int = 0
    told: int = 0
    kept: int = 0

    def count(self, previous: Request | None, request: Request) -> None:
        """Add one request, billed against the one before it."""
        held = [_tokens(block) for block in blocks(previous)] if previous else []
        was = [block.canonical() for block in blocks(previous)] if previous else []
        now = [block.canonical() for block in blocks(request)]
        same = next(
            (at for at, (a, b) in enumerate(zip(was, now, strict=False)) if a != b),
            min(len(was), len(now)),
        )
        self.read += sum(held[:same])
        self.written += sum(len(block) for block in now[same:]) // 4
        self.kept += previous is None or keeps_prefix(previous, request)

    @property
    def billed(self) -> float:
        """Tokens as billed, in fresh tokens."""
        return self.read * READ + self.written * WRITTEN


def _tokens(block: Any) -> int:
    return len(block.canonical()) // 4


async def trace() -> tuple[list[Request], list[Request], list[str | None]]:
    """Run the trace; return the requests, those of fresh sessions, and the words to be told.

    A fresh session at each step gives the Baseline that a rebuilding runtime would send.
    """
    requests: list[Request] = []
    rebuilt: list[Request] = []
    words: list[str | None] = []
    async with ScriptedProvider(lambda _request, _number: say(ANSWER)) as provider:
        with tempfile.TemporaryDirectory() as root:
            world = World(Path(root))
            async with Runtime.open(
                Path(root) / "sessions.db",
                config=provider.config(),
                environ=isolated_environment(Path(root)),
                sources=[world.source()],
                clock=world.clock,
            ) as runtime:
                session = await runtime.create_session(directory=root)
                for step in range(STEPS):
                    words.append(await _change(world, session, step))
                    requests.append(await _last_request(session, step))
                    fresh = await runtime.create_session(directory=root)
                    for name, value in (await session.state()).entries.items():
                        await fresh.set_entry(name, value)
                    rebuilt.append(await _last_request(fresh, step))
    return requests, rebuilt, words


async def _change(world: World, session: Session, step: int) -> str | None:
    if step % 2 == 0:
        return None
    change = world.change(step // 2, session)
    made = change.make()
    if hasattr(made, "__await__"):
        await made
    return change.words


async def _last_request(session: Session, step: int) -> Request:
    await session.prompt(f"Step {step}: go on with the parser.")
    await session.wait()
    return msgspec.json.decode(await session.request())


def plain(first: Request, systems: Sequence[str], step: int) -> Request:
    """Return the request of a runtime that sends a system prompt and the bare conversation."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": systems[step]}]
    for before in range(step + 1):
        prompt = f"Step {before}: go on with the parser."
        messages.append({"role": "user", "content": prompt})
        if before < step:
            messages.append({"role": "assistant", "content": ANSWER})
    return {**first, "messages": messages}


def _tells(previous: Request | None, request: Request, words: str) -> bool:
    """Say whether the words are new in the request."""
    now = msgspec.json.encode(request["messages"])
    before = msgspec.json.encode(previous["messages"]) if previous else b""
    return now.count(words.encode()) > before.count(words.encode())


def bill(requests: Sequence[Request], words: Sequence[str | None]) -> Bill:
    """Count a whole trace."""
    total = Bill()
    for step, request in enumerate(requests):
        previous = requests[step - 1] if step else None
        total.count(previous, request)
        said = words[step]
        if said is not None:
            total.told += _tells(previous, request, said)
    return total


async def main() -> None:
    """Measure and print."""
    requests, rebuilt, words = await trace()
    systems = [request["messages"][0]["content"] for request in rebuilt]
    first = requests[0]
    ways = {
        "perdure": requests,
        "rebuild": [plain(first, systems, step) for step in range(STEPS)],
        "freeze": [plain(first, systems[:1] * STEPS, step) for step in range(STEPS)],
    }
    due = sum(word is not None for word in words)
    changes = sum(step % 2 for step in range(STEPS))
    print(f"{STEPS} steps, {changes} changes, {due} of them visible (the others are outages)")
    print("             told    kept       read    written     billed   price  ratio")
    best = bill(requests, words).billed
    for name, sent in ways.items():
        sum_ = bill(sent, words)
        print(
            f"{name:>9} {sum_.told:>4}/{due} {sum_.kept:>4}/{STEPS} {sum_.read:>10,} "
            f"{sum_.written:>10,} {sum_.billed:>10,.0f} "
            f"{sum_.billed * DOLLARS:>6.2f}$ {sum_.billed / best:>6.2f}"
        )


if __name__ == "__main__":
    anyio.run(main)
