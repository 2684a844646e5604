"""A command typed into a real terminal."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from perdure.testing import isolated_environment

# The new process takes its standard input as its controlling terminal, so that Ctrl-C reaches it.
_ENTRY = (
    "import os, sys; os.login_tty(0);"
    "os.execv(sys.executable, [sys.executable, '-m', 'perdure', *sys.argv[1:]])"
)
_PATIENCE = 60.0


class Typing:
    """A person at a terminal: sees what is on it, types."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.seen = ""
        self._master = master
        self._read_to = 0

    def until(self, text: str) -> str:
        """Wait until text appears behind what was waited for last; return what came before it."""
        deadline = time.monotonic() + _PATIENCE
        while (place := self.seen.find(text, self._read_to)) < 0:
            assert time.monotonic() < deadline, f"waited for {text!r}, saw {self.seen!r}"
            assert self._read(), f"waited for {text!r}, saw to the end {self.seen!r}"
        before = self.seen[self._read_to : place]
        self._read_to = place + len(text)
        return before

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def end(self) -> int:
        """Read to the end; return the exit code."""
        while self._read():
            pass
        return self.process.wait(_PATIENCE)

    def _read(self) -> bool:
        """Read what comes next; return False at the end."""
        ready, _, _ = select.select([self._master], [], [], _PATIENCE)
        assert ready, f"nothing comes any more; saw {self.seen!r}"
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.seen += piece.decode("utf-8", "replace")
        return bool(piece)


@contextmanager
def at_terminal(
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    columns: int = 100,
) -> Generator[Typing]:
    """Type a command in a directory."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    around = {
        k: v for k, v in isolated_environment(cwd).items() if k not in {"NO_COLOR", "COLUMNS"}
    }
    environment = around | {"TERM": "xterm"} | dict(env or {})
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    command = [sys.executable, "-c", _ENTRY, *arguments]
    process = subprocess.Popen(
        command, cwd=cwd, env=environment, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    try:
        yield Typing(process, master)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
