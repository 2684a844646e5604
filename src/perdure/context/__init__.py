"""The algebra of the System Context: what the model should be told, and when.

A `Source` declares one value that is observed anew at every boundary: how to load it, how it is
stored, and how it is put into words. A `SystemContext` composes sources. Observing it once gives an
`Observation`, and against the Context Snapshot (what the model was told last, source by source) an
observation decides one thing: a first Baseline (`initialize`), nothing, one message with what
changed, or a new Baseline (`reconcile`, `replace`). What cannot be observed is never an error: what
was told stands. Nothing here reads files, stores anything or knows a provider.
"""

from __future__ import annotations

from perdure.context.changes import changed_entries
from perdure.context.observation import Observation
from perdure.context.results import (
    Diagnostic,
    Generation,
    Replaced,
    ReplacementBlocked,
    Unchanged,
    Updated,
)
from perdure.context.sentinels import ABSENT, UNAVAILABLE, Absent, Unavailable
from perdure.context.snapshot import Snapshot, SourceSnapshot
from perdure.context.source import Loader, Source
from perdure.context.system import SystemContext

__all__ = [
    "ABSENT",
    "UNAVAILABLE",
    "Absent",
    "Diagnostic",
    "Generation",
    "Loader",
    "Observation",
    "Replaced",
    "ReplacementBlocked",
    "Snapshot",
    "Source",
    "SourceSnapshot",
    "SystemContext",
    "Unavailable",
    "Unchanged",
    "Updated",
    "changed_entries",
]
