"""Finding model servers on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from perdure.models.encoding import as_array, as_object, as_text, parse_object
from perdure.models.transport import no_certificates

if TYPE_CHECKING:
    import httpx2

TIMEOUT = 0.3
"""Seconds that each server has to answer."""

_LIMIT = 1024 * 1024


class Server(msgspec.Struct, frozen=True):
    """A place where a model server may listen; `base_url` is without a path."""

    name: str
    base_url: str


SERVERS = (
    Server("ollama", "http://127.0.0.1:11434"),
    Server("lmstudio", "http://127.0.0.1:1234"),
    Server("llamacpp", "http://127.0.0.1:8080"),
    Server("vllm", "http://127.0.0.1:8000"),
)
"""Where the common servers listen unless told otherwise, in order of preference."""


class Found(msgspec.Struct, frozen=True):
    """A server that answered: its name, the base_url of its OpenAI protocol, its models."""

    name: str
    base_url: str
    models: tuple[str, ...]


async def discover(servers: Sequence[Server] = SERVERS, timeout: float = TIMEOUT) -> list[Found]:
    """Ask all servers at once which models they have; return those that answer, in order.

    Nothing is raised: a server that is silent, slow or something else is not there.
    """
    import httpx2  # a third of our start-up time, needed only where nothing is configured

    found: dict[str, Found] = {}

    async def ask(client: httpx2.AsyncClient, server: Server) -> None:
        with anyio.move_on_after(timeout):
            models = await _models(client, server)
            if models is not None:
                found[server.name] = Found(server.name, f"{server.base_url}/v1", models)

    async with (
        httpx2.AsyncClient(trust_env=False, verify=no_certificates()) as client,
        anyio.create_task_group() as group,
    ):
        for server in servers:
            group.start_soon(ask, client, server)
    return [found[server.name] for server in servers if server.name in found]


async def _models(client: httpx2.AsyncClient, server: Server) -> tuple[str, ...] | None:
    """Return a server's models, chat models first, or None where it is no model server."""
    for path, member, name in (("/v1/models", "data", "id"), ("/api/tags", "models", "name")):
        answer = await _get(client, server.base_url + path)
        if answer is not None and isinstance(answer.get(member), list):
            entries = as_array(answer[member])
            names = [as_text(as_object(entry).get(name)) for entry in entries]
            # Servers list embedding models too, and those cannot answer.
            return tuple(sorted(filter(None, names), key=lambda name: "embed" in name.lower()))
    return None


async def _get(client: httpx2.AsyncClient, url: str) -> dict[str, Any] | None:
    import httpx2  # already loaded by the caller

    data = bytearray()
    try:
        async with client.stream("GET", url) as response:
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > _LIMIT:
                    return None
            return parse_object(bytes(data)) if response.status_code == 200 else None
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError):
        return None
