"""What the tests of the store share: a clock to set, events to append, processes to kill."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import apsw

from perdure.history import events as ev

WORKER = Path(__file__).with_name("store_worker.py")
CREATED = ev.SessionCreated(directory="/project", project="/project", model="a/one", marker="word")


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.wall = datetime(2026, 9, 1, tzinfo=UTC)
        self.seconds = 100.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await anyio.sleep(0)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self.wall += timedelta(seconds=seconds)


def admitted(prompt: str, text: str = "hello") -> ev.PromptAdmitted:
    return ev.PromptAdmitted(prompt=prompt, text=text)


class Worker:
    """Another process with the same database; talks in lines."""

    def __init__(self, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, WORKER, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def read(self) -> str:
        """Return its next line, empty at the end."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def rest(self) -> list[str]:
        """Return all lines until it ends."""
        assert self._process.stdout is not None
        return self._process.stdout.read().splitlines()

    def say(self, line: str = "") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Say that no more lines will come."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.stdin = None

    def kill(self) -> None:
        """End it with SIGKILL and leave it unreaped."""
        self._process.kill()

    def wait(self) -> int:
        return self._process.wait(timeout=60)

    def end(self) -> None:
        """Make sure that nothing of it is left."""
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=60)


@contextlib.contextmanager
def worker(*arguments: object) -> Generator[Worker]:
    process = Worker(*arguments)
    try:
        yield process
    finally:
        process.end()


@contextlib.contextmanager
def raw(path: Path) -> Generator[Any]:
    """Open the file behind the store's back."""
    connection = apsw.Connection(str(path))
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def unprivileged_directory() -> Generator[Path]:
    """Yield a directory in which permissions count, even where the tests run as root."""
    directory = Path(tempfile.mkdtemp(prefix="perdure-store-"))
    root = os.geteuid() == 0
    try:
        if root:
            os.chown(directory, 65534, 65534)
            os.seteuid(65534)
        yield directory
    finally:
        if root:
            os.seteuid(0)
        for each in (directory, *directory.iterdir()):
            each.chmod(0o700)
        for each in directory.iterdir():
            each.unlink()
        directory.rmdir()
