"""Moments as people and programs read them; the log keeps milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure.clock import moment_of

_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"))
_WEEK = 7 * 86_400_000


def iso(moment: int) -> str:
    """Return a moment in UTC with milliseconds, such as `2026-07-01T12:00:00.250Z`."""
    seconds, thousandths = divmod(moment, 1000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{thousandths:03d}Z"


def local(moment: int) -> str:
    """Return a moment in the host's own time, to the minute."""
    return moment_of(moment).astimezone().strftime("%Y-%m-%d %H:%M")


def ago(moment: int, now: int) -> str:
    """Return how long ago a moment was, or its date where that is more than a week."""
    passed = now - moment
    if passed >= _WEEK:
        return local(moment)
    for length, unit in _UNITS:
        if passed >= length:
            count = passed // length
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
