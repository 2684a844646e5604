"""Our names against those that OpenTelemetry's own helper for GenAI sends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.genai.handler import (  # pyright: ignore[reportMissingTypeStubs] - it has annotations, but no marker
    TelemetryHandler,
)

from perdure.history.content import Usage
from perdure.testing import call, say
from tests.session.support import ask, bench
from tests.telemetry.collected import Collected, attributes
from tests.telemetry.test_spans import AGENT, CHAT, effect

pytestmark = pytest.mark.anyio

METRICS = (
    "gen_ai.client.token.usage",
    "gen_ai.client.operation.duration",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.execute_tool.duration",
    "gen_ai.invoke_agent.duration",
)

# What the conventions of 2026-11 have and the helper does not send for such a session.
FURTHER = {
    "gen_ai.agent.name",
    "gen_ai.conversation.id",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.reasoning.output_tokens",
}


async def ours(root: Path) -> Collected:
    seen = Collected()
    usage = Usage(input=100, output=20, cache_read=60, cache_write=30, reasoning=7)
    script = [call("effect", {"name": "a"}), say("Done.", usage=usage)]
    async with bench(root, script, "anthropic") as b:
        async with b.runtime(telemetry=seen.telemetry, tools=[effect()]) as runtime:
            await ask(await b.session(runtime), "Work")
    return seen


class Helper:
    """The same session, told through OpenTelemetry's helper."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        handler = TelemetryHandler(
            tracer_provider=tracers,
            meter_provider=MeterProvider([self._reader], shutdown_on_exit=False),
        )
        with handler.invoke_local_agent(request_model="model-1", agent_name="perdure") as agent:
            agent.input_tokens, agent.output_tokens = 100, 20
            with handler.inference(
                "anthropic", request_model="model-1", server_address="127.0.0.1", server_port=80
            ) as chat:
                chat.input_tokens, chat.output_tokens, chat.thinking_tokens = 100, 20, 7
                chat.cache_read_input_tokens, chat.cache_write_input_tokens = 60, 30
                chat.max_tokens, chat.request_stream = 1000, True
                chat.finish_reasons, chat.ttfc_seconds = ["stop"], 0.5
            with handler.tool("effect", tool_type="function") as tool:
                tool.tool_call_id = "call-1"

    def spans(self) -> dict[str, Any]:
        """Return kind and names of the attributes of each span, by its name."""
        spans = self._exporter.get_finished_spans()
        return {span.name: (span.kind, set(attributes(span))) for span in spans}

    def boundaries(self) -> dict[str, tuple[float, ...]]:
        """Return the bucket boundaries of each metric."""
        data = self._reader.get_metrics_data()
        return {
            metric.name: tuple(point.explicit_bounds)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
            if isinstance(point, HistogramDataPoint)
        }


async def test_spans_have_the_names_kinds_and_attributes_of_the_conventions(
    tmp_path: Path,
) -> None:
    seen, helper = await ours(tmp_path), Helper().spans()
    assert set(helper) == {AGENT, CHAT, "execute_tool effect"}
    for name, (kind, expected) in helper.items():
        span = seen.named(name)[-1]
        own = {each for each in attributes(span) if not each.startswith("perdure.")}
        assert span.kind is kind
        assert own - expected <= FURTHER
        assert expected - own == set()


async def test_metrics_have_the_boundaries_of_the_conventions(tmp_path: Path) -> None:
    seen, helper = await ours(tmp_path), Helper().boundaries()
    for metric in METRICS:
        points = seen.points(metric)
        assert points
        if metric in helper:
            assert tuple(points[0].explicit_bounds) == pytest.approx(helper[metric])
    assert set(helper) <= set(METRICS)
