"""Which models can be used now, what is known of each and who says so, and why others cannot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Literal

import anyio.to_thread
import msgspec

from perdure.config.schema import ProviderConfig
from perdure.models.catalog import is_own
from perdure.models.discovery import Found, Server, discover
from perdure.models.prices import Tariff, published_models, tariff_of, window_of
from perdure.models.resolve import DEFAULT_MODELS, Models
from perdure.models.transport import is_loopback
from perdure.models.types import ModelProfile

Facts = Literal["configured", "table", "assumed"]
"""Who says how long a window is: the user, the table of well-known models, or nobody."""


class Offer(msgspec.Struct, frozen=True):
    """One model. `name` is `provider/model`; `tariff` is None where no price is known.

    `published` is the context window that the vendor names, where `facts` are only assumed and it
    is known; requests are still made for the assumed one.
    """

    name: str
    profile: ModelProfile
    facts: Facts
    published: int | None
    tariff: Tariff | None


class Provider(msgspec.Struct, frozen=True):
    """One provider and its models. `problem` says why it cannot be used, empty where it can."""

    name: str
    config: ProviderConfig
    problem: str
    offers: tuple[Offer, ...] = ()


async def survey(models: Models, when: datetime, also: str = "") -> list[Provider]:
    """Return every provider with the models of it that are known, at the prices of `when`.

    `also` is a further model to tell of, as `provider/model`. Servers on this machine are asked
    which models they have, each for a moment; nothing else is contacted.
    """
    asked = [
        Server(name, _root(each)) for name, each in models.providers.items() if _is_asked(each)
    ]
    found = {each.name: each for each in await discover(asked)}
    silent = {each.name for each in asked} - found.keys()

    def each() -> list[Provider]:
        return [
            _problem(models, name, found.get(name), silent)
            or _usable(models, name, _named(models, name, found.get(name), also), when)
            for name in models.providers
        ]

    # Prices are loaded when the first is looked up, and that takes a while.
    return await anyio.to_thread.run_sync(each)


def _is_asked(config: ProviderConfig) -> bool:
    """Say whether a server is on this machine and tells its models to everybody."""
    open_to_all = config.api_key_env is None and not config.headers
    return open_to_all and is_loopback(config.base_url) and config.base_url.endswith("/v1")


def _root(config: ProviderConfig) -> str:
    return config.base_url.removesuffix("/v1")


def _problem(
    models: Models, name: str, found: Found | None, silent: Collection[str]
) -> Provider | None:
    """Return a provider that cannot be used; None where it can."""
    config = models.providers[name]
    if not models.has_key(name):
        return Provider(name, config, f"{config.api_key_env} is not set")
    if name in silent:
        return Provider(name, config, f"no model server answers at {config.base_url}")
    if found is not None and not found.models:
        return Provider(name, config, f"the server at {config.base_url} has no model yet")
    return None


def _named(models: Models, name: str, found: Found | None, also: str) -> list[str]:
    """Return the models that the user or the server itself names."""
    provider, _, further = also.partition("/")
    offered = found.models if found is not None else ()
    configured = models.providers[name].models
    return list(dict.fromkeys((*configured, *offered, *([further] if provider == name else []))))


def _usable(models: Models, name: str, named: Sequence[str], when: datetime) -> Provider:
    config = models.providers[name]
    told = dict.fromkeys((*named, *_of_vendor(models, name, config)))
    return Provider(name, config, "", tuple(_offer(models, name, model, when) for model in told))


def _of_vendor(models: Models, name: str, config: ProviderConfig) -> Sequence[str]:
    """Return the well-known models of a vendor that is reached at its own address."""
    if not is_own(config.base_url, config.protocol):
        return ()
    usual = [DEFAULT_MODELS[name]] if name in DEFAULT_MODELS else []
    # The package lists much else, of which it is not known how it takes part in a conversation.
    return [
        model
        for model in (*usual, *published_models(config))
        if models.profile(f"{name}/{model}").known
    ]


def _offer(models: Models, provider: str, model: str, when: datetime) -> Offer:
    config = models.providers[provider]
    name = f"{provider}/{model}"
    profile = models.profile(name)
    settings = config.models.get(model)
    facts: Facts = "table" if profile.known else "assumed"
    if settings is not None and settings.context_window is not None:
        facts = "configured"
    return Offer(
        name,
        profile,
        facts,
        window_of(model, config) if facts == "assumed" else None,
        tariff_of(model, config, when, profile.parameters),
    )
