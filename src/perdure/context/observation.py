"""What one load of a System Context found, and the decisions that follow from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, final

from perdure.context.observed import ObservedSource
from perdure.context.results import (
    Diagnostic,
    Generation,
    Replaced,
    ReplacementBlocked,
    Unchanged,
    Updated,
)
from perdure.context.snapshot import Snapshot
from perdure.context.source import Source


@final
class Observation:
    """All sources of a System Context at one moment.

    The decisions are pure: they load nothing, and the same snapshot always gives the same one.
    Renderers run only when a decision needs their text, baseline renderers at most once.
    """

    __slots__ = ("_observed",)

    def __init__(self, sources: Sequence[Source[Any]], loaded: Mapping[str, Any]) -> None:
        self._observed = {
            source.key: ObservedSource(source, loaded[source.key]) for source in sources
        }

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the sources, in the order of composition."""
        return tuple(self._observed)

    @property
    def values(self) -> dict[str, Any]:
        """What holds now, by key: the value as JSON data, `UNAVAILABLE` or `ABSENT`."""
        return {key: observed.data for key, observed in self._observed.items()}

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Why sources counted as Unavailable so far, in the order of composition."""
        return [each for observed in self._observed.values() for each in observed.diagnostics]

    def initialize(self) -> Generation:
        """Return the Baseline and its Context Snapshot.

        The Baseline is the renderings in the order of composition, joined by one blank line; empty
        text where there is nothing to say. Sources that are absent or Unavailable are left out.
        """
        told = {key: each.baseline for key, each in self._observed.items() if each.baseline}
        return Generation(
            baseline="\n\n".join(each.text for each in told.values()),
            snapshot={key: each.entry for key, each in told.items()},
        )

    def reconcile(self, snapshot: Snapshot) -> Unchanged | Updated | Replaced | ReplacementBlocked:
        """Compare what holds now with what was told last and return the one next action.

        `Updated` tells changed and new sources in the order of composition, then removals in the
        order of keys, by the text stored with each entry. Where that cannot be done, because a
        stored value no longer decodes or a source that is gone has no such text, the result is that
        of `replace`. An Unavailable source keeps its entry, and nothing is said of it.
        """
        if self._needs_replacement(snapshot):
            return self.replace(snapshot)
        return self._update(snapshot) or Unchanged()

    def replace(self, snapshot: Snapshot) -> Replaced | ReplacementBlocked:
        """Return a new Baseline with its Context Snapshot.

        It is blocked while a source that was told is Unavailable, be it that its loader failed or
        that its `baseline` or `removed` renderer does. Sources never told and Unavailable are left
        out, and so are those that are absent or no longer composed.
        """
        blocking = tuple(key for key in sorted(snapshot) if self._is_unavailable(key))
        if blocking:
            return ReplacementBlocked(blocking, self._update(snapshot, blocking))
        return Replaced(self.initialize())

    def _needs_replacement(self, snapshot: Snapshot) -> bool:
        return any(
            not entry.removed if self._is_gone(key) else not self._observed[key].decodes(entry)
            for key, entry in snapshot.items()
        )

    def _update(self, snapshot: Snapshot, blocking: Collection[str] = ()) -> Updated | None:
        """Tell what can be told; entries for which there is no text stay as they are."""
        texts: list[str] = []
        entries = dict(snapshot)
        for key, observed in self._observed.items():
            if key in blocking:
                continue
            entry = snapshot.get(key)
            told = observed.change(entry) if entry else observed.baseline
            if told:
                texts.append(told.text)
                entries[key] = told.entry
        for key in sorted(snapshot):
            removed = snapshot[key].removed
            if removed and self._is_gone(key):
                texts.append(removed)
                del entries[key]
        return Updated("\n\n".join(texts), entries) if texts else None

    def _is_gone(self, key: str) -> bool:
        return key not in self._observed or self._observed[key].is_absent

    def _is_unavailable(self, key: str) -> bool:
        return key in self._observed and self._observed[key].is_unavailable
