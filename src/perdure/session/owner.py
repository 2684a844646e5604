"""Names of the processes that drain sessions, made so that a dead one can be told."""

from __future__ import annotations

import os
from pathlib import Path

from perdure.clock import Ids


def new_owner(ids: Ids) -> str:
    """Return a name for this process: boot, pid and start time of the process, and a unique part.

    Where the system does not tell boot and start time, the name cannot be told dead, and only the
    lease ends what its owner held.
    """
    return f"{_boot()}:{os.getpid()}:{_started(os.getpid())}:{ids.new()}"


def is_gone(owner: str) -> bool:
    """Say whether the process that made the name certainly does not run any more."""
    boot, pid, started, _unique = (owner.split(":") + [""] * 4)[:4]
    if not (boot and started and pid.isdigit()):
        return False
    return boot != _boot() or started != _started(int(pid))


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The command name may hold spaces and brackets; the fields are counted from behind it.
    return stat.rpartition(")")[2].split()[19]
