"""Which model a new session uses where nobody names one, and why that one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from perdure.config.schema import Config
from perdure.errors import UsageError
from perdure.models.discovery import Found
from perdure.models.resolve import Models


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
