"""The log itself: numbered without a gap, begun once, cut back only to what stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.history.events import Record, SessionCreated, SessionReverted


def sequence(records: Sequence[Record]) -> Iterator[tuple[int, str]]:
    """Yield gaps, beginnings that are none, and reverts to what is not in the history."""
    gone: set[int] = set()
    for seq, record in enumerate(records, 1):
        if record.seq != seq:
            yield record.seq, f"it stands in the place of event {seq}"
            return
        if isinstance(record.data, SessionCreated) != (seq == 1):
            yield seq, f"a log begins with session.created, and nowhere else: {record.type}"
        if isinstance(record.data, SessionReverted):
            to = record.data.to
            if not 0 < to < seq or to in gone:
                yield seq, f"a revert to event {to}, which is not in the history"
            gone.update(range(to + 1, seq))
