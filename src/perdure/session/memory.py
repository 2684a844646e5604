"""What this process remembers of sessions that it drained lately.

The log is the truth and enough; remembering its fold, and what is already lowered, only saves
reading it again. A state that is remembered is that of an earlier moment: it is brought up to date
from there, or folded anew where a revert has come since. Where somebody else drained the session in
between, nothing counts: it may have been deleted, and imported again with another history.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from perdure.history.events import RequestShape
from perdure.history.state import SessionState
from perdure.models.types import Lowering
from perdure.store.contract import Lease

_SESSIONS = 8


class LoweringKey(msgspec.Struct, frozen=True):
    """All that a kept lowering hangs on; `rebuilt` says which items it has seen."""

    epoch: int
    model: str
    shape: RequestShape
    rebuilt: int


@dataclass
class Remembered:
    """One session: its state, and the lowering of its epoch with all that the lowering hangs on.

    `token` is the fencing token of the drain that had them last.
    """

    state: SessionState
    lowering: tuple[LoweringKey, Lowering] | None = None
    token: int = 0


class Memory:
    """The few sessions drained last; older ones are forgotten."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, Remembered] = OrderedDict()

    def take(self, lease: Lease) -> Remembered:
        """Return what the drain before this one left, and forget it here; else an empty state.

        A drain that fails does not give it back, and so leaves nothing half done behind.
        """
        known = self._sessions.pop(lease.session, None)
        if known is None or known.token + 1 != lease.token:
            known = Remembered(SessionState(lease.session))
        known.token = lease.token
        return known

    def forget(self, session: str) -> None:
        """Forget a session that is no longer the same."""
        self._sessions.pop(session, None)

    def keep(self, remembered: Remembered) -> None:
        """Remember a session as the one drained last."""
        self._sessions[remembered.state.session] = remembered
        while len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
