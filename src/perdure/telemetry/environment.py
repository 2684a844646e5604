"""What OpenTelemetry's standard environment variables ask for."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that asks for prompts, answers and tool outputs on the spans."""

DISABLED = "OTEL_SDK_DISABLED"
"""The variable that turns everything off."""


class Wanted(msgspec.Struct, frozen=True):
    """The names of the exporters of spans and metrics, and whether content goes with them."""

    traces: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    content: bool = False

    @property
    def anything(self) -> bool:
        """Whether there is an exporter at all."""
        return bool(self.traces or self.metrics)


def wanted(env: Mapping[str, str]) -> Wanted:
    """Return what the variables ask for: nothing unless one of them names an exporter.

    That is `OTEL_TRACES_EXPORTER` or `OTEL_METRICS_EXPORTER` with another value than `none`, or,
    where that one is not set, an OTLP endpoint. `OTEL_SDK_DISABLED=true` turns everything off.
    """
    if is_disabled(env):
        return Wanted()
    return Wanted(_exporters(env, "TRACES"), _exporters(env, "METRICS"), wants_content(env))


def is_disabled(env: Mapping[str, str]) -> bool:
    """Say whether `OTEL_SDK_DISABLED` turns everything off."""
    return _value(env, DISABLED) == "true"


def deciding(env: Mapping[str, str], signal: str) -> str:
    """Return the variable that decides where `TRACES` or `METRICS` go; empty where none is set."""
    ranked = (
        f"OTEL_{signal}_EXPORTER",
        f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    return next((variable for variable in ranked if _value(env, variable)), "")


def wants_content(env: Mapping[str, str]) -> bool:
    """Say whether the variables ask for prompts, answers and tool outputs on the spans."""
    return _value(env, CONTENT) in {"true", "span_only", "span_and_event"}


def protocol(env: Mapping[str, str], signal: str) -> tuple[str, str]:
    """Return the OTLP protocol for `TRACES` or `METRICS`, and the variable that says so.

    It is protobuf over HTTP where none does.
    """
    own, general = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
    variable = own if _value(env, own) else general
    return _value(env, variable) or "http/protobuf", variable


def _exporters(env: Mapping[str, str], signal: str) -> tuple[str, ...]:
    variable = deciding(env, signal)
    if not variable.endswith("_EXPORTER"):
        return ("otlp",) if variable else ()
    names = (name.strip() for name in _value(env, variable).split(","))
    return tuple(dict.fromkeys(name for name in names if name not in {"", "none"}))


def _value(env: Mapping[str, str], name: str) -> str:
    return env.get(name, "").strip().lower()
