"""One server of one project: connected when it is wanted, and again when it was lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
import anyio.to_thread
import msgspec

from perdure.clock import Clock
from perdure.config.schema import McpServer
from perdure.errors import ToolError
from perdure.mcp.offer import Offer, RemoteTool
from perdure.mcp.tail import Tail
from perdure.mcp.target import Progress, Target
from perdure.tools.base import ToolOutput
from perdure.tools.printable import printable, shortened

if TYPE_CHECKING:
    from perdure.mcp.link import Link

_log = logging.getLogger("perdure.mcp")

Status = Literal["idle", "starting", "ready", "lost"]
"""How a server stands; an idle one is started when it is wanted."""

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""The environment variables that each program gets; others have to be named."""


class LinkLost(Exception):
    """The connection ended while a call was under way."""


class Pace(msgspec.Struct, frozen=True):
    """Seconds: for a new server to join its first step, for a call to wait for a server, to
    connect, between two starts at most, until a server that nobody uses is ended, and after which
    an earlier failure does not count any more."""

    join: float = 5.0
    call: float = 10.0
    connect: float = 60.0
    longest_pause: float = 60.0
    unused: float = 900.0
    steady: float = 60.0


class Server:
    """Keeps one connection. All of it happens in `run`, in one task; the rest looks and waits."""

    def __init__(
        self,
        name: str,
        config: McpServer,
        directory: Path,
        env: Mapping[str, str],
        clock: Clock,
        pace: Pace,
    ) -> None:
        self.name = name
        self.config = config
        self.status: Status = "idle"
        self.problem = ""
        self.offer: Offer | None = None
        self.tail = Tail(env.get(each, "") for each in (*config.env, config.token_env or ""))
        self._directory = directory
        self._env = env
        self._clock = clock
        self._pace = pace
        self._link: Link | None = None
        self._wanted = anyio.Event()
        self._changed = anyio.Event()
        self._failures = 0
        self._refusals = 0
        self._rests = False
        self._calls = 0
        self._used = clock.monotonic()
        self._first_wanted: float | None = None

    def want(self) -> None:
        """Have it started if it is not; return at once."""
        self._used = self._clock.monotonic()
        if self._first_wanted is None:
            self._first_wanted = self._used
        self._wanted.set()

    async def joined(self) -> None:
        """Wait until it has been connected or has failed once, but not for long.

        The time counts from when it was first wanted, so that only its first step waits.
        """
        begun = self._first_wanted if self._first_wanted is not None else self._clock.monotonic()
        left = begun + self._pace.join - self._clock.monotonic()
        with anyio.move_on_after(max(left, 0)):
            while self.offer is None and not self._failures:
                await self._changed.wait()

    async def call(self, name: str, arguments: dict[str, Any], progress: Progress) -> ToolOutput:
        """Call the tool that is offered under this name; raise ToolError with what went wrong."""
        self._calls += 1
        try:
            link = await self._connected()
            return await link.call(self._remote(name), arguments, progress)
        except LinkLost as error:
            raise ToolError(
                f"the connection to the MCP server {self.name} ended during this call; it may have "
                "run. Look at what it changed before you repeat it."
            ) from error
        finally:
            self._calls -= 1
            self._used = self._clock.monotonic()

    async def reads_only(self, name: str) -> bool:
        """Say whether the server marks the tool as one that only reads.

        Waits for a server that has not said yet what it offers, as a call does.
        """
        if self.offer is None:
            with suppress(ToolError):
                await self._connected()
        tool = self._offered(name)
        return tool is not None and tool.reads_only

    async def run(self) -> None:
        """Connect whenever it is wanted, for ever; pause longer after each failure in a row."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            await self._once()
            if self._rests:
                await self._clock.sleep(self._pause())
                self._rests = False

    async def _once(self) -> None:
        self._set("starting")
        begun: float | None = None
        try:
            target = self._target()
            # The import takes about a second of a thread, and only who configures a server pays.
            linked = (await anyio.to_thread.run_sync(_module)).linked
            with anyio.fail_after(self._pace.connect) as limit:
                async with linked(target, self._take) as link:
                    limit.deadline = float("inf")
                    begun = self._clock.monotonic()
                    await self._use(link)
                    ended = "the connection has ended" if link.lost.is_set() else ""
        except Exception as error:  # noqa: BLE001 - what others made may fail in any way
            ended = self._words(error)
        if not ended:
            self._wanted = anyio.Event()
            self._failures = 0
            self._set("idle")
            return
        if begun is not None and self._clock.monotonic() - begun >= self._pace.steady:
            self._failures = 0
        self._failures += 1
        self._refusals += begun is None
        self._rests = self._pause() > 0
        self._set("lost", ended)

    async def _use(self, link: Link) -> None:
        self._link = link
        self._set("ready")
        try:
            await self._last(link)
        finally:
            self._link = None  # also where the connection fails under it

    async def _last(self, link: Link) -> None:
        """Return when the connection is lost or nobody has used it for long."""
        unused = self._pace.unused
        while self._calls or self._clock.monotonic() - self._used < unused:
            with anyio.move_on_after(unused / 4):
                await link.lost.wait()
                return

    async def _connected(self) -> Link:
        self.want()
        before = self._refusals
        with anyio.move_on_after(self._pace.call):
            while self._link is None and not self._rests and self._refusals == before:
                await self._changed.wait()
        if self._link is None:
            why = f" ({self.problem})" if self.problem else ""
            raise ToolError(
                f"not run: the MCP server {self.name} cannot be reached now{why}; "
                "go on without it, or tell the user"
            )
        return self._link

    def _remote(self, name: str) -> str:
        if tool := self._offered(name):
            return tool.remote
        raise ToolError(
            f"not run: the MCP server {self.name} does not offer {name} any more; go on without it"
        )

    def _offered(self, name: str) -> RemoteTool | None:
        tools = self.offer.tools if self.offer else ()
        return next((tool for tool in tools if tool.definition.name == name), None)

    def _take(self, offer: Offer) -> None:
        self.offer = offer
        for problem in offer.problems:
            _log.warning("MCP server %s: %s", self.name, problem)

    def _set(self, status: Status, problem: str = "") -> None:
        if problem and problem != self.problem:
            _log.warning("MCP server %s: %s", self.name, problem)
        self.problem = problem or (self.problem if status == "starting" else "")
        self.status = status
        self._changed.set()
        self._changed = anyio.Event()

    def _pause(self) -> float:
        # The first loss may be a restart on purpose, so it is tried again at once.
        if self._failures < 2:
            return 0.0
        return min(2.0 ** (self._failures - 2), self._pace.longest_pause)

    def _target(self) -> Target:
        config = self.config
        named = [*config.env, *([config.token_env] if config.token_env else [])]
        if missing := [each for each in named if not self._env.get(each)]:
            raise ToolError(f"the environment variable {missing[0]} is not set")
        env = {each: self._env[each] for each in (*_PASSED_ON, *config.env) if each in self._env}
        token = self._env[config.token_env] if config.token_env else None
        return Target(self.name, config, self._directory, env, token, self.tail)

    def _words(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        if isinstance(error, TimeoutError):
            said = f"it did not answer in {self._pace.connect:g} s"
        elif isinstance(error, ToolError):
            said = str(error)
        else:
            said = f"{type(error).__name__}: {error}"
        last = f"; it said last: {self.tail.lines[-1]}" if self.tail.lines else ""
        return shortened(printable(self.tail.masked(said + last)), 500)


def _module() -> Any:
    from perdure.mcp import link

    return link
