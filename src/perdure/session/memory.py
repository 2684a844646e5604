"""What this process remembers of sessions that it drained lately.

The log is the truth and enough; remembering its fold, and what is already lowered, only saves
reading it again. A state that is remembered is that of an earlier moment, since logs only grow: it
is brought up to date from there, or folded anew where a revert has come since.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from perdure.history.events import RequestShape
from perdure.history.state import SessionState
from perdure.models.types import Lowering

_SESSIONS = 8


class LoweringKey(msgspec.Struct, frozen=True):
    """All that a kept lowering hangs on; `rebuilt` says which items it has seen."""

    epoch: int
    model: str
    shape: RequestShape
    rebuilt: int


@dataclass
class Remembered:
    """One session: its state, and the lowering of its epoch with all that the lowering hangs on."""

    state: SessionState
    lowering: tuple[LoweringKey, Lowering] | None = None


class Memory:
    """The few sessions drained last; older ones are forgotten."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, Remembered] = OrderedDict()

    def take(self, session: str) -> Remembered:
        """Return what is remembered and forget it here; an empty state where that is nothing.

        A drain that fails does not give it back, and so leaves nothing half done behind.
        """
        return self._sessions.pop(session, None) or Remembered(SessionState(session))

    def keep(self, remembered: Remembered) -> None:
        """Remember a session as the one drained last."""
        self._sessions[remembered.state.session] = remembered
        while len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
