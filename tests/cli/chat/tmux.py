"""A chat in a real terminal: tmux shows the screen as a person sees it."""

from __future__ import annotations

import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from perdure.testing import home_of, isolated_environment
from tests.cli.support import KEY, Shell

_PATIENCE = 60.0
READY = "Ctrl-D leaves"


class Tmux:
    """One window of a terminal."""

    def __init__(self, socket: Path, env: Mapping[str, str]) -> None:
        self._socket = socket
        self._env = env
        self._there = True

    def do(self, *arguments: str, data: str | None = None) -> str:
        """Run a command of tmux; return what it prints."""
        command = ["tmux", "-S", str(self._socket), *arguments]
        ended = subprocess.run(
            command, env=self._env, input=data, capture_output=True, text=True, timeout=_PATIENCE
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def screen(self) -> str:
        """Return what can be seen now."""
        return self.do("capture-pane", "-p").rstrip()

    def everything(self) -> str:
        """Return what can be seen and what has scrolled away, long lines whole."""
        return self.do("capture-pane", "-p", "-J", "-S", "-").rstrip()

    def until(self, *texts: str) -> str:
        """Wait until all these texts can be seen; return the screen."""
        return self.when(lambda seen: all(text in seen for text in texts), texts)

    def gone(self, text: str) -> str:
        """Wait until a text can be seen no more; return the screen."""
        return self.when(lambda seen: text not in seen, f"no {text!r}")

    def when(self, holds: Callable[[str], bool], what: object) -> str:
        """Wait until the screen is as it should be; return it."""
        deadline = time.monotonic() + _PATIENCE
        while not holds(seen := self.screen()):
            assert time.monotonic() < deadline, f"waited for {what}, saw:\n{self.everything()}"
            time.sleep(0.02)
        return seen

    def type(self, text: str) -> None:
        """Type letters, without Enter."""
        self.do("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys by the names that tmux has for them."""
        self.do("send-keys", *keys)

    def send(self, text: str) -> None:
        """Type a line and press Enter."""
        self.type(text)
        self.press("Enter")

    def begin(self, answer: str = "Hello.") -> None:
        """Send a first prompt and wait until it has been answered."""
        self.send("Hi.")
        self.until("> Hi.", answer, "/help")

    def paste(self, text: str) -> None:
        """Paste text as a terminal does."""
        self.do("load-buffer", "-", data=text)
        self.do("paste-buffer", "-p")

    def resize(self, columns: int, rows: int) -> None:
        """Make the window another size."""
        self.do("resize-window", "-x", str(columns), "-y", str(rows))

    def vanish(self) -> None:
        """Close the terminal, whatever runs in it."""
        if self._there:
            self.do("kill-server")
        self._there = False

    def pid(self) -> int:
        """Return the process id of the chat."""
        shell = self.do("display-message", "-p", "#{pane_pid}").strip()
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        return int(children[0])

    def left(self) -> int:
        """Wait until the chat has ended; return its exit code."""
        # Behind it may stand what a killed chat has left of its screen.
        ended = re.search(r"left with (\d+)", self.until("left with "))
        assert ended
        return int(ended[1])


@contextmanager
def in_tmux(
    s: Shell,
    arguments: Sequence[str] = (),
    *,
    columns: int = 160,
    rows: int = 30,
    ready: str = READY,
    settings: Mapping[str, str] | None = None,
    jobs: bool = False,
) -> Generator[Tmux]:
    """Run `perdure chat` in a window; wait until it can be typed in.

    `settings` are environment variables of the chat, also those that tmux would set. With `jobs`
    it is the job of a shell, which says when it is stopped and goes on with it after Enter.
    """
    socket = home_of(s.directory) / f"tmux-{secrets.token_hex(2)}"
    left_out = {"NO_COLOR", "TMUX", "COLUMNS", "LINES"}
    env = {k: v for k, v in isolated_environment(s.directory).items() if k not in left_out}
    env |= {KEY: "scripted-key", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    around = [f"{name}={value}" for name, value in (settings or {}).items()]
    chat = shlex.join(["env", *around, sys.executable, "-m", "perdure", "chat", *arguments])
    window = Tmux(socket, env)
    size = ["-x", str(columns), "-y", str(rows)]
    then = 'echo "left with $?"; stty -a | grep -o " -\\?icanon"; exec cat'
    command = f"{chat}; {then}"
    if jobs:
        command = f"set -m; {chat}; echo stopped with $?; read back; fg; {then}"
    file = socket.with_suffix(".conf")
    file.write_text("set -g history-limit 100000\n")
    window.do("-f", str(file), "new-session", "-d", *size, "-c", str(s.directory), command)
    try:
        if ready:
            window.until(ready)
        yield window
    finally:
        window.vanish()
