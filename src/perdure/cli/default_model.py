"""Which model a new session uses where nobody names one, and why that one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio

from perdure.config.schema import Config
from perdure.errors import UsageError
from perdure.models.discovery import Found
from perdure.models.resolve import Models
from perdure.models.transport import address, is_loopback

_PATIENCE = 2.0
"""Seconds to wait for a connection; one that is refused says so at once."""


def already(servers: Sequence[Found]) -> Callable[[], Awaitable[Sequence[Found]]]:
    """Return a way to look for servers that says what was found before."""

    async def look() -> Sequence[Found]:
        return servers

    return look


async def default_model(models: Models, config: Config) -> tuple[str, str]:
    """Return the model that a new session would use, and why that one; "" where there is none."""
    try:
        selected = await models.choose()
    except UsageError as error:
        return "", str(error)
    if config.model:
        return selected.name, f"configured in {config.origins.get('model', 'the configuration')}"
    if selected.endpoint.api_key:
        return selected.name, f"{selected.endpoint.api_key_env} is set"
    return selected.name, "the first that was found"


async def refused_by(models: Models, model: str) -> tuple[str, ...]:
    """Return a line where nothing listens at the address of a model on this machine.

    Nothing is asked of a server, and none that is elsewhere is contacted.
    """
    url = models.providers[model.partition("/")[0]].base_url if model else ""
    if not is_loopback(url):
        return ()
    host, _, port = address(url).rpartition(":")
    try:
        with anyio.move_on_after(_PATIENCE):
            await (await anyio.connect_tcp(host.strip("[]"), int(port))).aclose()
    except OSError:
        advice = "start its server, or choose another model"
        return (f"{model} cannot answer, since nothing listens at {url}; {advice}",)
    return ()
