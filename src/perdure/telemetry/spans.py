"""Spans and metrics by way of OpenTelemetry's API; imported only where telemetry is on."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from opentelemetry import context as otel
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, MeterProvider, NoOpMeterProvider
from opentelemetry.trace import (
    INVALID_SPAN,
    NoOpTracerProvider,
    Span,
    SpanKind,
    StatusCode,
    TracerProvider,
    set_span_in_context,
)

from perdure.clock import Clock
from perdure.errors import ProviderError
from perdure.history.content import ToolCall, Usage, total
from perdure.history.state import SessionState
from perdure.models.types import Answer
from perdure.telemetry import attributes as of
from perdure.telemetry import content
from perdure.telemetry.attributes import Attributes
from perdure.telemetry.instrumentation import Sent
from perdure.telemetry.instruments import Instruments
from perdure.tools.settle import Settled

_logger = logging.getLogger("perdure.telemetry")

_SCOPE = "perdure"
_DRAIN = otel.create_key("perdure-drain")
_TOOL_ERRORS = {"failed": "ToolError", "interrupted": "Interrupted"}


class Spans:
    """The instrumentation of one runtime. Durations are told by its clock."""

    def __init__(
        self,
        tracers: TracerProvider | None,
        meters: MeterProvider | None,
        clock: Clock,
        *,
        content: bool,
    ) -> None:
        self.tracer = (tracers or NoOpTracerProvider()).get_tracer(_SCOPE)
        self.instruments = Instruments((meters or NoOpMeterProvider()).get_meter(_SCOPE))
        self.clock = clock
        self.content = content

    def drain(self, session: str) -> _Drain:
        """Open a span around one Drain."""
        return _Drain(self, session)

    def request(self, sent: Sent) -> _Request:
        """Open a span around one request and its stream."""
        return _Request(self, sent)

    def call(self, session: str, step: int, call: ToolCall) -> _Call:
        """Open a span around one tool that runs."""
        return _Call(self, session, step, call)


class _Open:
    """One span while its work runs.

    It ends exactly once, when its context is left. Nothing is recorded of an error but its class:
    OpenTelemetry's own context would record the message, in which providers may quote the prompt.
    """

    kind = SpanKind.INTERNAL

    def __init__(self, telemetry: Spans, name: str) -> None:
        self._telemetry = telemetry
        self._name = name
        self._span: Span = INVALID_SPAN
        self._context: Context | None = None
        self._began = telemetry.clock.monotonic()
        self._error = ""

    @abstractmethod
    def _first(self) -> Attributes:
        """Return the attributes that the span begins with."""

    @abstractmethod
    def _metric(self) -> tuple[Histogram, Attributes]:
        """Return where the duration is recorded, and its dimensions."""

    def _last(self) -> Attributes:
        """Return the attributes that are known only at the end."""
        return {}

    def _values(self) -> Context:
        return otel.get_current()

    def __enter__(self) -> Self:
        with _contained():
            self._span = self._telemetry.tracer.start_span(
                self._name, kind=self.kind, attributes=self._first()
            )
            context = set_span_in_context(self._span, self._values())
            self._token = otel.attach(context)
            self._context = context
        return self

    def __exit__(
        self, _kind: object, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._context is not None:
            otel.detach(self._token)
        with _contained():
            self._finish(error)
        with _contained():
            self._span.end()

    def _finish(self, error: BaseException | None) -> None:
        if error is not None:
            self._error = of.error_type(error)
        self._span.set_attributes(self._last())
        failed: Attributes = {of.ERROR: self._error} if self._error else {}
        if failed:
            words = content.cut(str(error)) if error and self._telemetry.content else None
            self._span.set_attributes(failed)
            self._span.set_status(StatusCode.ERROR, words)
        histogram, dimensions = self._metric()
        histogram.record(self._passed(), dimensions | failed, self._context)

    def _passed(self) -> float:
        return max(self._telemetry.clock.monotonic() - self._began, 0.0)


class _Drain(_Open):
    """`invoke_agent`: one Drain. What its requests used is added up on it."""

    def __init__(self, telemetry: Spans, session: str) -> None:
        super().__init__(telemetry, f"invoke_agent {of.AGENT}")
        self._session = session
        self._usage = Usage()
        self._outcome = ""
        self.model = ""
        self.failed = ""

    def ended(self, state: SessionState) -> None:
        """Say that the Drain came to its end, and in which state."""
        self._outcome = state.outcome
        if state.outcome == "failed":
            self._error = self.failed or "_OTHER"

    def used(self, usage: Usage) -> None:
        """Add what one request used."""
        self._usage = total((self._usage, usage))

    def _first(self) -> Attributes:
        return of.of_drain(self._session)

    def _values(self) -> Context:
        return otel.set_value(_DRAIN, self, super()._values())

    def _last(self) -> Attributes:
        told = {of.MODEL: self.model, "perdure.outcome": self._outcome}
        return of.of_usage(self._usage) | {name: value for name, value in told.items() if value}

    def _metric(self) -> tuple[Histogram, Attributes]:
        return self._telemetry.instruments.agent, of.of_agent()


class _Request(_Open):
    """`chat` or `generate_content`: one request on the wire, with its stream."""

    kind = SpanKind.CLIENT

    def __init__(self, telemetry: Spans, sent: Sent) -> None:
        self._dimensions = of.of_server(sent)
        super().__init__(telemetry, f"{self._dimensions[of.OPERATION]} {sent.profile.model}")
        self._sent = sent
        self._waited: float | None = None
        self._answer: Answer | None = None

    def piece(self) -> None:
        """Say that something of the answer has come."""
        if self._waited is None:
            self._waited = self._passed()

    def answered(self, answer: Answer) -> None:
        """Say that the answer is whole."""
        self._answer = answer

    def _first(self) -> Attributes:
        attributes = of.of_request(self._sent)
        if self._telemetry.content:
            said = self._sent.conversation()
            attributes["gen_ai.system_instructions"] = content.instructions(said.baseline)
            attributes["gen_ai.input.messages"] = content.input_messages(said.items)
        return attributes

    def _last(self) -> Attributes:
        attributes: Attributes = {}
        if self._waited is not None:
            attributes["gen_ai.response.time_to_first_chunk"] = self._waited
        if (answer := self._answer) is not None:
            attributes["gen_ai.response.finish_reasons"] = [content.finish_reason(answer.stop)]
            attributes |= of.of_usage(answer.usage)
            if self._telemetry.content:
                attributes["gen_ai.output.messages"] = content.output_messages(answer)
        return attributes

    def _finish(self, error: BaseException | None) -> None:
        if isinstance(error, ProviderError) and error.status is not None:
            self._span.set_attribute("http.response.status_code", error.status)
        super()._finish(error)
        self._tell_drain()
        instruments = self._telemetry.instruments
        if self._waited is not None:
            instruments.first_chunk.record(self._waited, self._dimensions, self._context)
        if self._answer is not None:
            instruments.count(self._answer.usage, self._dimensions)

    def _tell_drain(self) -> None:
        drain = otel.get_value(_DRAIN, self._context)
        # A title is written beside the Drain, and may outlive it.
        if isinstance(drain, _Drain) and self._sent.purpose != "title":
            drain.model = self._sent.profile.model
            drain.failed = self._error
            if self._answer is not None:
                drain.used(self._answer.usage)

    def _metric(self) -> tuple[Histogram, Attributes]:
        return self._telemetry.instruments.request, self._dimensions


class _Call(_Open):
    """`execute_tool`: one tool that runs."""

    def __init__(self, telemetry: Spans, session: str, step: int, call: ToolCall) -> None:
        super().__init__(telemetry, f"execute_tool {call.name}")
        self._call = call
        self._attributes = of.of_call(session, step, call)
        self._settled: Settled | None = None

    def settled(self, settled: Settled) -> None:
        """Say how the call ended."""
        self._settled = settled
        self._error = _TOOL_ERRORS.get(settled.outcome, "")

    def _first(self) -> Attributes:
        if self._telemetry.content:
            arguments = content.cut(self._call.arguments)
            return self._attributes | {"gen_ai.tool.call.arguments": arguments}
        return self._attributes

    def _last(self) -> Attributes:
        if self._settled is None:
            return {"perdure.outcome": "interrupted"}
        attributes: Attributes = {"perdure.outcome": self._settled.outcome}
        if self._telemetry.content:
            attributes["gen_ai.tool.call.result"] = content.cut(self._settled.output)
        return attributes

    def _metric(self) -> tuple[Histogram, Attributes]:
        return self._telemetry.instruments.tool, of.of_tool(self._call.name)


@contextmanager
def _contained() -> Generator[None]:
    """Keep what a provider of telemetry raises away from the work that it watches."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the work goes on
        _logger.warning("telemetry failed and is incomplete: %s", type(error).__name__)
