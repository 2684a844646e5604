"""The metrics of the GenAI conventions, with their names, units and bucket boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.history.content import Usage
from perdure.telemetry.attributes import Attributes

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

SECONDS = tuple(0.01 * 2**n for n in range(14))
"""Up to about 80 s: one request, or one tool."""

LONG_SECONDS = tuple(0.1 * 2**n for n in range(13))
"""Up to about 400 s: an agent's whole work."""

TOKENS = tuple(4**n for n in range(14))


class Instruments:
    """The histograms of one runtime; times are seconds."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, what: str, boundaries: Sequence[float] = SECONDS):
            return meter.create_histogram(
                name, "s", what, explicit_bucket_boundaries_advisory=boundaries
            )

        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens that requests took and answers gave.",
            explicit_bucket_boundaries_advisory=TOKENS,
        )
        self.request = seconds("gen_ai.client.operation.duration", "From request to whole answer.")
        self.first_chunk = seconds(
            "gen_ai.client.operation.time_to_first_chunk",
            "From request to the first piece of the answer.",
        )
        self.tool = seconds("gen_ai.execute_tool.duration", "Running one tool.")
        self.agent = seconds(
            "gen_ai.invoke_agent.duration", "One Drain, from wake until idle.", LONG_SECONDS
        )

    def count(self, usage: Usage, attributes: Attributes) -> None:
        """Record the tokens of one answer, where the provider counted any."""
        if usage.input or usage.output:
            self._tokens.record(usage.input, attributes | {"gen_ai.token.type": "input"})
            self._tokens.record(usage.output, attributes | {"gen_ai.token.type": "output"})
