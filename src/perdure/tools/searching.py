"""Look through files in a child process that is bounded in time and memory."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import msgspec
from anyio import (
    BrokenResourceError,
    CancelScope,
    ClosedResourceError,
    create_task_group,
    current_time,
    open_process,
)
from anyio.abc import ByteReceiveStream, Process

from perdure.errors import ToolError
from perdure.tools.confine import Place

SECONDS = 20
"""How long a search may take."""

PROGRAM = Path(__file__).with_name("_search.py")
"""Our own search, run as a program."""

_LONGEST_LINE = 1024 * 1024
_LONGEST_COMPLAINT = 4096


class Search(msgspec.Struct, frozen=True):
    """What to look for at a place.

    `shown` is put before the path of every result. `limit` results are told at most. `file` names
    the one file at the place to look into, empty for all that is there and below.
    """

    task: str
    place: Place
    limit: int
    shown: str = ""
    pattern: str = ""
    include: str = ""
    seconds: int = SECONDS
    file: str = ""


class Finds(msgspec.Struct, frozen=True):
    """What was found, in order.

    `more` results were left out, `ignored` names are ignored by git, `deeper` directories were too
    deep to look into. `complete` is False where the time was up.
    """

    found: tuple[str, ...]
    more: int = 0
    ignored: int = 0
    deeper: int = 0
    complete: bool = True


def shown_prefix(place: Place) -> str:
    """Return what makes paths found at a place relative to the Location."""
    return "" if place.shown == "." else place.shown.rstrip("/") + "/"


def remark(finds: Finds, more: str = "") -> str:
    """Say what a result does not show; `more` names what was over the limit."""
    parts = (
        more.format(finds.more) if finds.more else "",
        f"{finds.deeper} directories are too deep to look into." if finds.deeper else "",
        "" if finds.complete else "The time was up before everything was looked at; narrow it.",
    )
    return "\n".join(filter(None, parts))


class _Line(msgspec.Struct, frozen=True):
    found: str = ""
    error: str = ""
    ended: bool = False
    more: int = 0
    ignored: int = 0
    deeper: int = 0


async def search(wanted: Search) -> Finds:
    """Search with our own program. Raise ToolError where pattern or directory are refused."""
    found: list[str] = []
    last: list[_Line] = []

    def take(data: bytes) -> bool:
        line = msgspec.json.decode(data, type=_Line)
        if line.ended or line.error:
            last.append(line)
        else:
            found.append(line.found)
        return True

    command = [sys.executable or "python3", "-I", str(PROGRAM)]
    ended = await run_lines(command, request_for(wanted), None, wanted.seconds, take)
    if not last:
        if ended.timed_out:
            return Finds(tuple(found), complete=False)
        raise ToolError(f"the search failed: {_reason(ended.complaint)}")
    end = last[0]
    if end.error:
        raise ToolError(end.error)
    return Finds(tuple(found), end.more, end.ignored, end.deeper)


class Run(msgspec.Struct, frozen=True):
    """How a child process ended: whether its time was up, and what it wrote to its errors."""

    timed_out: bool
    complaint: str


async def run_lines(
    command: Sequence[str],
    request: bytes,
    directory: Path | None,
    seconds: float,
    take: Callable[[bytes], bool],
) -> Run:
    """Run a program that only reads; give each line of its output to `take`.

    It is killed when `take` returns False, after `seconds`, and when this is cancelled. Lines
    longer than a megabyte are left out.
    """
    started: list[Process] = []
    # Cancelled half way, nobody would hold the new process.
    with CancelScope(shield=True):
        process = await open_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=directory)
        started.append(process)
    complaint = bytearray()
    limit = CancelScope(deadline=current_time() + seconds)
    try:
        with limit:
            await _converse(started[0], request, take, complaint)
            await started[0].wait()
    finally:
        _kill(started[0])
        with CancelScope(shield=True):
            await started[0].aclose()
    return Run(limit.cancelled_caught, complaint.decode("utf-8", "replace"))


async def _converse(
    process: Process, request: bytes, take: Callable[[bytes], bool], complaint: bytearray
) -> None:
    async with create_task_group() as group:
        group.start_soon(_keep_some, process.stderr, complaint)
        if process.stdin is not None:
            # A program that ended early says why on its errors.
            with suppress(BrokenResourceError, ClosedResourceError):
                await process.stdin.send(request)
            await process.stdin.aclose()
        async for line in _lines(process.stdout):
            if not take(line):
                _kill(process)
                break


async def _keep_some(stream: ByteReceiveStream | None, kept: bytearray) -> None:
    if stream is not None:
        async for piece in stream:
            kept += piece[: _LONGEST_COMPLAINT - len(kept)]


async def _lines(stream: ByteReceiveStream | None) -> AsyncGenerator[bytes]:
    rest = b""
    if stream is not None:
        async for piece in stream:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if len(line) <= _LONGEST_LINE:
                    yield line
            # Kept just long enough to be seen as too long when its end comes.
            rest = rest[: _LONGEST_LINE + 1]


def _kill(process: Process) -> None:
    # Not `process.kill()`: it may collect the exit code, which the event loop waits for, too.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def request_for(wanted: Search) -> bytes:
    """Return what our own program reads."""
    place = wanted.place
    return msgspec.json.encode(
        {
            "task": wanted.task,
            "root": str(place.root),
            "names": place.path.relative_to(place.root).parts,
            "shown": wanted.shown,
            "pattern": wanted.pattern,
            "include": wanted.include,
            "file": wanted.file,
            "limit": wanted.limit,
            # A little later than we would end it, for when we are gone.
            "seconds": wanted.seconds + 1,
            # Nothing from the directory that somebody happens to be in.
            "path": [path for path in sys.path if Path(path).is_absolute()],
        }
    )


def _reason(complaint: str) -> str:
    lines = complaint.strip().splitlines()
    return lines[-1] if lines else "it ended without an answer"
