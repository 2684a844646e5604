"""What drains do beside steps: compactions, each with one settlement; and who asks them to stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.history import events as ev

_MEANWHILE = (
    ev.PromptPromoted,
    ev.EpochStarted,
    ev.SystemMessage,
    ev.Note,
    ev.StepStarted,
    ev.AttemptFailed,
    ev.AssistantMessage,
    ev.ToolStarted,
    ev.ToolSettled,
    ev.RecoveryStarted,
    ev.StepFinished,
    ev.DrainInterrupted,
    ev.SessionReverted,
)
"""What waits until a compaction is settled."""


def compactions(records: Sequence[ev.Record]) -> Iterator[tuple[int, str]]:
    """Yield compactions without a beginning or a settlement, and cuts inside of a step."""
    open_ = 0
    for record in records:
        match record.data:
            case ev.CompactionStarted():
                if open_:
                    yield record.seq, f"a compaction starts before that of event {open_} is settled"
                open_ = record.seq
            case ev.CompactionFinished() | ev.CompactionFailed() as event:
                if not open_:
                    yield record.seq, "a compaction is settled that was not started"
                if isinstance(event, ev.CompactionFinished):
                    yield from _cut(records, record.seq, event.kept_from)
                open_ = 0
            case event if open_ and isinstance(event, _MEANWHILE):
                yield record.seq, f"{record.type} before the compaction of event {open_} is settled"
            case _:
                pass


def _cut(records: Sequence[ev.Record], seq: int, kept_from: int) -> Iterator[tuple[int, str]]:
    if kept_from >= seq:
        yield seq, f"a compaction keeps what begins at event {kept_from}, which is not before it"
    elif kept_from and isinstance(records[kept_from - 1].data, ev.ToolSettled):
        yield seq, f"a compaction cuts between a call and its result, event {kept_from}"


def interrupts(records: Sequence[ev.Record]) -> Iterator[tuple[int, str]]:
    """Yield requests to stop a drain that is older than one that was asked before."""
    latest = 0
    for record in records:
        if isinstance(record.data, ev.InterruptAsked):
            if record.data.drain < latest:
                yield record.seq, f"a fencing token fell from {latest} to {record.data.drain}"
            latest = max(latest, record.data.drain)
