"""Servers over HTTP that misbehave, one way at a time."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import anyio
import pytest

from perdure.config.schema import McpServer
from perdure.errors import ToolError
from perdure.mcp.http import LARGEST_ANSWER
from tests.mcp.wild import held, until
from tests.mcp.wild_server import text, tool

pytestmark = pytest.mark.anyio

TOOLS = [tool(name) for name in ("echo", "cut", "much", "held")]


class Wild(BaseHTTPRequestHandler):
    """Speaks the older protocol: each request has an answer of its own."""

    protocol_version = "HTTP/1.1"
    begun: Event
    release: Event

    def do_GET(self) -> None:
        self.answer(405, b"")

    def do_DELETE(self) -> None:
        self.answer(200, b"")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        params: dict[str, Any] = asked.get("params") or {}
        match asked["method"]:
            case "initialize":
                self.result(
                    asked,
                    {
                        "protocolVersion": "2025-06-18",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "wild", "version": "1"},
                    },
                )
            case "tools/list":
                self.result(asked, {"tools": TOOLS})
            case "tools/call":
                self.call(asked, params["name"])
            case _:
                self.answer(202, b"")

    def call(self, asked: Any, name: str) -> None:
        if name == "cut":
            self.answer(200, b"", "text/event-stream")
        elif name == "held":
            self.begun.set()
            self.release.wait(60)
            self.result(asked, text("held"))
        else:
            self.result(asked, text("x" * LARGEST_ANSWER if name == "much" else name))

    def result(self, asked: Any, result: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        self.answer(200, body, "application/json")

    def answer(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client has had enough

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing on the terminal."""


@contextmanager
def served() -> Generator[tuple[dict[str, McpServer], type[Wild]]]:
    """Serve on loopback; give the configuration and the handler with its events."""

    class Handler(Wild):
        begun = Event()
        release = Event()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield {"wild": McpServer(url=f"http://127.0.0.1:{server.server_port}/mcp")}, Handler
        finally:
            Handler.release.set()
            server.shutdown()


async def test_an_answer_that_is_cut_off_costs_no_other_call(tmp_path: Path) -> None:
    with served() as (wanted, handler):
        async with held(wanted, tmp_path, {}) as servers:
            await servers.prepare()
            other: list[str] = []

            async def call() -> None:
                other.append(await servers.call("held"))

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await until(handler.begun.is_set)
                with pytest.raises(ToolError, match="ended during this call; it may have run"):
                    await servers.call("cut")
                handler.release.set()
            assert other == ["held"]


async def test_a_call_after_a_connection_that_failed_waits_for_the_next_one(tmp_path: Path) -> None:
    with served() as (wanted, _):
        async with held(wanted, tmp_path, {}) as servers:
            await servers.prepare()
            with pytest.raises(ToolError, match="ended during this call; it may have run"):
                await servers.call("much")
            assert await servers.call("echo") == "echo"
