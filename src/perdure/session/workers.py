"""Who works on sessions in this process, as those see it who follow the work."""

from __future__ import annotations

from typing import Protocol

from perdure.errors import PerdureError


class Workers(Protocol):
    """Starts, stops and watches the drains of this process; the Coordinator does."""

    def wake(self, session: str) -> None:
        """Make sure that what waits in the session is worked on; returns at once."""
        ...

    async def interrupt(self, session: str, *, only_here: bool = False) -> bool:
        """Stop the session's drain and return whether there was one, once it has settled."""
        ...

    def is_busy(self, session: str) -> bool:
        """Say whether the session is being drained here, or is about to be."""
        ...

    async def is_idle(self, session: str) -> bool:
        """Say whether nobody works on the session, neither here nor in another process."""
        ...

    def failure(self, session: str) -> PerdureError | None:
        """Return what kept the session's last drain here from starting a step."""
        ...
