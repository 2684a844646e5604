"""Who may drain a session: leases with fencing tokens, kept in the database.

All leases of one store object hang on one row, its *holder*, which names the process and counts
the renewals. A lease is over when that process is known to be gone, or when the count stood still
for the length of a lease by the clock of the one who watches; no two clocks are ever compared, so
neither a clock that is set back nor one that is wrong can end or prolong a lease.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

from perdure.errors import LeaseLost, SessionNotFound
from perdure.store.contract import Lease
from perdure.store.database import Connection, text
from perdure.store.process import Process, in_words, is_gone, this_process

_CLAIMED = """
    SELECT s.number, s.token, CAST(s.owner AS BLOB), s.holder,
        CAST(h.host AS BLOB), h.pid, h.started, h.lease, h.beat
    FROM session AS s LEFT JOIN holder AS h ON h.number = s.holder
    WHERE s.id = ?
"""
_TAKE = "UPDATE session SET token = token + 1, owner = ?, holder = ? WHERE number = ?"
_GIVE_UP = "UPDATE session SET owner = '', holder = NULL WHERE id = ? AND token = ?"
_REGISTER = """
    INSERT INTO holder (number, host, pid, started, lease, beat) VALUES (?, ?, ?, ?, ?, 0)
    ON CONFLICT DO NOTHING RETURNING number
"""
_RENEW = "UPDATE holder SET beat = beat + 1 WHERE number = ? RETURNING beat"
_HOLDERS = "SELECT number, CAST(host AS BLOB), pid, started FROM holder"
_COUNT = "SELECT count(*) FROM holder"
_FORGET = """
    DELETE FROM holder WHERE number = ? AND NOT EXISTS (SELECT 1 FROM session WHERE holder = ?)
"""


class _Claim(msgspec.Struct, frozen=True):
    """What the database says of a session's drain; `host` and on are None without a holder."""

    number: int
    token: int
    owner: str
    holder: int | None
    host: str | None
    pid: int | None
    started: int | None
    lease: float | None
    beat: int | None


class Holder:
    """The leases that one store object holds; every method runs in the writer's thread.

    `length` is that of a lease in seconds, `monotonic` the clock by which other holders are
    watched.
    """

    def __init__(self, length: float, monotonic: Callable[[], float]) -> None:
        self.process = this_process()
        self.interval = length / 3
        self._length = length
        self._monotonic = monotonic
        # Random, for a process that slept through the removal of its row must never take the row
        # of another for its own.
        self._number = secrets.randbits(47)
        self._held: dict[str, int] = {}
        self._seen: dict[str, tuple[_Claim, float]] = {}

    def claim(self, connection: Connection, session: str, owner: str) -> Lease | None:
        """Take a session's drain, or return None while another owns it."""
        claim = _read(connection, session)
        if not self._is_free(session, claim):
            return None
        self._register(connection)
        connection.execute(_TAKE, (owner, self._number, claim.number))
        self._held[session] = claim.token + 1
        return Lease(session, owner, claim.token + 1)

    def release(self, connection: Connection, lease: Lease) -> None:
        """Give a lease up, if it is still held."""
        connection.execute(_GIVE_UP, (lease.session, lease.token))
        self.released(lease)

    def released(self, lease: Lease) -> None:
        """Forget a lease that was given up otherwise."""
        if self._held.get(lease.session) == lease.token:
            del self._held[lease.session]

    def require_free(self, connection: Connection, session: str) -> int:
        """Return the number of a session that nobody drains; else raise LeaseLost."""
        claim = _read(connection, session)
        if not self._is_free(session, claim):
            raise LeaseLost(
                f"session {session} is being run by {self._who(claim)}; interrupt it, or try again "
                f"when it is idle (at the latest {claim.lease:g} s after its process has ended)"
            )
        return claim.number

    def clear_away(self, connection: Connection) -> int:
        """Delete what processes left that are gone, as far as no session hangs on it; count it.

        What a session hangs on stays: it tells that the session's last drain crashed.
        """
        before = connection.execute(_COUNT).get
        rows = connection.execute(_HOLDERS).fetchall()
        for number, host, pid, started in rows:
            if is_gone(Process(text(host), pid, started), self.process):
                connection.execute(_FORGET, (number, number))
        return before - connection.execute(_COUNT).get

    def needed(self) -> bool:
        return bool(self._held)

    def run(self, connection: Connection) -> None:
        """Renew all leases at once."""
        if connection.execute(_RENEW, (self._number,)).get is None:
            self._held.clear()

    def recall(self, connection: Connection) -> None:
        """Learn from the database what is held, after a transaction that failed."""
        rows = connection.execute("SELECT id, token FROM session WHERE holder = ?", (self._number,))
        self._held = dict(rows.fetchall())

    def finish(self, connection: Connection) -> None:
        """Give up everything."""
        for session, token in self._held.items():
            connection.execute(_GIVE_UP, (session, token))
        connection.execute(_FORGET, (self._number, self._number))

    def _is_free(self, session: str, claim: _Claim) -> bool:
        if claim.holder is None or claim.host is None or self._is_dead(claim):
            self._seen.pop(session, None)
            return True
        seen, since = self._seen.get(session, (None, 0.0))
        now = self._monotonic()
        if seen != claim:
            self._seen[session] = (claim, now)
            return False
        return now - since >= (claim.lease or 0.0)

    def _is_dead(self, claim: _Claim) -> bool:
        return is_gone(_process(claim), self.process)

    def _who(self, claim: _Claim) -> str:
        return in_words(_process(claim), self.process)

    def _register(self, connection: Connection) -> None:
        here = self.process
        row = (self._number, here.host, here.pid, here.started, self._length)
        if connection.execute(_REGISTER, row).get is not None:
            self.clear_away(connection)


def _process(claim: _Claim) -> Process:
    return Process(claim.host or "", claim.pid or 0, claim.started or 0)


def _read(connection: Connection, session: str) -> _Claim:
    row = connection.execute(_CLAIMED, (session,)).fetchone()
    if row is None:
        raise not_found(session)
    number, token, owner, holder, host, *rest = row
    return _Claim(number, token, text(owner), holder, None if host is None else text(host), *rest)


def not_found(session: str) -> SessionNotFound:
    """Return the error for an id that no session has."""
    return SessionNotFound(f"there is no session {session!r}; `perdure sessions list` shows all")
