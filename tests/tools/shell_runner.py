"""A process like a runtime: runs one shell command, given with its directory, and may be killed."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import msgspec

from perdure.history.content import ToolCall
from perdure.tools import ToolContext, builtin_tools, settle


def main() -> None:
    directory = Path(sys.argv[1])
    context = ToolContext(
        session="session",
        call="call",
        directory=directory,
        project=directory,
        outputs=directory / "outputs",
        progress=print,
    )
    arguments = msgspec.json.encode({"command": sys.argv[2]}).decode()
    anyio.run(settle, ToolCall("call", "shell", arguments), builtin_tools(), context)


if __name__ == "__main__":
    main()
