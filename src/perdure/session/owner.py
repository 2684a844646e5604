"""Names of the runtimes that drain sessions, made so that a dead one can be told."""

from __future__ import annotations

from perdure.clock import Ids
from perdure.history.state import LEFT
from perdure.store.process import Process, in_words, is_gone, this_process


def new_owner(ids: Ids) -> str:
    """Return a name for a runtime of this process, unlike any other."""
    process = this_process()
    return f"{process.host}|{process.pid}|{process.started}|{ids.new()}"


def owner_is_gone(owner: str) -> bool:
    """Say whether who made the name certainly works no more: the process, or its runtime."""
    process = _process(owner)
    return owner == LEFT or (process is not None and is_gone(process, this_process()))


def owner_is_in_sight(owner: str) -> bool:
    """Say whether the end of the process that made the name would be known here."""
    process = _process(owner)
    return process is not None and process.host == this_process().host


def described(owner: str) -> str:
    """Return who an owner is, in words for people."""
    process = _process(owner)
    return "another program" if process is None else in_words(process, this_process())


def _process(owner: str) -> Process | None:
    host, pid, started, *_ = [*owner.split("|"), "", "", ""]
    if not (host and pid.isdigit() and started.isdigit()):
        return None
    return Process(host, int(pid), int(started))
