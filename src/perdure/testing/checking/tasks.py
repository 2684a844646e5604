"""Tasks: each is that of a call, and gives none itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.history import events as ev
from perdure.tools.task import NAME


def tasks(records: Sequence[ev.Record]) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with a session as one that works on a task."""
    call = ""
    for record in records:
        match record.data:
            case ev.SessionCreated() as event:
                call = event.call
                if event.parent and not call:
                    yield record.seq, f"session {event.parent} gave a task by no call"
            case ev.EpochStarted() as event:
                if call and NAME in {tool.name for tool in event.tools}:
                    yield record.seq, f"epoch {event.epoch} lets a task give tasks"
            case _:
                pass
