"""A session in which much has happened, its export, and what is done to exports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from perdure import Runtime, Session, Tool, ToolContext
from perdure.testing import Reply, call, calls, say
from perdure.testing.provider import ProtocolName
from tests.session.support import Bench, ask

PROTOCOLS: tuple[ProtocolName, ...] = ("openai-chat", "anthropic")
LINES = 3000


class FloodArguments(msgspec.Struct):
    """Which line to begin with."""

    first: int = 1


async def _flood(arguments: FloodArguments, _: ToolContext) -> str:
    return "\n".join(f"line {number} \u00e4\u001b" for number in range(arguments.first, LINES))


FLOOD = Tool(name="flood", description="Say more than fits.", arguments=FloodArguments, run=_flood)

SCRIPT: tuple[Reply, ...] = (
    calls(call("flood", {}, "flood-1"), call("list", {"path": "."}, "list-1")),
    say("That was much."),
    say("I see the entry."),
    say("A summary."),
    say("After the summary."),
    say("On the other model."),
)
"""The answers that `lively` needs."""


async def lively(bench: Bench, runtime: Runtime) -> Session:
    """Make a session with outputs, an entry, an instruction file, a compaction and a switch."""
    session = await bench.session(runtime, title="A busy one", instructions="Be exact.")
    await ask(session, "Say much.", hold=True)
    (bench.project / "AGENTS.md").write_text("Write short sentences.")
    await session.set_entry("ticket", {"id": 7, "tags": ["a", None]})
    await ask(session, "And now?")
    assert await session.compact()
    await ask(session, "Go on.")
    await session.switch_model("scripted/model-2")
    await ask(session, "With another model.")
    return session


def other_machine(bench: Bench, root: Path) -> Bench:
    """Return a bench with a home and a database of its own, and the same provider."""
    root.mkdir()
    (protocol,) = {each["protocol"] for each in bench.config["providers"].values()}
    return Bench(root, bench.provider, protocol)


def lines_of(export: bytes) -> list[dict[str, Any]]:
    """Return the lines as JSON data."""
    return [msgspec.json.decode(line) for line in export.splitlines()]


def signed(lines: Iterable[bytes]) -> bytes:
    """Return an export with these lines before its end, which is made anew."""
    body = [*lines]
    text = b"".join(line.rstrip(b"\n") + b"\n" for line in body)
    end = {
        "events": sum(line.startswith(b'{"seq":') for line in body),
        "outputs": sum(line.startswith(b'{"output":') for line in body),
        "sha256": hashlib.sha256(text).hexdigest(),
    }
    return text + msgspec.json.encode(end) + b"\n"


def edited(export: bytes, edit: Callable[[list[dict[str, Any]]], Any]) -> bytes:
    """Return an export whose lines were changed by somebody who knows the format."""
    lines = lines_of(export)[:-1]
    edit(lines)
    return signed(msgspec.json.encode(line) for line in lines)


def event_line_of(lines: Sequence[dict[str, Any]], kind: str, nth: int = 0) -> int:
    """Return the index of the n-th line with an event of that type."""
    found = [index for index, line in enumerate(lines) if line.get("type") == kind]
    return found[nth]


def everything_in(root: Path) -> set[str]:
    """Return what lies below a directory, but for the files of the database."""
    paths = (path.relative_to(root).as_posix() for path in root.rglob("*"))
    return {path for path in paths if not path.startswith("sessions.db") or "outputs" in path}
