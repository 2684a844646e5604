"""Telemetry: spans and metrics of what sessions do, by OpenTelemetry's GenAI conventions.

It is a shadow of the work and never its record: the event log is that. Nothing of OpenTelemetry is
imported while it is off, and nothing that goes wrong with it reaches the work.
"""

from perdure.telemetry.choice import Telemetry, instrumented
from perdure.telemetry.instrumentation import (
    OFF,
    Conversation,
    Instrumentation,
    RequestSpan,
    Sent,
    conversation,
)

__all__ = [
    "OFF",
    "Conversation",
    "Instrumentation",
    "RequestSpan",
    "Sent",
    "Telemetry",
    "conversation",
    "instrumented",
]
