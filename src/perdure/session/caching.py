"""How the provider's prompt cache served a session, request by request: a view of its log.

The digest chain says which part of a request had been sent before, and so what the provider could
have read from its cache; the usage that it reported says what it did read. Where the two differ
and nothing explains it, the request has missed a cache that it should have hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import msgspec

from perdure.clock import moment_of
from perdure.history import events as ev
from perdure.history.content import Usage, total
from perdure.history.state import Folding
from perdure.models.caches import CacheFacts, cache_facts
from perdure.models.resolve import Models
from perdure.session import cache_causes as causes

CLEARLY_LESS = 0.9
"""Below this share of what the chain predicts, a request has missed the cache.

What a provider counts for a prefix differs from one request to the next by a few tokens of its own,
and by the step in which it counts. That is well below a tenth of any prefix that is cached at all,
and a miss is far above it: then all that came since the Baseline or more is read anew.
"""

_LONGEST_WAIT = 86_400

Standing = Literal["first", "new", "kept", "part", "changed"]
"""How a request stands to those before it: the first one, the first of a new prefix (a Context
Epoch began), all of the last one kept, a part of it, or none."""


class CachedRequest(msgspec.Struct, frozen=True):
    """One request as the prompt cache saw it: a Step, or the summary of a compaction.

    `step` is its number, for a summary that of the Step whose prefix it goes on from. `seq` and
    `time` (milliseconds since 1970) are those of its event. `blocks` is the length of the request,
    None for a summary; `kept` is how many of its first blocks had been sent before. `cause` says in
    words why less than everything was kept or served.

    `usage` is what the provider reported, None without an answer. `predicted` is the number of
    tokens that the chain expects the provider to read from its cache. `reported` says whether that
    provider reports cached tokens at all. `expired` says that the prefix had likely been dropped,
    `missed` that it should have been served from the cache and was not; `reason` is the provider's
    own. `failed` counts Attempts without an answer. `saved` is what the cache saved, in US dollars,
    below zero where writing cost more; None where no price is known.
    """

    kind: Literal["step", "summary"]
    step: int
    seq: int
    time: int
    epoch: int
    model: str
    standing: Standing
    kept: int
    blocks: int | None = None
    cause: str = ""
    usage: Usage | None = None
    predicted: int = 0
    reported: bool = False
    expired: bool = False
    missed: bool = False
    reason: str = ""
    failed: int = 0
    saved: float | None = 0.0

    @property
    def fresh(self) -> int:
        """The input tokens that were neither read from the cache nor written to it."""
        used = self.usage or Usage()
        return max(used.input - used.cache_read - used.cache_write, 0)


class CacheReport(msgspec.Struct, frozen=True):
    """How the prompt cache served a session.

    `requests` are in order; those that a revert took back were sent, and are in it. What a fork was
    copied with is not: `origin` is the session that sent it, empty where this is no fork.
    """

    session: str
    requests: tuple[CachedRequest, ...]
    origin: str = ""

    @property
    def blocks(self) -> int:
        """The blocks of all Steps."""
        return sum(each.blocks or 0 for each in self.requests)

    @property
    def kept(self) -> int:
        """The blocks of all Steps that had been sent before."""
        return sum(each.kept for each in self.requests if each.blocks is not None)

    @property
    def usage(self) -> Usage:
        """The tokens of all requests to providers that report what they cache."""
        return total(each.usage for each in self.requests if each.usage and each.reported)

    @property
    def reported(self) -> bool:
        """Whether any provider reported cached tokens."""
        return any(each.reported for each in self.requests)

    @property
    def missed(self) -> tuple[CachedRequest, ...]:
        """The requests that should have been served from the cache and were not."""
        return tuple(each for each in self.requests if each.missed)

    @property
    def saved(self) -> float:
        """What the cache saved, in US dollars; the whole of it where nothing is `unpriced`."""
        return sum(each.saved or 0.0 for each in self.requests)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The models that used the cache and whose price nobody knows."""
        found = (each.model for each in self.requests if each.saved is None)
        return tuple(dict.fromkeys(found))


def cache_report(
    session: str, records: Sequence[ev.Record], models: Models | None = None
) -> CacheReport:
    """Return how the prompt cache served a session, from its whole log.

    `models` are asked for prices alone; without them, none is known. It may take a quarter of a
    second to find them.
    """
    reading = _Reading(session, records)
    for record in records:
        reading.take(record)
    reporting = {
        _provider(each.started.model)
        for each in reading.requests
        if each.usage and (each.usage.cache_read or each.usage.cache_write)
    }
    requests = [_judged(each, reporting, models) for each in reading.requests]
    return CacheReport(session, tuple(requests), reading.origin)


@dataclass(eq=False, slots=True)
class _Request:
    """A request while the log is read.

    `base` is the newest request of which all was sent again in this one, `before` the newest in
    that row which the provider has counted. `asked` is when its last Attempt began and `used` when
    its prefix was last used, in milliseconds; `idle` the seconds for which the prefix of `before`
    had not been used then. `ended` is when the answer was whole.
    """

    kind: Literal["step", "summary"]
    record: ev.Record
    started: ev.StepStarted
    standing: Standing
    cause: str
    base: _Request | None = None
    before: _Request | None = field(init=False)
    asked: int = field(init=False)
    used: int = 0
    ended: int = 0
    idle: float = 0.0
    usage: Usage | None = None
    reason: str = ""
    failed: int = 0

    def __post_init__(self) -> None:
        self.before = self.base.counted() if self.base else None
        self.asked = self.record.time

    def counted(self) -> _Request | None:
        """Return this request if the provider counted it, else the newest before it."""
        return self if self.usage and self.usage.input else self.before

    def settle(self, record: ev.Record, usage: Usage, reason: str = "") -> None:
        """Take what the provider reported: the prefix has been used."""
        self.usage, self.reason = usage, reason
        self.used, self.ended = self.asked, record.time
        if self.before is not None:
            self.idle = (self.asked - self.before.used) / 1000
            self.before.used = max(self.before.used, self.asked)


class _Reading:
    """Finds for each request of a log the one that it goes on from."""

    def __init__(self, session: str, records: Sequence[ev.Record]) -> None:
        self.requests: list[_Request] = []
        self.origin = ""
        self._folding = Folding(session, records)
        self._sent: dict[tuple[int, str], _Request] = {}
        self._step: _Request | None = None
        self._summary: _Request | None = None
        self._epoch: ev.EpochStarted | None = None
        self._summarized = False

    def take(self, record: ev.Record) -> None:
        """Take the next record."""
        match record.data:
            case ev.StepStarted():
                self._begin(record, record.data)
            case ev.AttemptFailed(wait=wait) if self._step:
                self._step.failed += 1
                # A log from elsewhere may hold any number.
                self._step.asked = record.time + round(1000 * min(max(wait or 0, 0), _LONGEST_WAIT))
            case ev.AssistantMessage(usage=usage, cache_miss=reason) if self._step:
                self._step.settle(record, usage, reason)
            case ev.CompactionStarted(reason=why):
                self._summary = self._asked_for_summary(record, why)
            case ev.CompactionFinished(usage=usage):
                self._summarized = True
                if self._summary is not None:
                    self._summary.settle(record, usage)
                    self.requests.append(self._summary)
            case ev.EpochStarted():
                self._epoch, self._summarized = record.data, False
            case ev.SessionForked(origin=origin):
                self.requests, self.origin = [], origin
            case _:
                pass
        self._folding.apply(record)

    def _begin(self, record: ev.Record, started: ev.StepStarted) -> None:
        request = self._sent_step(record, started, self._last())
        self._sent[started.blocks, started.digest] = self._step = request
        self._summarized = False
        self.requests.append(request)

    def _sent_step(
        self, record: ev.Record, started: ev.StepStarted, last: _Request | None
    ) -> _Request:
        """Return a step's request with how it stands to the last one of its epoch, and why."""
        request = partial(_Request, "step", record, started)
        if not self._sent:
            return request("first", causes.FIRST)
        if last is None:
            return request("new", causes.new_prefix(self._epoch.reasons if self._epoch else ()))
        if started.prefix:
            goes_on = causes.copied(self.origin) if self.origin and not self.requests else ""
            return request("kept", goes_on, last)
        if causes.is_wrapped_later(started.cause):
            # All that an answer had followed is as it was.
            return request("part", started.cause, last.counted())
        why = causes.changed(started, last.started, summarized=self._summarized)
        return request("changed", why)

    def _asked_for_summary(self, record: ev.Record, why: ev.CompactionReason) -> _Request | None:
        last = self._last()
        if last is None:
            return None
        if why == "overflow":
            # What was too long as it was is summed up without its end.
            return _Request("summary", record, last.started, "part", causes.SHORTENED)
        return _Request("summary", record, last.started, "kept", causes.SUMMARY, last)

    def _last(self) -> _Request | None:
        """Return the last request of the epoch in force, as it stands in the history now."""
        last = self._folding.state.last_request
        return self._sent.get(last) if last else None


def _judged(request: _Request, reporting: set[str], models: Models | None) -> CachedRequest:
    """Compare what the provider could have read from its cache with what it says it did."""
    started, usage, facts = request.started, request.usage, _facts(request)
    predicted, reported = _predicted(request, facts), _provider(started.model) in reporting
    counted = reported and usage is not None and usage.input > 0
    short = counted and usage is not None and usage.cache_read < CLEARLY_LESS * predicted
    expired = short and request.idle > facts.lifetime
    return CachedRequest(
        kind=request.kind,
        step=started.step,
        seq=request.record.seq,
        time=request.record.time,
        epoch=started.epoch,
        model=started.model,
        standing=request.standing,
        kept=request.base.started.blocks if request.base else 0,
        blocks=started.blocks if request.kind == "step" else None,
        cause=_cause(request, facts, short=short, expired=expired),
        usage=usage,
        predicted=predicted,
        reported=reported,
        expired=expired,
        missed=short and not expired,
        reason=request.reason,
        failed=request.failed,
        saved=_saved(request, models),
    )


def _facts(request: _Request) -> CacheFacts:
    shape = request.started.request
    return cache_facts(shape.protocol, shape.model)


def _predicted(request: _Request, facts: CacheFacts) -> int:
    before = request.before.usage if request.before else None
    if before is None:
        return 0
    own = request.usage.input if request.usage else 0
    return facts.cached(min(before.input, own) if own else before.input)


def _cause(request: _Request, facts: CacheFacts, *, short: bool, expired: bool) -> str:
    words = [request.cause]
    if expired:
        words.append(causes.expired(request.idle, facts))
    elif short:
        words.append(causes.missed(request.reason))
    return "; ".join(each for each in words if each)


def _saved(request: _Request, models: Models | None) -> float | None:
    usage, started = request.usage, request.started
    if usage is None or not (usage.cache_read or usage.cache_write):
        return 0.0
    if models is None:
        return None
    parameters = started.request.parameters
    tariff = models.tariff(started.model, moment_of(request.ended), parameters)
    return tariff.saved(usage) if tariff else None


def _provider(model: str) -> str:
    return model.partition("/")[0]
