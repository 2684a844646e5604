"""Which process holds something, and whether it is known to be gone."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

_PROC = Path("/proc")


class Process(msgspec.Struct, frozen=True):
    """One process on one boot of one host.

    `host` is empty where the system cannot tell one boot, or one space of process ids, from
    another. `started` is the process's start time in clock ticks after the boot.
    """

    host: str
    pid: int
    started: int


def this_process() -> Process:
    """Return the process that runs this code."""
    pid = os.getpid()
    state = _state(pid)
    return Process(_host() if state else "", pid, state[1] if state else 0)


def is_gone(process: Process, here: Process) -> bool:
    """Tell whether a process is known to have ended, as seen from the process `here`.

    False where nothing is known, as for a process on another host.
    """
    if not process.host or process.host != here.host or process == here:
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    state = _state(process.pid)
    return state is not None and (state[0] in "ZX" or state[1] != process.started)


def in_words(process: Process, here: Process) -> str:
    """Return which process it is, as people on this host know it."""
    if process.host != here.host:
        return "a process of another machine or container"
    return "this process" if process == here else f"process {process.pid}"


def _host() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        # Containers share a boot, but one's process ids mean nothing to the other.
        return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _state(pid: int) -> tuple[str, int] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name of the program is in parentheses and may itself hold any character.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])
