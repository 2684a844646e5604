"""What the operations of a System Context return."""

from __future__ import annotations

from typing import Literal

import msgspec

from perdure.context.snapshot import Snapshot


class Generation(msgspec.Struct, frozen=True):
    """A Baseline and the Context Snapshot that belongs to it; the start of a Context Epoch."""

    baseline: str
    snapshot: Snapshot


class Unchanged(msgspec.Struct, frozen=True):
    """Nothing is to be told, and the Context Snapshot stays."""


class Updated(msgspec.Struct, frozen=True):
    """`text` is to be told as one message; `snapshot` is the whole Context Snapshot after it."""

    text: str
    snapshot: Snapshot


class Replaced(msgspec.Struct, frozen=True):
    """A new Baseline takes the place of the old one."""

    generation: Generation


class ReplacementBlocked(msgspec.Struct, frozen=True):
    """A new Baseline is due but would lose what was told of sources that are Unavailable now.

    `keys` are those sources, sorted. The old Baseline stays in force. `update` is whatever else
    changed and is to be told; None where nothing did.
    """

    keys: tuple[str, ...]
    update: Updated | None = None


Stage = Literal["load", "encode", "baseline", "update", "removed"]
"""Where a source failed: in its loader, its codec or one of its renderers."""


class Diagnostic(msgspec.Struct, frozen=True):
    """Why a source counted as Unavailable; `message` is one line that contains no value."""

    key: str
    stage: Stage
    message: str
