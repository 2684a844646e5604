"""What the model was last told, source by source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class SourceSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a Context Snapshot.

    `value` is the value last told, as JSON data (null is a value). `removed` is the text that
    tells its removal, rendered when the entry was written; None where the source has no such text.
    """

    value: Any
    removed: str | None = None


Snapshot = Mapping[str, SourceSnapshot]
"""A Context Snapshot: Context Source key to the entry last told. An empty one is falsy."""
