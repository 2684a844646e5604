"""One Context Source as an observation found it, and what can be told of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

import msgspec

from perdure.context.codec import Found, decode, encode
from perdure.context.compare import same
from perdure.context.guard import Failed, attempt
from perdure.context.results import Diagnostic, Stage
from perdure.context.sentinels import ABSENT, UNAVAILABLE, Absent, Unavailable
from perdure.context.snapshot import SourceSnapshot
from perdure.context.source import Source

_log = logging.getLogger("perdure.context")


class Told(msgspec.Struct, frozen=True):
    """A text for the model and the entry that remembers what it said."""

    text: str
    entry: SourceSnapshot


@final
class ObservedSource:
    """A source and what its loader returned.

    `state` is the value after it went through the codec, `UNAVAILABLE` or `ABSENT`. `diagnostics`
    says why the source counted as Unavailable; renderers add theirs when they are run.
    """

    def __init__(self, source: Source[Any], loaded: Any) -> None:
        self.key = source.key
        self.diagnostics: list[Diagnostic] = []
        self._source = source
        self.state = self._encode(loaded)

    @property
    def is_absent(self) -> bool:
        """Whether it was observed that there is no value."""
        return self.state is ABSENT

    @property
    def is_unavailable(self) -> bool:
        """Whether the value could not be observed, or cannot be told as part of a Baseline."""
        return not self.is_absent and self.baseline is None

    @property
    def data(self) -> Any:
        """The value as JSON data, `UNAVAILABLE` or `ABSENT`."""
        return self.state.data if isinstance(self.state, Found) else self.state

    @cached_property
    def baseline(self) -> Told | None:
        """What to tell a model that knows nothing of the source; None when that is nothing."""
        if not isinstance(self.state, Found):
            return None
        return self._tell("baseline", self._source.baseline, self.state, self.state.value)

    def decodes(self, entry: SourceSnapshot) -> bool:
        """Return whether a stored value is still a value of the source's type."""
        return self._previous(entry) is not None

    def change(self, entry: SourceSnapshot) -> Told | None:
        """Return what to tell a model that knows the stored value; None when that is nothing.

        That is so while the value is equal, Unavailable or absent, or the stored one no longer
        decodes.
        """
        current, previous = self.state, self._previous(entry)
        if not isinstance(current, Found) or previous is None or self._equal(previous, current):
            return None
        return self._tell("update", self._source.update, current, previous.value, current.value)

    def _previous(self, entry: SourceSnapshot) -> Found | None:
        if isinstance(self.state, Found) and attempt(same, entry.value, self.state.data) is True:
            return self.state
        previous = decode(self._source.codec, entry.value)
        return None if isinstance(previous, Failed) else previous

    def _equal(self, previous: Found, current: Found) -> bool:
        equal = previous is current or attempt(same, previous.value, current.value)
        if isinstance(equal, Failed):
            self._note("encode", f"comparing the value {equal.reason}")
            return True
        return equal

    def _tell(
        self, stage: Stage, renderer: Callable[..., str], found: Found, *values: Any
    ) -> Told | None:
        text = self._render(stage, renderer, *values)
        if text is None:
            return None
        if self._source.removed is None:
            return Told(text, SourceSnapshot(found.data))
        removed = self._render("removed", self._source.removed, found.value)
        return None if removed is None else Told(text, SourceSnapshot(found.data, removed))

    def _render(self, stage: Stage, renderer: Callable[..., str], *values: Any) -> str | None:
        text = attempt(_rendered, renderer, values)
        if isinstance(text, Failed):
            self._note(stage, f"the {stage} renderer {text.reason}")
            return None
        return text

    def _encode(self, loaded: Any) -> Found | Unavailable | Absent:
        if isinstance(loaded, (Unavailable, Absent)):
            return loaded
        if isinstance(loaded, Failed):
            self._note("load", f"the loader {loaded.reason}")
            return UNAVAILABLE
        found = encode(self._source.codec, loaded)
        if isinstance(found, Failed):
            self._note("encode", f"the value {found.reason}")
            return UNAVAILABLE
        return found

    def _note(self, stage: Stage, message: str) -> None:
        diagnostic = Diagnostic(self.key, stage, message)
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)
            _log.warning("context source %s counts as unavailable: %s", self.key, message)


def _rendered(renderer: Callable[..., object], values: Sequence[Any]) -> str | Failed:
    """Render a text without the newlines around it, or say why it cannot be told."""
    text = renderer(*values)
    if not isinstance(text, str):
        return Failed(f"returned {type(text).__name__}, not text")
    if not text.strip():
        return Failed("rendered nothing")
    text.encode()  # a lone surrogate has no place in a request, and raises here
    return text.strip("\r\n")
