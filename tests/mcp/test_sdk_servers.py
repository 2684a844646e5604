"""Servers of the newest protocol, over HTTP and on pipes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from perdure.config.schema import McpServer
from perdure.errors import ToolError
from tests.mcp.wild import Held, held, until

pytestmark = pytest.mark.anyio

SCRIPT = Path(__file__).with_name("sdk_server.py")
TOKEN = "tok-98765"
ENV = {"PATH": os.environ["PATH"], "SDK_TOKEN": TOKEN, "WRONG_TOKEN": "tok-wrong"}


@contextmanager
def reserved() -> Generator[int]:
    """Yield a port that nobody else gets while the context is open, and nobody answers on yet."""
    with socket.socket() as chosen:
        chosen.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        chosen.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        chosen.bind(("127.0.0.1", 0))
        yield chosen.getsockname()[1]


@contextmanager
def served(port: int) -> Generator[None]:
    """Serve over HTTP on loopback while the context is open."""
    command = [sys.executable, str(SCRIPT), "http", str(port), TOKEN]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError("the server does not come up")


@pytest.fixture(scope="module")
def port() -> Generator[int]:
    with reserved() as chosen, served(chosen):
        yield chosen


def over_http(port: int, token_env: str = "SDK_TOKEN") -> dict[str, McpServer]:
    return {"wild": McpServer(url=f"http://127.0.0.1:{port}/mcp", token_env=token_env)}


ON_PIPES = {"wild": McpServer(command=sys.executable, args=(str(SCRIPT), "stdio"))}


@pytest.fixture(params=["http", "pipes"])
def wanted(request: pytest.FixtureRequest) -> dict[str, McpServer]:
    if request.param == "pipes":
        return ON_PIPES
    return over_http(request.getfixturevalue("port"))


async def test_it_is_connected_to_and_called(wanted: dict[str, McpServer], tmp_path: Path) -> None:
    async with held(wanted, tmp_path, ENV) as servers:
        (seen,) = (await servers.prepare()).seen
        assert seen.offer is not None
        assert seen.offer.instructions == "Add with care."
        assert await servers.call("add", a=20, b=22) == "42"
        assert await servers.call("count", to=2) == "counted"
        await until(lambda: len(servers.shown) == 2)
        with pytest.raises(ToolError, match="validation error"):
            await servers.call("add", a="many")
    assert servers.shown == ["number 1 (1 of 2)\n", "number 2 (2 of 2)\n"]


async def test_an_interrupted_call_lets_the_next_one_through(
    wanted: dict[str, McpServer], tmp_path: Path
) -> None:
    async with held(wanted, tmp_path, ENV) as servers:
        await servers.prepare()
        with anyio.move_on_after(0.1):
            await servers.call("wait_for_ever")
        assert await servers.call("add", a=1, b=1) == "2"


async def test_a_new_tool_is_heard_of(tmp_path: Path) -> None:
    with reserved() as port, served(port):
        for wanted in (ON_PIPES, over_http(port)):
            async with held(wanted, tmp_path, ENV) as servers:
                await servers.prepare()
                await servers.call("learn")
                await until(lambda: _offers(servers, "subtract"))
                assert await servers.call("subtract", a=3, b=1) == "2"


def _offers(servers: Held, tool: str) -> bool:
    (seen,) = servers.view().seen
    return seen.offer is not None and tool in {each.remote for each in seen.offer.tools}


async def test_a_wrong_token_is_said_and_never_shown(port: int, tmp_path: Path) -> None:
    async with held(over_http(port, "WRONG_TOKEN"), tmp_path, ENV) as servers:
        (standing,) = (await servers.prepare()).standing()
    assert standing.status == "lost"
    assert "HTTP 401" in standing.problems[0]
    assert "tok-wrong" not in standing.problems[0]


async def test_an_address_where_nothing_answers_is_a_lost_server(tmp_path: Path) -> None:
    with reserved() as port:
        async with held(over_http(port), tmp_path, ENV) as servers:
            (standing,) = (await servers.prepare()).standing()
    assert standing.status == "lost"
    assert "ConnectError" in standing.problems[0]


async def test_a_server_over_http_that_was_restarted_is_connected_to_again(tmp_path: Path) -> None:
    with reserved() as port:
        async with held(over_http(port), tmp_path, ENV) as servers:
            with served(port):
                await servers.prepare()
                assert await servers.call("add", a=1, b=1) == "2"
            with pytest.raises(ToolError, match="MCP server wild"):
                await servers.call("add", a=1, b=2)
            with served(port):
                await until_answered(servers)


async def until_answered(servers: Held) -> None:
    with anyio.fail_after(60):
        while True:
            try:
                assert await servers.call("add", a=1, b=3) == "4"
            except ToolError:
                await anyio.sleep(0.1)
            else:
                return
