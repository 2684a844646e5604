"""What OpenTelemetry's standard environment variables ask for."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


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
    if _value(env, "OTEL_SDK_DISABLED") == "true":
        return Wanted()
    return Wanted(_exporters(env, "TRACES"), _exporters(env, "METRICS"), wants_content(env))


def wants_content(env: Mapping[str, str]) -> bool:
    """Say whether the variables ask for prompts, answers and tool outputs on the spans."""
    return _value(env, _CONTENT) in {"true", "span_only", "span_and_event"}


def protocol(env: Mapping[str, str], signal: str) -> str:
    """Return the OTLP protocol for `TRACES` or `METRICS`, by default protobuf over HTTP."""
    own, general = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
    return _value(env, own) or _value(env, general) or "http/protobuf"


def _exporters(env: Mapping[str, str], signal: str) -> tuple[str, ...]:
    named = _value(env, f"OTEL_{signal}_EXPORTER")
    if named:
        names = (name.strip() for name in named.split(","))
        return tuple(dict.fromkeys(name for name in names if name not in {"", "none"}))
    own, general = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"
    return ("otlp",) if _value(env, own) or _value(env, general) else ()


def _value(env: Mapping[str, str], name: str) -> str:
    return env.get(name, "").strip().lower()
