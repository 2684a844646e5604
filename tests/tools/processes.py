"""Whether processes are still there."""

from __future__ import annotations

import os
import time
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Tell whether a process still runs; one that only waits to be collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def numbers_in(file: Path, count: int, seconds: float = 60) -> list[int]:
    """Wait until a file holds so many numbers, one a line, and return them."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if file.exists():
            lines = file.read_text().split("\n")[:-1]
            if len(lines) >= count:
                return [int(line) for line in lines]
        time.sleep(0.01)
    raise TimeoutError(f"{file} does not hold {count} numbers")


def wait_until_gone(pids: list[int], seconds: float = 60) -> None:
    """Wait until none of the processes runs."""
    deadline = time.monotonic() + seconds
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            raise TimeoutError(f"still running: {[pid for pid in pids if is_alive(pid)]}")
        time.sleep(0.01)
