"""A server that does what servers do in the wild: late, dying, talking nonsense. Standard library.

`python wild_server.py DIRECTORY`: what it does is decided by files in that directory, which the
tests write. It speaks the older protocol, in which the client begins with `initialize`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(sys.argv[1]) if __name__ == "__main__" else Path()


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The {name}.", "inputSchema": {"type": "object"}} | more


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def note(name: str, words: object) -> None:
    with (HERE / name).open("a") as file:
        file.write(f"{words}\n")


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    instructions = HERE / "instructions"
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "wild", "version": "1"},
        **({"instructions": instructions.read_text()} if instructions.exists() else {}),
    }


def listed() -> dict[str, Any]:
    tools = HERE / "tools"
    return {
        "tools": json.loads(tools.read_text()) if tools.exists() else [tool(name) for name in TOOLS]
    }


def change(given: dict[str, Any]) -> Any:
    (HERE / "tools").write_text(json.dumps(given["tools"]))
    send({"method": "notifications/tools/list_changed"})
    return text("changed")


def nonsense(_: dict[str, Any]) -> Any:
    sys.stdout.write('hello, I am no message\n{"broken": \n\n')
    sys.stderr.write("a warning\n")
    return text("said")


def flood(_: dict[str, Any]) -> None:
    sys.stdout.write("x" * (17 * 1024 * 1024))
    sys.stdout.flush()


def spawn(_: dict[str, Any]) -> Any:
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    note("pids", child.pid)
    return text("spawned")


def steps(given: dict[str, Any]) -> Any:
    for done in (1, 2):
        progress = {"progressToken": given["token"], "progress": done, "total": 2}
        send({"method": "notifications/progress", "params": progress})
    return text("done")


def refuse(given: dict[str, Any]) -> None:
    send({"id": given["id"], "error": {"code": given["code"], "message": "the disk is full"}})


def answered(given: dict[str, Any]) -> None:
    send({"id": given["id"], **given["with"]})


TOOLS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "echo": lambda given: text(str(given.get("words"))),
    "die": lambda _: os._exit(1),
    "hang": lambda _: None,
    "huge": lambda _: text("\n".join(f"line {number}" for number in range(100_000))),
    "change": change,
    "parts": lambda given: {"content": given["parts"]},
    "env": lambda _: text(json.dumps(dict(os.environ))),
    "nonsense": nonsense,
    "flood": flood,
    "spawn": spawn,
    "fail": lambda _: text("it cannot be done", isError=True),
    "steps": steps,
    "half": lambda _: text("cut \ud83d"),
    "refuse": refuse,
    "answered": answered,
}


def answer(method: str | None, params: dict[str, Any], request: Any) -> Any:
    match method:
        case "initialize":
            return initialize(params)
        case "tools/list":
            return listed()
        case "tools/call":
            note("calls", params["name"])
            meta: dict[str, Any] = params.get("_meta") or {}
            given: dict[str, Any] = params.get("arguments") or {}
            return TOOLS[params["name"]](
                given | {"token": meta.get("progressToken"), "id": request}
            )
        case _:
            raise KeyError(method)


def main() -> None:
    note("pids", os.getpid())
    if (HERE / "broken").exists():
        sys.exit(f"it cannot start with {os.environ.get('WILD_TOKEN')}")
    while (HERE / "late").exists():
        time.sleep(0.01)
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        method: str | None = message.get("method")
        params: dict[str, Any] = message.get("params") or {}
        if "id" not in message:
            note(str(method).rpartition("/")[2], params)
            continue
        try:
            result = answer(method, params, message["id"])
        except KeyError:
            send({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})
        else:
            if result is not None:
                send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
