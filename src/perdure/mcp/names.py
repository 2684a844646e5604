"""What the tools and sources of a server are called here.

A server's name has no underscore, so `mcp_NAME_TOOL` says whose tool it is, even after a restart
at which the server cannot be reached.
"""

from __future__ import annotations

import re
from hashlib import sha256

PREFIX = "mcp_"
_LONGEST = 64
_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(server: str, tool: str) -> str:
    """Return the name under which a server's tool is offered; always the same for the same two.

    Where the tool's own name cannot be kept whole, a digest of it tells it from others.
    """
    start = f"{PREFIX}{server}_"
    usable = _UNUSABLE.sub("_", tool)
    if usable == tool and len(start) + len(tool) <= _LONGEST:
        return start + tool
    digest = sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{start}{usable[: _LONGEST - len(start) - 9]}_{digest}"


def server_of(name: str) -> str | None:
    """Return the server that a tool with that name would belong to; None for other tools."""
    if not name.startswith(PREFIX):
        return None
    server, found, _ = name.removeprefix(PREFIX).partition("_")
    return server if found and server else None


def instructions_key(server: str) -> str:
    """Return the key of the source with a server's instructions."""
    return f"mcp.{server}/instructions"


def tools_key(server: str) -> str:
    """Return the key of the source with a server's list of tools."""
    return f"mcp.{server}/tools"
