"""Why a request was not served from the cache, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.history.events import StepStarted
from perdure.history.state import COMPACTED, MOVED
from perdure.models.caches import MINUTE, CacheFacts
from perdure.models.lowering import HEAD_CHANGED, HISTORY_CHANGED, WRAPPED_LATER
from perdure.session.admission import IMAGES_CHANGED, MODEL_SWITCHED, TOOLS_CHANGED

SUMMARY = "asked for a summary of the history"
SHORTENED = "asked for a summary of the beginning alone, since the whole history was too long"
FIRST = "first request: nothing is cached yet"

_SUMMARIZED = "a summary took the place of the older history"
_IMAGES = "whether the model takes images was changed"
_NO_REASON = "no reason given"
_REASONS = {
    COMPACTED: _SUMMARIZED,
    MODEL_SWITCHED: "the model was switched",
    TOOLS_CHANGED: "the set of tools changed",
    MOVED: "the session moved to another directory",
    IMAGES_CHANGED: _IMAGES,
}
_SHOWN = 5


def new_prefix(reasons: Sequence[str]) -> str:
    """Say why everything is sent anew, from the recorded reasons of an epoch's start."""
    return f"new prefix: {_joined([_REASONS.get(reason, reason) for reason in reasons])}"


def copied(origin: str) -> str:
    """Say that the first request of a fork goes on from one of another session."""
    return f"goes on from the requests of session {origin}"


def is_wrapped_later(cause: str) -> bool:
    """Tell whether a recorded break is that of a System Message which took another form."""
    return cause.startswith(WRAPPED_LATER.partition("{}")[0])


def changed(started: StepStarted, last: StepStarted, *, summarized: bool) -> str:
    """Say why the last request is no prefix of this one, within an epoch.

    An epoch goes on although its end is due while a told fact cannot be observed.
    """
    if started.cause == HISTORY_CHANGED and summarized:
        return f"new prefix: {_SUMMARIZED}"
    if started.cause == HISTORY_CHANGED and started.request.images != last.request.images:
        return f"new prefix: {_IMAGES}"
    if started.cause != HEAD_CHANGED:
        return f"new prefix: {started.cause or 'no cause was recorded'}"
    if started.model != last.model:
        return f"new prefix: the model was switched from {last.model} to {started.model}"
    differing = _differing(started, last)
    if differing:
        return f"new prefix: the configuration changed {_joined(differing)}"
    return f"new prefix: {started.cause}"


def expired(idle: float, facts: CacheFacts) -> str:
    """Say that the provider has likely dropped the prefix, after so many seconds without use."""
    kept = f"the provider keeps one for {duration(facts.lifetime)}"
    if not facts.stated:
        kept = f"the provider names no time; {duration(facts.lifetime)} are assumed"
    return f"likely expired: {duration(idle)} since the last request with this prefix, {kept}"


def missed(reason: str) -> str:
    """Say that the cache was missed for no reason on this side."""
    return f"missed the cache: {reason or _NO_REASON}"


def duration(seconds: float) -> str:
    """Return a time in its largest fitting unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (MINUTE, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{max(seconds, 0):.0f} s"


def _differing(one: StepStarted, other: StepStarted) -> list[str]:
    ours, theirs = one.request.parameters, other.request.parameters
    names = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    return [*names[:_SHOWN], *(["more"] if len(names) > _SHOWN else [])]


def _joined(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words) or "no reason was recorded"
    return f"{', '.join(words[:-1])} and {words[-1]}"
