"""The demo as a whole: set up, played, judged, cleaned up."""

from __future__ import annotations

import signal
from collections.abc import Callable

import anyio
from anyio import TASK_STATUS_IGNORED, CancelScope
from anyio.abc import TaskStatus

from perdure.demo.findings import Evidence
from perdure.demo.scenes import play
from perdure.demo.screen import Look, Screen
from perdure.demo.script import scripted
from perdure.demo.stage import Stage
from perdure.demo.summary import judge, tell_how_to_look
from perdure.demo.world import KEY_NAME, World, temporary_world
from perdure.errors import PerdureError
from perdure.testing import ScriptedProvider, to_toml

_MODEL = "claude-opus-5"
_PERMISSIONS = {"permissions": {"edit": "allow", "shell": "allow"}}
_LONGEST = 120.0
"""Seconds after which something must be wrong."""

_INTRODUCTION = (
    "One session, in a small project made for it. The model is scripted, by a server of Perdure's "
    "own on the loopback address that is as strict as Anthropic's; no key is used. All else is "
    "real: HTTP, a database, files, processes, kill -9."
)


async def run_demo(write: Callable[[str], None], look: Look, *, pace: float, keep: bool) -> int:
    """Play the demo; return 0, 1 when a claim does not hold, or what a signal calls for.

    `write` gets the output piece by piece; `pace` is how many seconds a visitor gets to read a
    short line. Whatever was started or made is gone at the end; with `keep`, the directory stays
    if the demo came to its end. Raises PerdureError where the demo cannot be played.
    """
    stop = _Stop()
    code = 1
    async with anyio.create_task_group() as group:
        await group.start(stop.watch)
        with stop.scope, temporary_world() as world:
            code = await _run(world, Screen(write, look), pace=pace, keep=keep)
        group.cancel_scope.cancel()
    return stop.code or code


async def perform(world: World, screen: Screen, *, pace: float) -> Evidence:
    """Play the story in a World, on a provider of its own; return the evidence of it."""
    thinking = anyio.Event()
    async with ScriptedProvider(scripted(thinking), models=[_MODEL]) as provider:
        _configure(world, provider)
        stage = Stage(world, screen, pace=pace)
        await play(stage, thinking)
        return await stage.evidence(provider)


class _Stop:
    """Ends the demo at a signal. `code` is the exit code that it calls for, 0 while none came."""

    def __init__(self) -> None:
        self.code = 0
        self.scope = CancelScope()

    async def watch(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Wait for signals until cancelled, so that a second one does not disturb the cleaning."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                self.code = self.code or 128 + number
                self.scope.cancel()


async def _run(world: World, screen: Screen, *, pace: float, keep: bool) -> int:
    screen.title("perdure demo")
    screen.words(_INTRODUCTION)
    try:
        with anyio.fail_after(_LONGEST):
            evidence = await perform(world, screen, pace=pace)
    except TimeoutError as error:
        raise PerdureError(f"the demo did not end within {_LONGEST:g} s") from error
    holds = judge(screen, evidence)
    if keep:
        world.kept = True
        tell_how_to_look(screen, world, evidence.session)
    else:
        screen.words("All of this was temporary; with --keep it stays to be looked at.", "dim")
    return 0 if holds else 1


def _configure(world: World, provider: ScriptedProvider) -> None:
    config = _PERMISSIONS | provider.config(
        "anthropic", model=_MODEL, api_key_env=KEY_NAME, system_messages="native"
    )
    world.configuration.mkdir()
    (world.configuration / "config.toml").write_text(to_toml(config))
