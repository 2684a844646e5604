"""One connection to a server, over whichever transport. Importing this imports the SDK (slow)."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Any

import anyio
import anyio.to_thread
from mcp.client._transport import TransportStreams
from mcp.client.client import Client
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    Implementation,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from perdure.background import background
from perdure.errors import ToolError
from perdure.mcp.http import http
from perdure.mcp.offer import Offer, read_offer
from perdure.mcp.results import output, words
from perdure.mcp.server import LinkLost
from perdure.mcp.sieve import Sieve
from perdure.mcp.stdio import stdio
from perdure.mcp.target import Progress, Target
from perdure.tools.base import ToolOutput
from perdure.tools.printable import printable, shortened

_PAGES = 50
_SETTLING = 0.2  # seconds in which changes of a list count as one
_AGAIN = 30.0  # seconds until a lost subscription is tried again
_LISTING = 30.0

# Without a handler, what the SDK has to say about a server would go to the terminal.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Link:
    """A connection that stands. `lost` is set when it has ended."""

    def __init__(self, target: Target, client: Client, sieve: Sieve, lost: anyio.Event) -> None:
        self.lost = lost
        self._target = target
        self._client = client
        self._sieve = sieve
        self._listing = anyio.Lock()

    async def offer(self) -> Offer:
        """Ask what the server offers now."""
        listed: list[Any] = []
        async with self._listing:
            if self._client.server_capabilities.tools is not None:
                listed = await self._list()
        config = self._target.config
        return await anyio.to_thread.run_sync(
            read_offer, self._target.name, self._client.instructions, listed, config.tools
        )

    async def _list(self) -> list[Any]:
        self._sieve.take()
        cursor: str | None = None
        with anyio.fail_after(_LISTING):
            for _ in range(_PAGES):
                page = await self._client.list_tools(cursor=cursor, cache_mode="bypass")
                cursor = page.next_cursor
                if cursor is None:
                    break
        return self._sieve.take()

    async def call(self, tool: str, arguments: dict[str, Any], on_progress: Progress) -> ToolOutput:
        """Call a tool and return what it says and shows. Cancelling it tells the server so.

        Raises ToolError for whatever the tool or the server says against it, and where it is not
        done in time; LinkLost where the connection ends before it is done.
        """

        async def show(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            on_progress(_progress(progress, total, message))

        name, seconds = self._target.name, self._target.config.timeout
        try:
            with anyio.fail_after(seconds):
                result = await self._client.call_tool(tool, arguments, progress_callback=show)
        except TimeoutError as error:
            raise ToolError(
                f"the MCP server {name} did not answer in {seconds:g} s and was told to stop; "
                "it may have run"
            ) from error
        except MCPError as error:
            if _is_over(error):
                self.lost.set()
            if self.lost.is_set() or _is_cut(error):
                raise LinkLost from error
            said = shortened(self._target.tail.masked(str(error)), 1000)
            raise ToolError(f"the MCP server {name} answered with an error: {said}") from error
        except Exception as error:
            if self.lost.is_set():
                raise LinkLost from error
            said = shortened(self._target.tail.masked(_fault(error)), 1000)
            raise ToolError(
                f"the answer of the MCP server {name} is wrong: {said}; the call may have run"
            ) from error
        if result.is_error:
            raise ToolError(words(result) or "the tool failed and did not say why")
        return await anyio.to_thread.run_sync(output, result)


@asynccontextmanager
async def linked(target: Target, on_offer: Callable[[Offer], None]) -> AsyncGenerator[Link]:
    """Connect, tell what is offered, and tell it again whenever the server says it has changed."""
    lost, changed = anyio.Event(), _Flag()

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    sieves: list[Sieve] = []

    @asynccontextmanager
    async def transport() -> AsyncGenerator[TransportStreams]:
        async with _streams(target) as (incoming, outgoing):
            sieves.append(Sieve(incoming, lost))
            yield sieves[0], outgoing

    async with Client(
        transport(),
        message_handler=hear,
        client_info=Implementation(name="perdure", version=version("perdure")),
        cache=None,
    ) as client:
        link = Link(target, client, sieves[0], lost)
        on_offer(await link.offer())
        async with background() as group:
            group.start_soon(_listen, client, changed)
            group.start_soon(_follow, link, changed, on_offer)
            yield link


def _streams(target: Target) -> AbstractAsyncContextManager[TransportStreams]:
    config = target.config
    if config.url:
        return http(config.url, target.token, target.tail)
    return stdio(config.command, config.args, target.directory, target.env, target.tail)


class _Flag:
    """Something to be woken by, again and again."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        """Wait until it is set; it is clear afterwards."""
        await self._event.wait()
        self._event = anyio.Event()


async def _follow(link: Link, changed: _Flag, on_offer: Callable[[Offer], None]) -> None:
    while True:
        await changed.wait()
        await anyio.sleep(_SETTLING)
        await _contained(lambda: _renew(link, on_offer))


async def _renew(link: Link, on_offer: Callable[[Offer], None]) -> None:
    on_offer(await link.offer())


async def _listen(client: Client, changed: _Flag) -> None:
    """Hear of changes from a server of the newer protocol, which tells only who asks for it."""
    tools = client.server_capabilities.tools
    if tools is None or not tools.list_changed:
        return

    async def hear() -> None:
        async with client.listen(tools_list_changed=True) as events:
            async for _ in events:
                changed.set()

    while await _contained(hear):
        await anyio.sleep(_AGAIN)
        changed.set()  # what changed meanwhile was not heard


async def _contained(do: Callable[[], Awaitable[None]]) -> bool:
    """Do something that the server may make fail; return whether it is worth to do it again."""
    try:
        await do()
    except ListenNotSupportedError:
        return False
    except (MCPError, SubscriptionLost, TimeoutError, ValueError, OSError):
        return True
    return True


def _is_over(error: MCPError) -> bool:
    """Say whether the SDK reports that a connection is over.

    It has ended, or a server over HTTP that was restarted does not know it any more. Servers give
    the same codes to errors of their own, so that the words have to decide.
    """
    return (error.code, error.message) in {
        (CONNECTION_CLOSED, "Connection closed"),
        (INVALID_REQUEST, "Session terminated"),
    }


def _is_cut(error: MCPError) -> bool:
    """Say whether the SDK reports that a server over HTTP broke off one answer, and no other."""
    return error.code == CONNECTION_CLOSED and error.message.startswith("SSE stream")


def _fault(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return f"{type(error).__name__}: {error}"


def _progress(done: float, total: float | None, message: str | None) -> str:
    count = f"{done:g} of {total:g}" if total is not None else f"{done:g}"
    return f"{shortened(printable(message), 200)} ({count})\n" if message else f"{count}\n"
