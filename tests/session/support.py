"""A runtime over a real database file, against the strict scripted provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from perdure import Runtime, Session
from perdure.clock import Clock, SystemClock
from perdure.history import events as ev
from perdure.session.attempts import RetryPolicy
from perdure.session.reading import AnyRecord
from perdure.store.sqlite import open_sqlite
from perdure.testing import (
    ReceivedRequest,
    ScriptedProvider,
    assert_prefix_kept,
    isolated_environment,
)
from perdure.testing.provider import PROTOCOLS, ProtocolName

KEY = "SCRIPTED_API_KEY"


class Bench:
    """One directory with a project and a database, and the provider that everything talks to."""

    def __init__(self, root: Path, provider: ScriptedProvider, protocol: ProtocolName) -> None:
        self.root = root
        self.project = root / "project"
        self.project.mkdir(exist_ok=True)
        self.store = root / "sessions.db"
        self.provider = provider
        self.config = provider.config(protocol, api_key_env=KEY)
        self.environ = isolated_environment(root) | {KEY: "scripted-key"}
        self.prefix_may_break = ""

    def take_images(self, taken: bool) -> None:
        """Configure whether the model takes images."""
        self.config["providers"]["scripted"]["models"]["model-1"]["images"] = taken

    @asynccontextmanager
    async def runtime(self, **options: Any) -> AsyncGenerator[Runtime]:
        """Open a runtime; leaving it is a graceful end of the process."""
        config = self.config | options.pop("config", {})
        options.setdefault("retry", RetryPolicy(base=0.001))
        async with Runtime.open(
            self.store, config=config, environ=self.environ, **options
        ) as runtime:
            yield runtime

    async def session(self, runtime: Runtime, **options: Any) -> Session:
        """Begin a session in the project."""
        return await runtime.create_session(directory=self.project, **options)

    async def log(self, session: str) -> list[ev.Record]:
        """Return the log of a session from the file, whatever works on it."""
        async with await open_sqlite(self.store, clock=SystemClock()) as store:
            return list(await store.events(session))

    async def crash(self, logs: Mapping[str, Sequence[ev.Record]]) -> None:
        """Go on with a new store that holds these logs, as a crash leaves them there."""
        self.store = self.store.with_name(f"crashed-{self.store.name}")
        async with await open_sqlite(self.store, clock=SystemClock()) as store:
            for session, records in logs.items():
                await store.restore(session, records)


@asynccontextmanager
async def bench(
    root: Path,
    script: Any,
    protocol: ProtocolName = "openai-chat",
    *,
    images: bool = False,
    **options: Any,
) -> AsyncGenerator[Bench]:
    """Open a bench; on leaving, every request must hold the one before it as a prefix.

    A test that breaks the prefix on purpose says why in `prefix_may_break`. `images` says whether
    the model takes them.
    """
    async with ScriptedProvider(script, **options) as provider:
        opened = Bench(root, provider, protocol)
        if images:
            opened.take_images(True)
        yield opened
        if not opened.prefix_may_break:
            assert_prefix_kept([request.json for request in provider.requests])


async def ask(session: Session, text: str, **options: Any) -> list[AnyRecord]:
    """Prompt and return everything that happened until the session was idle again."""
    admission = await session.prompt(text, **options)
    return [record async for record in session.events(after=admission.seq - 1, until_idle=True)]


def of_type(records: Iterable[AnyRecord], kind: type[Any] | tuple[type[Any], ...]) -> list[Any]:
    """Return the data of the records of one type, or of several."""
    return [record.data for record in records if isinstance(record.data, kind)]


async def log_of(session: Session) -> list[ev.Record]:
    """Return the session's durable events."""
    records = [record async for record in session.events(until_idle=True)]
    return [record for record in records if isinstance(record, ev.Record)]


def up_to(records: Sequence[ev.Record], kind: type[ev.Event]) -> Sequence[ev.Record]:
    """Return a log up to its first event of that kind, that one included."""
    return records[: [type(record.data) for record in records].index(kind) + 1]


def told(records: Iterable[AnyRecord]) -> list[str]:
    """Return the texts of the System Messages."""
    return [event.text for event in of_type(records, ev.SystemMessage)]


def one_provider_each(
    provider: ScriptedProvider, models: Mapping[ProtocolName, str] | None = None, **settings: Any
) -> dict[str, Any]:
    """Return a configuration with a provider for each protocol, named after it.

    `models` are their models, `settings` those of each model.
    """
    whole: dict[str, Any] = {}
    for protocol in PROTOCOLS:
        model = (models or {}).get(protocol, "model-1")
        one = provider.config(protocol, name=protocol, model=model, api_key_env=KEY, **settings)
        whole |= one["providers"]
    return {"providers": whole}


def by_epoch(
    steps: Iterable[ev.StepStarted], requests: Iterable[ReceivedRequest]
) -> Iterator[list[ReceivedRequest]]:
    """Yield the requests of each Context Epoch; there is one for each step."""
    pairs = zip(steps, requests, strict=True)
    for _, epoch in groupby(pairs, key=lambda pair: pair[0].epoch):
        yield [request for _, request in epoch]


__all__ = [
    "Bench",
    "Clock",
    "ask",
    "bench",
    "by_epoch",
    "log_of",
    "of_type",
    "one_provider_each",
    "told",
]
