"""`perdure models`: which models can be used now, what is known of each, and why others cannot."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import anyio
import click
import msgspec

from perdure.cli.arguments import look_from
from perdure.cli.default_model import default_model
from perdure.cli.output import Output
from perdure.cli.page import Block, Words, heading, line, show, table
from perdure.clock import SystemClock
from perdure.config.load import load
from perdure.config.location import Location, find_project, shown
from perdure.config.schema import Config, Price
from perdure.history.content import Form
from perdure.models.capabilities import AS_OF
from perdure.models.offers import Facts, Offer, Provider, survey
from perdure.models.prices import Tier
from perdure.models.resolve import Models
from perdure.plugins import Registry


class Listed(msgspec.Struct, frozen=True):
    """One model as `--json` has it, or a provider that cannot be used, without a model.

    Windows and limits are tokens, prices US dollars per million tokens; None is what is not known.
    """

    name: str
    provider: str
    model: str | None
    protocol: str
    base_url: str
    usable: bool
    reason: str
    default: bool = False
    context_window: int | None = None
    published_window: int | None = None
    max_output: int | None = None
    system_messages: Form | None = None
    images: bool | None = None
    facts: Facts | None = None
    price: Price | None = None
    price_source: str | None = None
    tiers: tuple[Tier, ...] = ()


@click.command(short_help="List the models that can be used, and why others cannot.")
@look_from
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def models(directory: str, as_json: bool) -> None:
    """List the models that can be used from here, and the providers that cannot.

    Prices are US dollars per million tokens: fresh input, output, input read from the cache. No
    vendor is asked: whether your key may use a model shows when it is used.

    \b
    Examples:
      perdure models
      perdure models --json | jq -r '.[] | select(.usable).name'
    """
    config, location = load(directory, os.environ), find_project(directory)
    default, reason, providers = anyio.run(_look, config, location)
    out = Output(sys.stdout)
    if as_json:
        listed = [each for provider in providers for each in _listed(provider, default)]
        out.write_bytes(msgspec.json.format(msgspec.json.encode(listed), indent=2) + b"\n")
    else:
        show(out, _page(providers, default, reason, config, location))


async def _look(config: Config, location: Location) -> tuple[str, str, list[Provider]]:
    async with Registry() as registry:
        return await surveyed(config, location, registry)


async def surveyed(
    config: Config, location: Location, plugins: Registry
) -> tuple[str, str, list[Provider]]:
    """Return the model of a new session there and why that one, and every known provider.

    Plugins are loaded only where the registry does not hold them yet.
    """
    await plugins.prepare(config.plugins)
    brought = plugins.view(config.plugins, location).providers
    config = msgspec.structs.replace(config, providers={**brought, **config.providers})
    default, reason = await default_model(Models(config, os.environ), config)
    known = Models(config, os.environ)
    return default, reason, await survey(known, SystemClock().now(), also=default)


def _listed(provider: Provider, default: str) -> list[Listed]:
    """Return one object for each model, or one for a provider of which none can be told."""
    name, config = provider.name, provider.config
    if not provider.offers:
        usable, why = not provider.problem, provider.problem or _ANY
        return [Listed(name, name, None, config.protocol, config.base_url, usable, why)]
    return [_model(provider, offer, offer.name == default) for offer in provider.offers]


def _model(provider: Provider, offer: Offer, default: bool) -> Listed:
    profile, tariff = offer.profile, offer.tariff
    return Listed(
        name=offer.name,
        provider=provider.name,
        model=profile.model,
        protocol=provider.config.protocol,
        base_url=provider.config.base_url,
        usable=True,
        reason="",
        default=default,
        context_window=profile.context_window,
        published_window=offer.published,
        max_output=profile.max_output,
        system_messages=profile.system_messages,
        images=profile.images,
        facts=offer.facts,
        price=tariff.price if tariff else None,
        price_source=tariff.source if tariff else None,
        tiers=tariff.tiers if tariff else (),
    )


def _page(
    providers: Sequence[Provider], default: str, reason: str, config: Config, location: Location
) -> list[Block]:
    usable = [each for each in providers if not each.problem]
    return [
        *_default(default, reason),
        *_left_out(config, location),
        *(block for each in usable for block in _usable(each, default)),
        *_unusable([each for each in providers if each.problem]),
        *(_legend() if any(each.offers for each in usable) else ()),
    ]


def _default(default: str, reason: str) -> list[Block]:
    if not default:
        return [line("default: ", Words("none", "bad"), f", {shown(reason)}")]
    return [line("default: ", Words(shown(default), "strong"), f" ({shown(reason)})")]


def _left_out(config: Config, location: Location) -> list[Block]:
    """Return the files whose providers do not count."""
    project = shown(str(location.project))
    return [
        line(
            Words(f"{shown(each.file)}: providers left out; ", "warn"),
            f"`perdure trust {project}` makes them count",
        )
        for each in config.ignored
        if each.key == "providers"
    ]


def _usable(provider: Provider, default: str) -> list[Block]:
    address = Words(f"  {shown(provider.config.base_url)}", "dim")
    head = [line(), line(Words(provider.name, "strong"), address)]
    if not provider.offers:
        return [*head, line(_ANY, indent=2)]
    rows = [_row(offer, offer.name == default) for offer in provider.offers]
    return [*head, table(_HEADERS, rows)]


_ANY = "which models it has is not known; name one with `-m PROVIDER/MODEL`"
_HEADERS = ("  MODEL", "WINDOW", "OUTPUT", "SYSTEM", "IMAGES", "$ IN/OUT/CACHED", "FACTS")


def _row(offer: Offer, is_default: bool) -> tuple[str | Words, ...]:
    profile = offer.profile
    return (
        Words(f"{'*' if is_default else ' '} {shown(profile.model)}", "good" if is_default else ""),
        _tokens(profile.context_window),
        _tokens(profile.max_output),
        profile.system_messages,
        "yes" if profile.images else "no",
        _prices(offer),
        _facts(offer),
    )


def _facts(offer: Offer) -> Words:
    if offer.facts != "assumed":
        return Words(offer.facts)
    published = f"; published: {_tokens(offer.published)}" if offer.published else ""
    return Words(f"assumed{published}", "warn")


def _tokens(count: int) -> str:
    """Return a number of tokens in few characters, rounded down."""
    if count < 10_000:
        return str(count)
    return f"{count // 1000}K" if count < 1_000_000 else f"{count // 10_000 / 100:g}M"


def _prices(offer: Offer) -> str:
    """Return the prices of input, output and cached input, with a mark where they rise."""
    if offer.tariff is None:
        return "not known"
    price = offer.tariff.price
    figures = "/".join(f"{each:g}" for each in (price.input, price.output, price.cache_read))
    return f"{figures}{'+' if offer.tariff.tiers else ''}"


def _unusable(providers: Sequence[Provider]) -> list[Block]:
    rows = [(Words(f"  {each.name}", "dim"), shown(each.problem)) for each in providers]
    return [*heading("Not usable now"), table(("  PROVIDER", "WHY"), rows)] if rows else []


def _legend() -> list[Block]:
    lines = (
        "* the default. Prices are US dollars per million tokens; + more for long prompts.",
        f"table: as published, {AS_OF}. configured: your own word. assumed: nobody has described",
        "the model, so a careful default holds; configure its context_window and max_output.",
    )
    return [line(), *(line(Words(each, "dim")) for each in lines)]
