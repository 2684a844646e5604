"""Which entries of a Context Snapshot differ between two moments."""

from __future__ import annotations

from perdure.context.compare import same
from perdure.context.snapshot import Snapshot, SourceSnapshot


def changed_entries(old: Snapshot, new: Snapshot) -> dict[str, SourceSnapshot | None]:
    """Return the entries that are new or differ, and None for each key that is gone.

    Applied to `old` they give `new`. True and 1 differ; the order of keys does not count.
    """
    changed: dict[str, SourceSnapshot | None] = {
        key: entry for key, entry in new.items() if key not in old or not _same(old[key], entry)
    }
    return changed | {key: None for key in old if key not in new}


def _same(old: SourceSnapshot, new: SourceSnapshot) -> bool:
    return old is new or (old.removed == new.removed and same(old.value, new.value))
