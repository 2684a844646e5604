"""The head of a request: the members that stand before its messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from perdure.errors import ConfigurationError
from perdure.history.events import RequestShape
from perdure.models.encoding import canonical, encode

OWN = frozenset({"input", "messages", "model", "stream", "system", "tools"})
"""Members that the lowering writes itself; a configured parameter never replaces them."""

WIRE = "wire"
"""The one parameter that is no body member: it holds a protocol's own conventions."""

_NOT_KEYED = frozenset(
    {
        "frequency_penalty",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "metadata",
        "min_p",
        "presence_penalty",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "stop_sequences",
        "stream_options",
        "temperature",
        "top_k",
        "top_p",
        "user",
    }
)
"""Members by which no provider keys its prompt cache; all others may matter."""


class Conventions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What servers of one protocol do in different ways, given as the parameter `wire`."""

    @classmethod
    def of(cls, configured: Mapping[str, Any], where: str = "parameters") -> Self:
        """Return the conventions among parameters; raise ConfigurationError that names `where`."""
        try:
            return msgspec.convert(configured.get(WIRE, {}), cls)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{where}.{WIRE} is not valid: {error}") from error


def parameters(configured: Mapping[str, Any]) -> dict[str, msgspec.Raw]:
    """Return the configured body members, encoded canonically and sorted by name."""
    names = sorted(configured.keys() - OWN - {WIRE})
    return {name: msgspec.Raw(canonical(configured[name])) for name in names}


def keyed(shape: RequestShape, tools: list[dict[str, Any]], baseline: str) -> bytes:
    """Return all that a provider's prompt cache is keyed by before the first block."""
    names = shape.parameters.keys() - OWN - _NOT_KEYED - {WIRE}
    members = {name: shape.parameters[name] for name in names}
    return canonical(
        {"model": shape.model, "parameters": members, "tools": tools, "baseline": baseline}
    )


def opening(members: Mapping[str, Any], last: str = "messages") -> bytes:
    """Return a body up to and with the bracket in which its messages go, as the `last` member."""
    return encode(members)[:-1] + b',"%s":[' % last.encode()
