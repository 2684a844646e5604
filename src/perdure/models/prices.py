"""What tokens cost: the user's own word first, then the prices that a public package keeps.

No price is ever taken over from one server to another: what a vendor asks for a model says nothing
about a model of the same name at another address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from perdure.config.schema import Price, ProviderConfig
from perdure.history.content import Usage
from perdure.models.transport import is_loopback

if TYPE_CHECKING:
    from decimal import Decimal

    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices
    from genai_prices.types import Provider as Vendor

_MILLION = 1_000_000

_OTHER = re.compile(r"audio|embed|image|live|realtime|transcribe|tts|vision")
"""In names of models that are made for something else than conversations."""

_ASKED = ("service_tier", "speed")
"""Request parameters that change what a request costs."""


class Tier(msgspec.Struct, frozen=True):
    """What all tokens of a request cost whose prompt has more than `above` tokens."""

    above: int
    price: Price


class Tariff(msgspec.Struct, frozen=True):
    """What a model costs: one price, or a higher one for the whole of a long request.

    `tiers` are in the order of `above`. `source` says who said so.
    """

    price: Price
    tiers: tuple[Tier, ...] = ()
    source: Literal["configured", "package"] = "configured"

    def at(self, prompt: int) -> Price:
        """Return the price of a request whose prompt has that many tokens."""
        reached = [tier.price for tier in self.tiers if prompt > tier.above]
        return reached[-1] if reached else self.price

    def cost(self, usage: Usage) -> float:
        """Return what one request cost, in US dollars."""
        price = self.at(usage.input)
        fresh = max(usage.input - usage.cache_read - usage.cache_write, 0)
        return (
            fresh * price.input
            + usage.cache_read * price.cache_read
            + usage.cache_write * price.cache_write
            + usage.output * price.output
        ) / _MILLION

    def saved(self, usage: Usage) -> float:
        """Return what the prompt cache saved in one request, in US dollars.

        It is what all input would have cost as fresh input, less what it did cost; below zero
        where writing cost more than reading saved.
        """
        price = self.at(usage.input)
        read = usage.cache_read * (price.input - price.cache_read)
        written = usage.cache_write * (price.cache_write - price.input)
        return (read - written) / _MILLION


def tariff_of(
    model: str,
    provider: ProviderConfig,
    when: datetime,
    parameters: Mapping[str, Any] = {},
) -> Tariff | None:
    """Return what a provider's model cost at a moment; None where nobody knows.

    A configured price counts before all others. `parameters` are those of the request: some
    vendors ask another price for another tier of service. It opens no connection.
    """
    settings = provider.models.get(model)
    if settings is not None and settings.price is not None:
        return Tariff(settings.price)
    found = _find(model, provider.base_url)
    if found is None:
        return None
    asked = {key: str(parameters[key]) for key in _ASKED if key in parameters}
    return _tariff(found.get_prices(when, asked))


def window_of(model: str, provider: ProviderConfig) -> int | None:
    """Return the context window that the package names, in tokens; None where it names none."""
    found = _find(model, provider.base_url)
    return found.context_window if found is not None else None


def published_models(provider: ProviderConfig) -> list[str]:
    """Return the models that the package knows of whoever answers there, latest names first.

    Those are left out that are about to go, and those that are not made for conversations.
    """
    found = [model for vendor in _vendors(provider.base_url) for model in vendor.models]
    names = {model.id for model in found if not model.deprecated and not _OTHER.search(model.id)}
    return sorted(names, reverse=True)


def _find(model: str, base_url: str) -> ModelInfo | None:
    """Return what is known of a model of whoever answers at an address."""
    # Only its own models: what others ask for theirs is no price of this vendor.
    found = (vendor.find_model(model) for vendor in _vendors(base_url))
    return next((each for each in found if each is not None), None)


def _vendors(base_url: str) -> list[Vendor]:
    """Return who answers at an address, as far as the package knows; loads it, and no network."""
    if is_loopback(base_url):
        return []
    # A quarter of a second, which only those pay who ask for a price.
    from genai_prices.data_snapshot import get_snapshot

    return [each for each in get_snapshot().providers if _answers_at(each.api_pattern, base_url)]


def _answers_at(pattern: str, base_url: str) -> bool:
    matched = re.match(pattern, base_url)
    # The package's patterns are open at the end, where another host may begin.
    return matched is not None and (
        matched.group().endswith("/") or base_url[matched.end() :][:1] in {"", "/", ":"}
    )


def _tariff(prices: ModelPrice) -> Tariff | None:
    """Return the prices of tokens; None where a request has a price of another kind."""
    fresh, output = _steps(prices.input_mtok), _steps(prices.output_mtok)
    if not fresh or not output or prices.requests_kcount is not None:
        return None
    # A vendor without a price of its own for the cache asks that of other input.
    read = _steps(prices.cache_read_mtok) or fresh
    written = _steps(prices.cache_write_mtok) or _steps(prices.cache_write_5m_mtok) or fresh
    kinds = (fresh, output, read, written)
    first, *later = (
        Tier(above, Price(*(_at(steps, above) for steps in kinds)))
        for above in sorted({above for steps in kinds for above in steps})
    )
    return Tariff(first.price, tuple(later), "package")


_Steps = dict[int, float]
"""Prices by the length of prompt, in tokens, above which they hold; the first by -1."""


def _steps(price: Decimal | TieredPrices | None) -> _Steps:
    from genai_prices.types import TieredPrices  # already loaded by the caller

    if price is None:
        return {}
    if isinstance(price, TieredPrices):
        return {-1: float(price.base)} | {tier.start: float(tier.price) for tier in price.tiers}
    return {-1: float(price)}


def _at(steps: _Steps, above: int) -> float:
    return steps[max(start for start in steps if start <= above)]
