"""Whether a runtime has telemetry: what its program gives, else what the environment asks for."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from perdure.clock import Clock
from perdure.telemetry.environment import Wanted, wanted, wants_content
from perdure.telemetry.instrumentation import OFF, Instrumentation

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_logger = logging.getLogger("perdure.telemetry")

_FAULTY = "telemetry is off: the providers that the program gave cannot be used (%s)"


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """Where a runtime's spans and metrics go.

    The providers stay yours: flush them and shut them down yourself. Without a provider there are
    no spans, or no metrics; without both, telemetry is off. `content` puts prompts, answers, tool
    arguments and tool outputs on the spans, in clear.
    """

    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
    content: bool = False

    @classmethod
    def from_globals(cls, *, content: bool | None = None) -> Telemetry:
        """Return the telemetry of the providers that this process has set globally.

        Without `content`, `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` decides.
        """
        # Imported only here: it costs what a runtime without telemetry should not pay.
        from opentelemetry import metrics, trace

        return cls(
            tracer_provider=trace.get_tracer_provider(),
            meter_provider=metrics.get_meter_provider(),
            content=wants_content(os.environ) if content is None else content,
        )


@asynccontextmanager
async def instrumented(
    telemetry: Telemetry | None, clock: Clock, environ: Mapping[str, str] | None
) -> AsyncGenerator[Instrumentation]:
    """Give the instrumentation of a runtime while the context is open.

    Without `telemetry`, the process's environment decides; what is set up for that is flushed and
    shut down on leaving, in two seconds at most. A program that brings an `environ` of its own
    has none then, since OpenTelemetry's exporters read the process's. Never raises for a fault of
    telemetry itself.
    """
    if telemetry is not None:
        yield _given(telemetry, clock)
        return
    asked = wanted(os.environ) if environ is None else Wanted()
    if not asked.anything:
        yield OFF
        return
    # Imported only here, for the same reason.
    from perdure.telemetry.exporting import Exported

    exported = Exported(asked, clock, os.environ)
    try:
        yield exported
    finally:
        await exported.close()


def _given(telemetry: Telemetry, clock: Clock) -> Instrumentation:
    if telemetry.tracer_provider is None and telemetry.meter_provider is None:
        return OFF
    # Imported only here, for the same reason.
    from perdure.telemetry.spans import Spans

    try:
        return Spans(
            telemetry.tracer_provider, telemetry.meter_provider, clock, content=telemetry.content
        )
    except Exception as error:  # noqa: BLE001 - code of others
        _logger.warning(_FAULTY, type(error).__name__)
        return OFF
