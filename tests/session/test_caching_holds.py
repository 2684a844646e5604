"""Whatever happens to a session: while the provider caches well, no request is said to miss it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import PerdureError, Runtime, Session
from perdure.history import events as ev
from perdure.testing import FakeClock, Reply, call, calls, error, say, think
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.session.support import Bench, ask, bench, log_of
from tests.session.test_caching import begin
from tests.session.test_epochs import flag

REPLIES = {
    "say": say("ok"),
    "think": think("Hm.") + say("ok"),
    "tool": call("list", {"path": "."}),
    # A tool that is unknown costs nothing, and its result is a block like all others.
    "tools": calls(*[call("nothing")] * 25),
    "fail": error(400),
    "retry": error(503),
}
ASKED = ("fork", "revert", "switch", "back", "compact", "move")
HAPPENS = ("tell", "block", "wait", "restart")
DEEDS = st.lists(st.sampled_from([*REPLIES, *REPLIES, *ASKED, *HAPPENS]), min_size=3, max_size=8)


class World:
    """One session that things happen to, and the forks that it leaves behind."""

    def __init__(self, b: Bench, clock: FakeClock) -> None:
        self.wanted: list[Reply] = []
        self.flag: list[Any] = ["up"]
        self.sessions: list[str] = []
        self._b = b
        self._clock = clock

    async def do(self, runtime: Runtime, deed: str) -> None:
        session = await runtime.session(self.sessions[-1])
        if deed in REPLIES:
            self.wanted.append(REPLIES[deed])
            await ask(session, f"Now {deed}.")
        elif deed in {"switch", "back"}:
            await session.switch_model(f"scripted/model-{2 if deed == 'switch' else 1}")
        elif deed == "fork":
            self.sessions.append((await session.fork()).id)
        elif deed == "revert":
            await self._revert(session)
        elif deed == "compact":
            # Here and at a revert: some moments refuse it, and the session is as it was then.
            with suppress(PerdureError):
                await session.compact()
        elif deed == "move":
            (self._b.project / "side").mkdir(exist_ok=True)
            await session.move(self._b.project / "side")
        elif deed in {"tell", "block"}:
            self.flag[0] = None if deed == "block" else f"up {len(self.wanted)}"
        elif deed == "wait":
            self._clock.advance(1000)

    async def _revert(self, session: Session) -> None:
        answers = [
            record.seq
            for record in await log_of(session)
            if isinstance(record.data, ev.AssistantMessage)
        ]
        if answers:
            with suppress(PerdureError):
                await session.revert(answers[len(answers) // 2])


async def play(root: Path, protocol: ProtocolName, deeds: Sequence[str]) -> None:
    clock = FakeClock()
    worlds: list[World] = []

    def reply(_request: Any, _number: int) -> Reply:
        return worlds[0].wanted.pop() if worlds[0].wanted else say("ok")

    async with bench(root, reply, protocol) as b:
        b.prefix_may_break = "anything may happen"
        worlds.append(world := World(b, clock))
        for life in _lives(deeds):
            async with b.runtime(clock=clock, sources=[flag(world.flag)]) as runtime:
                if not world.sessions:
                    world.sessions.append((await begin(b, runtime)).id)
                for deed in life:
                    await world.do(runtime, deed)
                await _check(runtime, world.sessions)


def _lives(deeds: Sequence[str]) -> list[list[str]]:
    """Return what is done in each life of the process."""
    lives: list[list[str]] = [[]]
    for deed in deeds:
        if deed == "restart":
            lives.append([])
        else:
            lives[-1].append(deed)
    return lives


async def _check(runtime: Runtime, sessions: Sequence[str]) -> None:
    for each in sessions:
        report = await (await runtime.session(each)).cache()
        assert report.missed == ()
        for request in report.requests:
            if request.reported and request.usage is not None and request.usage.input:
                assert request.predicted <= request.usage.cache_read


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_flagged_while_the_provider_caches_well(protocol: ProtocolName) -> None:
    @settings(max_examples=8, deadline=None)
    @given(DEEDS)
    def played(deeds: list[str]) -> None:
        with tempfile.TemporaryDirectory() as root:
            anyio.run(play, Path(root), protocol, deeds)

    played()
