"""Attributes of spans and metrics: those of the GenAI conventions, and our own as `perdure.`.

The names are written out here: OpenTelemetry's own package of constants calls them deprecated, for
they moved to a repository that publishes none. They are those of the conventions of 2026-11.
"""

from __future__ import annotations

from asyncio import CancelledError
from typing import TypeAlias
from urllib.parse import urlsplit

from perdure.errors import PerdureError
from perdure.history.content import ToolCall, Usage
from perdure.history.events import StepStarted
from perdure.models.catalog import is_own
from perdure.models.types import Endpoint
from perdure.telemetry.instrumentation import Sent

Attributes: TypeAlias = dict[str, str | bool | int | float | list[str]]

AGENT = "perdure"
OPERATION = "gen_ai.operation.name"
AGENT_NAME = "gen_ai.agent.name"
MODEL = "gen_ai.request.model"
ERROR = "error.type"

_LONGEST_ID = 200
_VENDORS = {
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "openai-chat": "openai",
    "openai-responses": "openai",
}
_KEPT = {True: "true", False: "false", None: "unknown"}


def of_agent() -> Attributes:
    """Return the dimensions of the metrics of a Drain."""
    return {OPERATION: "invoke_agent", AGENT_NAME: AGENT}


def of_drain(session: str) -> Attributes:
    """Return what is known of a Drain at its start."""
    return of_agent() | {"gen_ai.conversation.id": session}


def of_server(sent: Sent) -> Attributes:
    """Return operation, provider, model and server of a request: the dimensions of its metrics."""
    attributes: Attributes = {
        OPERATION: "generate_content" if sent.endpoint.protocol == "gemini" else "chat",
        "gen_ai.provider.name": provider(sent.endpoint),
        MODEL: sent.profile.model,
    }
    host, port = _address(sent.endpoint.base_url)
    if host:
        attributes |= {"server.address": host, "server.port": port}
    return attributes


def of_request(sent: Sent) -> Attributes:
    """Return everything that is known of a request at its start, but for its text."""
    attributes = of_server(sent) | {
        "gen_ai.conversation.id": sent.session,
        AGENT_NAME: AGENT,
        "gen_ai.request.max_tokens": sent.profile.max_output,
        "gen_ai.request.stream": True,
        "perdure.purpose": sent.purpose,
        "perdure.attempt": sent.attempt,
    }
    return attributes | _of_step(sent.started) if sent.started else attributes


def of_usage(usage: Usage) -> Attributes:
    """Return the tokens that the provider counted; nothing where it counted none."""
    if not (usage.input or usage.output):
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        # The conventions and OpenTelemetry's own helper name the same thing in two ways.
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }


def of_tool(name: str) -> Attributes:
    """Return the dimensions of the metrics of a tool."""
    return {
        OPERATION: "execute_tool",
        AGENT_NAME: AGENT,
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
    }


def of_call(session: str, step: int, call: ToolCall) -> Attributes:
    """Return everything that is known of a call at its start, but for its arguments."""
    return of_tool(call.name) | {
        "gen_ai.tool.call.id": call.id[:_LONGEST_ID],
        "gen_ai.conversation.id": session,
        "perdure.step": step,
    }


def provider(endpoint: Endpoint) -> str:
    """Return the provider by the conventions' name for a vendor's own API, else as configured."""
    vendor = _VENDORS.get(endpoint.protocol)
    own = vendor is not None and is_own(endpoint.base_url, endpoint.protocol)
    return vendor if vendor and own else endpoint.provider


def error_type(error: BaseException) -> str:
    """Return the class of an error in the error tree; `Interrupted` for a cancellation.

    Never its message: those of providers may quote the prompt.
    """
    if isinstance(error, CancelledError):
        return "Interrupted"
    kind = type(error)
    if isinstance(error, PerdureError) or kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


def _of_step(started: StepStarted) -> Attributes:
    return {
        "perdure.step": started.step,
        "perdure.epoch": started.epoch,
        "perdure.blocks": started.blocks,
        "perdure.prefix_kept": _KEPT[started.prefix],
        "perdure.context_updates": len(started.forms),
    }


def _address(url: str) -> tuple[str, int]:
    """Return host and port of an address; never what else it holds, such as credentials."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "", 0
    return parts.hostname or "", port or (443 if parts.scheme == "https" else 80)
