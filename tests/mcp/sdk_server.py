"""A server written with the SDK, which speaks the newest protocol: over HTTP or on its pipes.

`python sdk_server.py http PORT TOKEN` answers on loopback, only to who brings the token; the port
may be one that its caller has reserved with SO_REUSEPORT;
`python sdk_server.py stdio` on its input and output.
"""

from __future__ import annotations

import socket
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

server = MCPServer("sdk", instructions="Add with care.", log_level="CRITICAL")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(to: int, context: Context) -> str:
    """Count aloud."""
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"number {number}")
    return "counted"


@server.tool()
async def wait_for_ever() -> str:
    """Never come back."""
    await anyio.sleep_forever()
    return ""


@server.tool()
async def learn(context: Context) -> str:
    """Offer one tool more."""
    server.add_tool(subtract)
    await context.notify_tools_changed()
    return "learned"


async def subtract(a: int, b: int) -> int:
    """Subtract two numbers."""
    return a - b


def serve(port: int, token: str) -> None:
    async def guard(request: Request, call_next: RequestResponseEndpoint) -> Response:
        if request.headers.get("authorization") != f"Bearer {token}":
            return Response("who are you?", status_code=401)
        return await call_next(request)

    app = server.streamable_http_app()
    app.add_middleware(BaseHTTPMiddleware, dispatch=guard)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", port))
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http", port, token]:
            serve(int(port), token)
        case _:
            server.run("stdio")
