"""Defects of Perdure itself: one line for the user, the traceback in a file."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from perdure.config.paths import data_dir
from perdure.errors import PerdureError

_NAME = "errors.log"
_LIMIT = 1024 * 1024
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 6


class ProblemLog(logging.Handler):
    """Keeps tracebacks in `errors.log` of the data directory, so that none reaches a screen.

    `file` is that file once something was kept in it. Values of environment variables that look
    like credentials are masked. Where the file cannot be written, nothing is kept.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(logging.WARNING)
        self.file: Path | None = None
        self._env = env

    @contextmanager
    def installed(self) -> Generator[None]:
        """Take what loggers, threads and finalizers would otherwise print."""
        hooks = threading.excepthook, sys.unraisablehook
        threading.excepthook = lambda args: self._keep_any(args.exc_value)
        sys.unraisablehook = lambda args: self._keep_any(args.exc_value)
        logging.getLogger().addHandler(self)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(self)
            threading.excepthook, sys.unraisablehook = hooks

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the traceback of a log record that has one."""
        if record.exc_info:
            self._keep_any(record.exc_info[1])

    def keep(self, error: BaseException) -> None:
        """Append the traceback of an error."""
        text = "".join(traceback.format_exception(error))
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            file = data_dir(self._env) / _NAME
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _append(file, f"{when} pid {os.getpid()}\n{masked(text, self._env)}\n")
        except (OSError, PerdureError):
            return
        self.file = file

    def _keep_any(self, error: BaseException | None) -> None:
        if error is not None:
            self.keep(error)


def masked(text: str, env: Mapping[str, str]) -> str:
    """Return the text with the values of variables that look like credentials left out."""
    for name, value in env.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, f"[{name}]")
    return text


def _append(file: Path, text: str) -> None:
    full = file.exists() and file.stat().st_size > _LIMIT
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if full else os.O_APPEND)
    with os.fdopen(os.open(file, flags, 0o600), "w", encoding="utf-8", errors="replace") as log:
        log.write(text)
