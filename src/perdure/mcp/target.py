"""What it takes to connect to a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from perdure.config.schema import McpServer
from perdure.mcp.tail import Tail

Progress = Callable[[str], None]
"""Show text live; returns at once."""


class Target(msgspec.Struct, frozen=True):
    """What a connection needs. `env` is what a program gets, `token` what goes over HTTP."""

    name: str
    config: McpServer
    directory: Path
    env: Mapping[str, str]
    token: str | None
    tail: Tail

    def __repr__(self) -> str:
        return f"Target({self.name!r})"  # the rest holds secrets
