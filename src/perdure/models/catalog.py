"""What is known of a model: the vendors' table, conservative defaults, and the user's own word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from perdure.config.schema import ModelConfig
from perdure.errors import ConfigurationError
from perdure.history.content import Form
from perdure.models import capabilities
from perdure.models.capabilities import Capability
from perdure.models.encoding import as_object
from perdure.models.gemini import GENERATION, OWN_MEMBERS, GeminiWire
from perdure.models.head import OWN, WIRE, Conventions
from perdure.models.openai_chat import ChatWire
from perdure.models.openai_responses import STATELESS, ResponsesWire
from perdure.models.types import ModelProfile
from perdure.models.vision import is_text_only, takes_images


def profile(
    provider: str, model: str, base_url: str, protocol: str, configured: ModelConfig | None = None
) -> ModelProfile:
    """Return what is known of a model, the user's configuration before the catalog.

    Raises ConfigurationError where a configured parameter cannot be sent.
    """
    given = configured or ModelConfig()
    row, known, own = _look_up(model, base_url, protocol)
    window = given.context_window or row.context_window
    # The Responses protocol itself has the role, whoever speaks it.
    by_protocol = protocol == "openai-responses"
    form: Form = "native" if by_protocol or (own and row.native) else "wrapped"
    if protocol == "gemini" and given.system_messages == "native":
        where = f"providers.{provider}.models.{model}.system_messages"
        raise ConfigurationError(f'{where}: gemini has no role for them; write "wrapped"')
    return ModelProfile(
        provider=provider,
        model=model,
        context_window=window,
        # A small configured window must leave room for the question too.
        max_output=given.max_output or min(row.max_output, max(window // 2, 1)),
        system_messages=given.system_messages or form,
        parameters=_parameters(provider, model, protocol, row if own else None, given.parameters),
        known=known,
        images=_images(model, row, given.images),
    )


def _images(model: str, row: Capability, given: bool | None) -> bool:
    if given is not None:
        return given
    return takes_images(model) if row is capabilities.UNKNOWN else not is_text_only(model)


def _look_up(model: str, base_url: str, protocol: str) -> tuple[Capability, bool, bool]:
    """Return a model's row, whether it is more than a default, and whether the vendor serves it."""
    own = is_own(base_url, protocol)
    if protocol == "anthropic":
        row = capabilities.find(capabilities.ANTHROPIC, model)
        claude = capabilities.UNKNOWN_CLAUDE.names.fullmatch(model)
        default = capabilities.UNKNOWN_CLAUDE if claude else capabilities.UNKNOWN
    elif protocol == "gemini":
        row = capabilities.find(capabilities.GEMINI, model)
        default = capabilities.UNKNOWN_GEMINI if own else capabilities.UNKNOWN
        own = True  # only Gemini's models speak it, whoever serves them
    else:
        row = capabilities.find(capabilities.OPENAI, model) if own else None
        default = capabilities.UNKNOWN_OPENAI if own else capabilities.UNKNOWN
    return row or default, row is not None, own


_VENDORS = {
    "anthropic": "api.anthropic.com",
    "gemini": "generativelanguage.googleapis.com",
}


def is_own(base_url: str, protocol: str) -> bool:
    """Tell whether an address is the API of the vendor whose protocol it speaks."""
    host = urlsplit(base_url).hostname or ""
    vendor = _VENDORS.get(protocol, "api.openai.com")
    return host == vendor or host.endswith("." + vendor)


def _parameters(
    provider: str,
    model: str,
    protocol: str,
    own: Capability | None,
    configured: Mapping[str, Any],
) -> dict[str, Any]:
    where = f"providers.{provider}.models.{model}.parameters"
    for name in sorted(configured.keys() & (OWN | _OWN.get(protocol, frozenset()))):
        raise ConfigurationError(f"{where}.{name} is set by Perdure itself; remove it")
    if protocol == "gemini" and not isinstance(configured.get(GENERATION, {}), dict):
        raise ConfigurationError(f"{where}.{GENERATION} is no table; write one or remove it")
    conventions = _CONVENTIONS.get(protocol)
    if conventions is None:
        return dict(configured)
    wire = {**_own_wire(protocol, own), **as_object(configured.get(WIRE))}
    parameters = {**configured, WIRE: wire} if wire else dict(configured)
    conventions.of(parameters, where)
    return parameters


_CONVENTIONS: Mapping[str, type[Conventions]] = {
    "openai-chat": ChatWire,
    "openai-responses": ResponsesWire,
    "gemini": GeminiWire,
}

_OWN: Mapping[str, frozenset[str]] = {
    "anthropic": frozenset({"diagnostics"}),
    "openai-responses": STATELESS,
    "gemini": OWN_MEMBERS,
}
"""What further members the lowering of a protocol writes itself."""


def _own_wire(protocol: str, row: Capability | None) -> dict[str, Any]:
    """Return how OpenAI's own endpoint differs; other servers may refuse what they do not know."""
    if row is None:
        return {}
    if protocol == "gemini":
        return {} if row.signatures else {"signatures": "optional"}
    if protocol == "openai-responses":
        return {} if row.reasons else {"encrypted_reasoning": False}
    return {
        "output_limit": "max_completion_tokens",
        "system_role": "developer" if row.developer else "system",
        "cache_key": True,
    }
