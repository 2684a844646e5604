"""Time and ids, injected so that a replay is byte-identical."""

from __future__ import annotations

import hashlib
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol

import anyio

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class Clock(Protocol):
    """Tell the time and wait.

    `now` is wall time with a time zone; only ever stored or shown. `monotonic` is seconds that
    never run backwards, for timeouts and waiting. `sleep` can be cancelled.
    """

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """Make identifiers: lower-case letters and digits, never the same twice."""

    def new(self) -> str: ...


class SystemClock:
    """The host's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class RandomIds:
    """Sixteen random characters of base 32 (80 bits)."""

    def new(self) -> str:
        return "".join(secrets.choice(_ALPHABET) for _ in range(16))


def derived_id(*parts: str) -> str:
    """Return the id that follows from some texts: always the same, and no other's."""
    told = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=10).digest()
    bits = int.from_bytes(digest, "big")
    return "".join(_ALPHABET[bits >> shift & 31] for shift in range(75, -1, -5))


def milliseconds(moment: datetime) -> int:
    """Return a moment as whole milliseconds since 1970, the unit in which the log keeps time."""
    return int(moment.timestamp() * 1000)


def moment_of(kept: int) -> datetime:
    """Return the moment, in UTC, that the log keeps as so many milliseconds since 1970."""
    return datetime.fromtimestamp(kept / 1000, UTC)
