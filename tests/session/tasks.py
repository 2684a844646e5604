"""A model for sessions that give tasks: each session is answered by what it was asked first."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure import Runtime, Session
from perdure.history import events as ev
from perdure.testing import (
    ReceivedRequest,
    Reply,
    ScriptedProvider,
    assert_prefix_kept,
    call,
    calls,
)
from perdure.testing.provider import ProtocolName
from tests.session.support import Bench, of_type


class Cast:
    """Answers each session with the replies that stand under its first prompt, in order."""

    def __init__(self, **roles: list[Reply]) -> None:
        self._roles = {name.replace("_", " "): iter(replies) for name, replies in roles.items()}
        self.asked: dict[str, list[ReceivedRequest]] = {name: [] for name in self._roles}

    def __call__(self, request: ReceivedRequest, _number: int) -> Reply:
        text = request.body.decode()
        # Who gives a task says its words too, in a call that comes after its own prompt.
        places = {name: text.find(f'"{name}.') for name in self._roles}
        role = min((at, name) for name, at in places.items() if at >= 0)[1]
        self.asked[role].append(request)
        return next(self._roles[role])

    def require_kept_prefixes(self) -> None:
        """Require that each request of a session begins with its last one."""
        for requests in self.asked.values():
            assert_prefix_kept(requests)


@asynccontextmanager
async def bench(
    root: Path, cast: Cast, protocol: ProtocolName = "openai-chat", **options: Any
) -> AsyncGenerator[Bench]:
    """Open a bench for sessions of several kinds; each keeps its own prefix."""
    async with ScriptedProvider(cast, **options) as provider:
        yield Bench(root, provider, protocol)
        cast.require_kept_prefixes()
        assert not provider.refused


def task(prompt: str, description: str = "A part of it") -> tuple[str, dict[str, Any]]:
    """Return a call that gives a task with that prompt."""
    return ("task", {"description": description, "prompt": f"{prompt}."})


def gives(*prompts: str) -> Reply:
    """Return an answer that gives tasks with these prompts, all at once."""
    return calls(*map(task, prompts))


def numbered(prompt: str) -> Reply:
    """Return an answer that gives one task, by a call whose id is always the same."""
    return calls(call(*task(prompt), id="call_1"))


async def begun(b: Bench, runtime: Runtime, count: int, **options: Any) -> Session:
    """Begin a session, and return it when so many requests have come."""
    session = await b.session(runtime, **options)
    await session.prompt("main.")
    await b.provider.received(count)
    return session


async def only_child(runtime: Runtime, session: Session) -> Session:
    """Return the session of the one task that was given."""
    (row,) = await session.children()
    return await runtime.session(row.id)


def results(records: Any) -> list[tuple[str, str]]:
    """Return outcome and words of each call that was settled."""
    return [(each.outcome, each.output) for each in of_type(records, ev.ToolSettled)]
