"""Run a command under the guard: bounded in time, and never outliving this process."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
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
    move_on_after,
    open_process,
)
from anyio.abc import ByteReceiveStream, Process

from perdure.errors import ToolError

ENDING = 8.0
"""Seconds in which the guard ends by itself once it is asked to."""

_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_LINGER = 0.5  # seconds for what a finished command left running, such as the end of a pipeline
_GUARD = Path(__file__).with_name("_guard.py")
_REST = 1.0  # seconds to read what is still in the pipe when the guard has ended


class Ended(msgspec.Struct, frozen=True):
    """How a command ended.

    `status` is its exit code, or minus the signal that ended it. `timed_out`: it was ended because
    its time was up. `left`: it left processes behind, which were ended.
    """

    status: int
    timed_out: bool = False
    left: bool = False


async def run_supervised(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    seconds: float,
    on_output: Callable[[bytes], None],
) -> Ended:
    """Run a command; give its output and errors, as they come, to `on_output`.

    After `seconds`, or when cancelled, its whole process group gets SIGTERM, then SIGKILL, and is
    waited for; on Linux so is everything else that descends from it. The same happens without any
    grace when this process dies. Raise ToolError where it cannot be started.
    """
    try:
        process = await start_guarded(command, directory, environment)
    except OSError as error:
        raise ToolError(_cannot_start(error, directory)) from error
    limit = CancelScope(deadline=current_time() + seconds)
    try:
        async with create_task_group() as group:
            group.start_soon(_read, process.stdout, on_output)
            try:
                with limit:
                    await process.wait()
            finally:
                await _end(process)
            # All writers are gone with the guard, unless the command killed the guard itself.
            group.cancel_scope.deadline = current_time() + _REST
        return await _ended(process, timed_out=limit.cancelled_caught)
    finally:
        with CancelScope(shield=True):
            await process.aclose()


async def start_guarded(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], lifeline: int = 0
) -> Process:
    """Start a command under the guard, which ends it when the `lifeline` ends; raise OSError.

    That is the reading end of a pipe, or the standard input of the process that is returned. What
    each means for the input and output of the command is said in the guard.
    """
    python = [sys.executable or "python3", "-I", "-S"]
    guarded = [*python, str(_GUARD), str(_GRACE), str(_LINGER), str(lifeline), *command]
    started: list[Process] = []
    # Cancelled half way, nobody would hold the new process.
    with CancelScope(shield=True):
        process = await open_process(
            guarded,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=directory,
            env={**environment, "PWD": str(directory)},
            start_new_session=True,
            pass_fds=(lifeline,) if lifeline else (),
        )
        started.append(process)
    return started[0]


def _cannot_start(error: OSError, directory: Path) -> str:
    if error.errno == errno.E2BIG:
        return "the command is too long; write it to a file and run that"
    return f"cannot run a command in {directory}: {error.strerror}"


async def _end(process: Process) -> None:
    if process.returncode is not None or process.stdin is None:
        return
    with CancelScope(shield=True):
        with suppress(BrokenResourceError, ClosedResourceError):
            await process.stdin.send(b"x")
        with move_on_after(ENDING):
            await process.wait()
        if process.returncode is None:
            # The kernel holds what the guard could not end; without its guard, nobody waits for it.
            process.kill()


async def _read(stream: ByteReceiveStream | None, on_output: Callable[[bytes], None]) -> None:
    if stream is None:
        return
    with suppress(BrokenResourceError, ClosedResourceError):
        async for piece in stream:
            on_output(piece)


async def _ended(process: Process, *, timed_out: bool) -> Ended:
    back: list[bytes] = []
    with move_on_after(_REST):
        await _read(process.stderr, back.append)
    match b"".join(back).decode("utf-8", "replace").split(maxsplit=1):
        case ["ended", rest]:
            status, left = rest.split()
            return Ended(int(status), timed_out, left == "1")
        case ["error", reason]:
            # What follows it is the guard's own line about a child that never became the command.
            raise ToolError(f"the command could not be started: {reason.splitlines()[0]}")
        case _:
            return Ended(-signal.SIGKILL, timed_out)
