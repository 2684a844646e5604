"""What was spent, and what a broken prefix would cost, in words."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.history.content import Usage
from perdure.session.spending import PrefixPrice, Spending, Spent


def dollars(amount: float) -> str:
    """Return an amount of US dollars, the smaller the finer."""
    figures = f"{abs(amount):.2f}" if abs(amount) >= 1 else f"{abs(amount):.4f}"
    sign = "-" if amount < 0 and float(figures) else ""
    return f"{sign}${figures}"


def spending_words(spending: Spending) -> str:
    """Return in one line what a session has spent; empty where it has asked for nothing yet."""
    if not spending.all:
        return ""
    return ", ".join((*_tokens(spending.usage), *_cost(spending)))


def spent_words(spent: Spent) -> str:
    """Return in one line what one model took, without its name."""
    requests = "1 request" if spent.requests == 1 else f"{spent.requests:,} requests"
    whole = Spending(steps=(spent,))
    return ", ".join((requests, *_tokens(spent.usage), *_cost(whole)))


def prefix_words(price: PrefixPrice, *, compaction: bool = False) -> str:
    """Return in a sentence what it costs to break the cached prefix; empty where none is lost.

    What a `compaction` costs has its summary in it.
    """
    if not price.tokens:
        return ""
    anew = f"the next step sends about {price.tokens:,} tokens anew"
    if price.dollars is None:
        return f"{anew}; what that costs is not known"
    more = "more" if price.dollars >= 0 else "less"
    costs = "with the summary costs" if compaction else "costs"
    return f"{anew}, which {costs} about {dollars(abs(price.dollars))} {more} than from the cache"


def _tokens(usage: Usage) -> Iterable[str]:
    cached = f" ({usage.cache_read:,} from the cache)" if usage.cache_read else ""
    yield f"{usage.input:,} tokens in{cached}"
    yield f"{usage.output:,} out"


def _cost(spending: Spending) -> Iterable[str]:
    unpriced = [each for each in spending.all if each.dollars is None]
    if len(unpriced) < len(spending.all):
        yield f"{'' if spending.complete else 'at least '}{dollars(spending.dollars)}"
    if unpriced:
        yield f"no price known for {' and '.join(dict.fromkeys(each.model for each in unpriced))}"
    if uncounted := sum(each.uncounted for each in spending.all):
        yield f"{uncounted} request{'' if uncounted == 1 else 's'} not counted by the provider"
    if round(spending.saved, 4):
        verb, amount = ("saved", 1) if spending.saved > 0 else ("cost", -1)
        yield f"the cache {verb} {dollars(amount * spending.saved)}"
