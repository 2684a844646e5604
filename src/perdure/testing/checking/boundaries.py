"""Boundaries: one write each, in a fixed order, with a step at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perdure.history import events as ev

_LETTERS: dict[type[ev.Event], str] = {
    ev.PromptPromoted: "p",
    ev.Note: "n",
    ev.EpochStarted: "e",
    ev.SystemMessage: "m",
}
_ORDER = re.compile("p*n?[em]?")


def boundaries(records: Sequence[ev.Record]) -> Iterator[tuple[int, str]]:
    """Yield boundaries without a step, or with their events in another order."""
    begun = 0
    letters = ""
    for record in records:
        if letter := _LETTERS.get(type(record.data)):
            begun = begun or record.seq
            letters += letter
            continue
        if isinstance(record.data, ev.StepStarted):
            yield from ((begun or record.seq, words) for words in _wrong(letters))
        elif letters and not isinstance(record.data, ev.SessionForked):
            # A copy may end within a boundary, anything else may not.
            yield begun, f"a boundary begins and {record.type} comes before its step"
        begun, letters = 0, ""
    if letters:
        yield begun, "a boundary begins and no step follows"


def _wrong(letters: str) -> Iterator[str]:
    if letters.count("m") > 1:
        yield "a boundary tells two System Messages"
    elif "m" in letters and "e" in letters:
        yield "a boundary starts an epoch and tells a System Message"
    elif not _ORDER.fullmatch(letters):
        yield "a boundary promotes, notes and tells in another order than that"
