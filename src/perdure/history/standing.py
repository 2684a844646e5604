"""Which records still stand: reverts take others out of the history, and the log keeps them."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.history.events import PromptAdmitted, Record, SessionReverted


def standing(records: Sequence[Record]) -> list[Record]:
    """Return the records that no revert has taken out of the history, in order.

    Admissions always stand: a prompt that came before a revert may be promoted after it.
    """
    kept: list[Record] = []
    end = len(records)
    for record in reversed(records):
        stands = record.seq <= end
        if stands or isinstance(record.data, PromptAdmitted):
            kept.append(record)
        if stands and isinstance(record.data, SessionReverted):
            end = record.data.to
    return kept[::-1]
