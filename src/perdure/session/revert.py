"""Going back to an earlier message: the history behind it is cut off, and the log keeps it."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import ConcurrencyError
from perdure.history import events as ev
from perdure.history.state import fold
from perdure.session.claimed import WriteAlone, settling
from perdure.session.cut import place_of, require_standing, sound_cut


async def revert(write_alone: WriteAlone, session: str, to: int | str) -> None:
    """Cut the history of a session behind a message; durable when this returns.

    Raises UsageError where `to` is no message of the history, ConcurrencyError while somebody
    works on the session.
    """
    if not await write_alone(session, lambda records: reverting(session, records, to)):
        raise ConcurrencyError(
            f"session {session} is being worked on and cannot be reverted; interrupt it first, or "
            "wait until it is idle"
        )


def reverting(session: str, records: Sequence[ev.Record], to: int | str) -> list[ev.Event]:
    """Return the events that revert a session to a message, by seq or prompt id.

    What a crash left open is settled before, without being run. Raises UsageError where `to` is no
    message of the history.
    """
    place = place_of(session, records, to)
    require_standing(session, records, place)
    cut = sound_cut(records, place)
    then = fold(session, records[:cut])
    return [
        *settling(fold(session, records), "crashed"),
        ev.SessionReverted(cut, dict(then.snapshot)),
    ]
