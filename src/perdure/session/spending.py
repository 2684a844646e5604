"""What a session has spent, by the tokens that its log holds, and what a broken prefix would cost.

Prices are those of the moment in which a request was answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from perdure.clock import moment_of
from perdure.errors import PerdureError
from perdure.history import events as ev
from perdure.history.content import Usage, total
from perdure.history.state import SessionState
from perdure.models.prices import Tariff
from perdure.models.resolve import Models
from perdure.session.compaction import fixed_tokens, kept_from, tokens_of

_SUMMARY = 2_000
"""About how many tokens a summary has."""


class Spent(msgspec.Struct, frozen=True):
    """What requests of one kind took from one model, `provider/model`.

    `requests` were answered; `usage` is all that the provider counted for them. `dollars` is what
    that cost and `saved` how much less it was than without the prompt cache (below zero where
    writing cost more than reading saved), both in US dollars and None where no price is known.
    `uncounted` requests gave words and no count of them: answers without usage, and attempts that
    broke off. They are in none of the sums.
    """

    model: str
    requests: int = 0
    usage: Usage = Usage()
    dollars: float | None = 0.0
    saved: float | None = 0.0
    uncounted: int = 0


class Spending(msgspec.Struct, frozen=True):
    """What a session has spent: its Steps, its compactions and its titles, each model by itself.

    What a fork was copied with is not in it: the session that it was copied from has spent that.
    """

    steps: tuple[Spent, ...] = ()
    compactions: tuple[Spent, ...] = ()
    titles: tuple[Spent, ...] = ()

    @property
    def all(self) -> tuple[Spent, ...]:
        """Everything, of whatever kind."""
        return (*self.steps, *self.compactions, *self.titles)

    @property
    def usage(self) -> Usage:
        """All tokens of all models."""
        return total(each.usage for each in self.all)

    @property
    def dollars(self) -> float:
        """What is known to have been spent, in US dollars; the whole of it where `complete`."""
        return sum(each.dollars or 0.0 for each in self.all)

    @property
    def saved(self) -> float:
        """What the prompt caches are known to have saved, in US dollars."""
        return sum(each.saved or 0.0 for each in self.all)

    @property
    def complete(self) -> bool:
        """Whether every request was counted, and every model has a price."""
        return all(each.dollars is not None and not each.uncounted for each in self.all)


class PrefixPrice(msgspec.Struct, frozen=True):
    """What it costs to break the prefix that the provider has cached.

    About `tokens` are sent anew. `dollars` is about how much more that costs than to go on with
    the cached prefix, in US dollars; below zero where the other model is so much cheaper, and None
    where a price is not known. A provider forgets what nobody has asked for in a while: it is less
    then.
    """

    tokens: int = 0
    dollars: float | None = 0.0


def spending_of(records: Sequence[ev.Record], models: Models | None) -> Spending:
    """Return what a session has spent, from its whole log; without `models` no price is known."""
    account = _Account(models)
    for record in records:
        account.take(record)
    return Spending(
        tuple(account.steps.values()),
        tuple(account.compactions.values()),
        tuple(account.titles.values()),
    )


_Book = dict[str, Spent]


class _Account:
    """Adds up a log, record by record."""

    def __init__(self, models: Models | None) -> None:
        self.steps: _Book = {}
        self.compactions: _Book = {}
        self.titles: _Book = {}
        self._models = models
        self._started: list[tuple[int, ev.StepStarted]] = []

    def take(self, record: ev.Record) -> None:
        """Take the next record."""
        match record.data:
            case ev.StepStarted():
                self._started.append((record.seq, record.data))
            case ev.AssistantMessage(usage=usage) if self._started:
                self._spend(self.steps, self._started[-1][1].model, usage, record.time)
            case ev.AttemptFailed(partial=partial) if partial and self._started:
                self._miss(self.steps, self._started[-1][1].model)
            case ev.CompactionFinished(usage=usage) if self._started:
                self._spend(self.compactions, self._started[-1][1].model, usage, record.time)
            case ev.SessionRenamed(model=model, usage=usage) if model:
                self._spend(self.titles, model, usage, record.time)
            case ev.SessionReverted(to=to):
                # A summary is asked of the model of the last step that is still in the history.
                self._started = [each for each in self._started if each[0] <= to]
            case ev.SessionForked():
                self.steps, self.compactions, self.titles = {}, {}, {}
            case _:
                pass

    def _spend(self, book: _Book, model: str, usage: Usage, time: int) -> None:
        if usage == Usage():
            self._miss(book, model)
            return
        tariff = self._tariff(model, time)
        spent = book.get(model, Spent(model))
        book[model] = msgspec.structs.replace(
            spent,
            requests=spent.requests + 1,
            usage=total((spent.usage, usage)),
            dollars=_plus(spent.dollars, tariff and tariff.cost(usage)),
            saved=_plus(spent.saved, tariff and tariff.saved(usage)),
        )

    def _miss(self, book: _Book, model: str) -> None:
        spent = book.get(model, Spent(model))
        book[model] = msgspec.structs.replace(spent, uncounted=spent.uncounted + 1)

    def _tariff(self, model: str, time: int) -> Tariff | None:
        last = self._started[-1][1] if self._started else None
        asked = last.request.parameters if last is not None and last.model == model else {}
        return self._models.tariff(model, moment_of(time), asked) if self._models else None


def prefix_price(
    state: SessionState,
    models: Models | None,
    now: datetime,
    *,
    model: str | None = None,
    compaction: bool = False,
) -> PrefixPrice:
    """Return what it would cost to break a session's prefix with its next Step.

    With `model`, by a switch to it; with `compaction`, by one that is asked for; with neither, by
    anything else that begins a Context Epoch with the same model. It is nothing where there is no
    prefix or nothing to compact, or where the next Step breaks it anyway. Without `models` no price
    is known.
    """
    last = state.last_step
    if last is None or state.due or model == last.model:
        return PrefixPrice()
    held = _prefix_tokens(state)
    anew = _compacted_tokens(state, _window(models, last.model)) if compaction else held
    if not anew:
        return PrefixPrice()
    before = models.tariff(last.model, now, last.request.parameters) if models else None
    after = models.tariff(model, now) if models and model else before
    if before is None or after is None:
        return PrefixPrice(anew, None)
    cost = after.cost(Usage(input=anew, cache_write=anew))
    if compaction:
        # The summary is asked for behind the cached prefix.
        cost += before.cost(Usage(input=held, cache_read=held, output=_SUMMARY))
    return PrefixPrice(anew, cost - before.cost(Usage(input=held, cache_read=held)))


def _window(models: Models | None, model: str) -> int:
    try:
        return models.profile(model).context_window if models else 0
    except PerdureError:
        return 0  # it is configured no more


def _prefix_tokens(state: SessionState) -> int:
    usage = state.usage
    if usage is not None and usage.input:
        return usage.input + usage.output
    return fixed_tokens(state) + tokens_of(state.items)


def _compacted_tokens(state: SessionState, window: int) -> int:
    """Return about how many tokens are left by a compaction that is asked for; 0 without one."""
    start = kept_from(state.items, window, "asked")
    if not start:
        return 0
    return fixed_tokens(state) + _SUMMARY + tokens_of(state.items[start:])


def _plus(so_far: float | None, more: float | None) -> float | None:
    return None if so_far is None or more is None else so_far + more
