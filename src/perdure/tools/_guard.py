"""Run one command so that nothing of it outlives the process that asked for it.

A program of its own: `python -I -S _guard.py GRACE LINGER LIFELINE PROGRAM ARGUMENT...`. It
imports nothing of Perdure, to start fast. The command gets a session and process group of its own.

LIFELINE is the number of a descriptor. With 0, standard input, the command gets no input, and this
program's output for both its output and its errors. With another one, the command gets this
program's input, output and errors as they are.

What a finished command left running, such as the end of a pipeline, has LINGER seconds to end.

The end of the lifeline means that the caller is gone (it may have been killed):
everything is killed at once. A byte on it asks for the end: SIGTERM, GRACE seconds, SIGKILL.
With lifeline 0, standard error carries one line back: `ended STATUS LEFT`, where STATUS is the
exit code, or minus the signal that ended the command, and LEFT is 1 where the command left
processes behind; or `error REASON` where the command could not be started.

On Linux everything that descends from the command is found, whatever group it moved to. Elsewhere
it is the process group.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Literal, NoReturn

LINUX = sys.platform == "linux"
_ROUNDS, _ROUND = 100, 0.05  # how often, and seconds apart, what is still there is killed
_SUBREAPER, _DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG


def main() -> None:
    """Run the command in `sys.argv` to its end and report."""
    grace, linger = float(sys.argv[1]), float(sys.argv[2])
    lifeline, command = int(sys.argv[3]), sys.argv[4:]
    family = Family(command, lifeline)
    family.watch()
    left = family.asked is None and not family.wait(linger)
    if left or family.asked == "end":
        family.terminate(linger if left else grace)
    family.kill()
    with suppress(BrokenPipeError):
        if lifeline == 0:
            os.write(2, f"ended {family.status} {int(left)}\n".encode())


class Family:
    """A command and everything that descends from it.

    `status` is the command's own end, None while it runs. `asked` is what came on the lifeline: an
    `end` that was asked for, or that the caller is `gone`.
    """

    def __init__(self, command: list[str], lifeline: int) -> None:
        self.status: int | None = None
        self.asked: Literal["end", "gone"] | None = None
        self._signals = _signal_pipe()
        _prctl(_SUBREAPER, 1)
        self._lifeline = lifeline
        self._command = _start(command, lifeline)

    def watch(self) -> None:
        """Return when the command has ended or something came on the lifeline."""
        while self._alive() and self.status is None and self.asked is None:
            self._pause(None)

    def wait(self, seconds: float) -> bool:
        """Return True when nothing is left, False after that time or when the caller is gone."""
        deadline = time.monotonic() + seconds
        while self._alive():
            rest = deadline - time.monotonic()
            if rest <= 0 or self.asked == "gone":
                return False
            self._pause(rest)
        return True

    def terminate(self, grace: float) -> None:
        """Ask what is left to end, and wait for that."""
        self._signal(signal.SIGTERM)
        self.wait(grace)

    def kill(self) -> None:
        """Kill whatever is left, and what turns up when its parent is gone."""
        for _ in range(_ROUNDS):
            if not self._alive():
                return
            self._signal(signal.SIGKILL)
            select.select([self._signals], [], [], _ROUND)
            _drained(self._signals)

    def _signal(self, number: int) -> None:
        _signal_group(self._command, number)
        for child in _children():
            # The command itself got it with its group, once is enough.
            if child != self._command:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(child, number)

    def _alive(self) -> bool:
        with suppress(ChildProcessError):
            while True:
                child, status = os.waitpid(-1, os.WNOHANG)
                if child == 0:
                    return True
                if child == self._command:
                    self.status = os.waitstatus_to_exitcode(status)
        return not LINUX and _signal_group(self._command, 0)

    def _pause(self, seconds: float | None) -> None:
        watched = [self._signals] if self.asked == "gone" else [self._signals, self._lifeline]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._signals in ready and _drained(self._signals).strip(bytes([signal.SIGCHLD])):
            self.asked = "end"
        if self._lifeline in ready:
            self.asked = "end" if os.read(self._lifeline, 1) else "gone"


def _signal_pipe() -> int:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _noted)
    return reading


def _noted(_number: int, _frame: object) -> None:
    """Let the signal reach the pipe instead of ending this program."""


def _drained(pipe: int) -> bytes:
    with suppress(BlockingIOError):
        return os.read(pipe, 4096)
    return b""


def _start(command: list[str], lifeline: int) -> int:
    guard = os.getpid()
    if lifeline:
        os.set_inheritable(lifeline, False)
    child = os.fork()
    if child == 0:
        _become(command, guard, alone=lifeline == 0)
    if lifeline:
        # Held here too, the command's pipes would not end with the command.
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
    return child


def _become(command: list[str], guard: int, *, alone: bool) -> NoReturn:
    back = os.dup(2)
    try:
        os.setsid()
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        # The interpreter ignores these; a command expects to be ended by them.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        if alone:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(1, 2)
        os.execv(command[0], command)  # noqa: S606 - running what it is told is its purpose
    except OSError as error:
        os.write(back, f"error {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _children() -> list[int]:
    own = os.getpid()
    with suppress(OSError), open(f"/proc/self/task/{own}/children") as file:  # noqa: PTH123
        return [int(child) for child in file.read().split()]
    return []


def _prctl(option: int, value: int) -> None:
    # Where it is missing, the process group is all that can be ended.
    if LINUX:
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
