"""A clock that the demo turns while other processes live by it."""

from __future__ import annotations

import datetime
from pathlib import Path

from perdure.clock import SystemClock


class FileClock(SystemClock):
    """A clock whose time of day stands in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> datetime.datetime:
        """Return what the file says."""
        return datetime.datetime.fromisoformat(self._file.read_text())

    def turn_to(self, day: datetime.date) -> None:
        """Turn the clock to noon of a day, in the host's own time zone."""
        zone = datetime.datetime.now(datetime.UTC).astimezone().tzinfo
        noon = datetime.datetime(day.year, day.month, day.day, 12, tzinfo=zone)
        # Never half written: other processes may look at any moment.
        new = self._file.with_suffix(".new")
        new.write_text(noon.isoformat())
        new.replace(self._file)
