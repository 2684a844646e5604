"""What a loader returns when it has no value."""

from __future__ import annotations

from enum import Enum
from typing import Final, final


@final
class Unavailable(Enum):
    """The type of `UNAVAILABLE`, for annotations: `T | Unavailable | Absent`."""

    # A bare object has no JSON form, so a sentinel lost inside a value is refused by the codec.
    UNAVAILABLE = object()

    def __repr__(self) -> str:
        return self.name


@final
class Absent(Enum):
    """The type of `ABSENT`, for annotations: `T | Unavailable | Absent`."""

    ABSENT = object()

    def __repr__(self) -> str:
        return self.name


UNAVAILABLE: Final = Unavailable.UNAVAILABLE
"""The value cannot be observed now; what the model was told last stands."""

ABSENT: Final = Absent.ABSENT
"""The observation succeeded, and there is no value."""
