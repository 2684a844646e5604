"""The real SDK, with exporters that keep everything in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from perdure.telemetry import Telemetry


class Collected:
    """What one runtime told of its work."""

    def __init__(self, *, content: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.telemetry = Telemetry(tracer_provider=tracers, meter_provider=meters, content=content)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in the order in which they began."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans of one name."""
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> Mapping[str, Any]:
        """Return the attributes of the only span of that name."""
        (span,) = self.named(name)
        return attributes(span)

    def tree(self) -> list[tuple[str, str]]:
        """Return the name of each span and of its parent."""
        names = {span.context.span_id: span.name for span in self.spans if span.context}
        return [
            (span.name, names.get(span.parent.span_id, "?") if span.parent else "")
            for span in self.spans
        ]

    def metrics(self) -> dict[str, list[HistogramDataPoint]]:
        """Return the data points of each metric."""
        data = self._reader.get_metrics_data()
        return {
            metric.name: [
                point for point in metric.data.data_points if isinstance(point, HistogramDataPoint)
            ]
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def points(self, metric: str) -> list[HistogramDataPoint]:
        """Return the data points of one metric."""
        return self.metrics().get(metric, [])

    def everything(self) -> str:
        """Return every word of every span."""
        return "\n".join(span.to_json() for span in self.spans)


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})
