"""Exporters that the environment names: set up for one runtime, and shut down with it.

Nothing of it is global: the process's own OpenTelemetry providers stay as they are. The providers
are set up with the first Drain, for most commands never work on a session.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from threading import Thread
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from perdure.clock import Clock
from perdure.history.content import ToolCall
from perdure.telemetry.environment import Wanted, deciding, protocol
from perdure.telemetry.instrumentation import OFF, Instrumentation, Sent

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

_logger = logging.getLogger("perdure.telemetry")

_FLUSH = 2.0
"""Seconds that leaving a runtime may wait for a collector, in all."""

_OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}

_MISSING = (
    "telemetry is off: the environment asks for the exporter %s, which is not installed; install "
    "perdure[otel], or set OTEL_SDK_DISABLED=true"
)
_NO_GRPC = (
    "telemetry: %s asks for grpc, whose exporter is not installed; install "
    "opentelemetry-exporter-otlp-proto-grpc, or set http/protobuf there"
)
_NO_PROTOCOL = (
    "telemetry: %s asks for the protocol %s, which is not known here; set http/protobuf "
    "there, or grpc where its exporter is installed"
)
_NO_EXPORTER = (
    "telemetry: %s asks for the exporter %s, which nothing that is installed brings; "
    "install what does, or set otlp or console there"
)
_FAULTY = "telemetry: the exporter %s cannot be set up (%s); look at the OTEL_ variables"
_UNUSABLE = (
    "telemetry is off: OpenTelemetry cannot be set up (%s); look at the OTEL_ variables, or set "
    "OTEL_SDK_DISABLED=true"
)
_INCOMPLETE = (
    "telemetry is incomplete: not everything could be sent; look at OTEL_EXPORTER_OTLP_ENDPOINT "
    "and at the collector behind it, or set OTEL_SDK_DISABLED=true"
)


def _warn(text: str) -> None:
    _logger.warning("%s", text)


class Exported:
    """The instrumentation of a runtime whose exporters the environment names."""

    def __init__(
        self,
        wanted: Wanted,
        clock: Clock,
        env: Mapping[str, str],
        complain: Callable[[str], object] = _warn,
    ) -> None:
        """Tell `complain` what is wrong; by default it is logged as a warning."""
        self._complain = complain
        self._wanted = wanted
        self._clock = clock
        self._env = env
        self._opened: Instrumentation | None = None
        self._shutdowns: list[Callable[[], object]] = []
        self._complaints = _Complaints()

    def drain(self, session: str):
        """Open a span around one Drain."""
        return self._instrumentation().drain(session)

    def request(self, sent: Sent):
        """Open a span around one request and its stream."""
        return self._instrumentation().request(sent)

    def call(self, session: str, step: int, call: ToolCall):
        """Open a span around one tool that runs."""
        return self._instrumentation().call(session, step, call)

    def open(self) -> None:
        """Set everything up, where that is not done yet."""
        self._instrumentation()

    async def close(self) -> None:
        """Send what is left, and wait two seconds for that at most."""
        # A thread of its own each, which ends with the process: a collector that hangs must not
        # hold it up.
        threads = [Thread(target=each, daemon=True) for each in self._shutdowns]
        done = False
        with anyio.CancelScope(shield=True):
            done = await anyio.to_thread.run_sync(_run, threads)
        if self._complaints.leave() or not done:
            self._complain(_INCOMPLETE)

    def _instrumentation(self) -> Instrumentation:
        if self._opened is None:
            try:
                self._opened = self._open()
            except Exception as error:  # noqa: BLE001 - code of others, with settings of others
                self._complain(_UNUSABLE % type(error).__name__)
                self._opened = OFF
        return self._opened

    def _open(self) -> Instrumentation:
        try:
            from opentelemetry.sdk.resources import Resource
        except ImportError:
            names = (*self._wanted.traces, *self._wanted.metrics)
            self._complain(_MISSING % ", ".join(dict.fromkeys(names)))
            return OFF
        self._complaints.hear()
        resource = Resource.create()
        if str(resource.attributes["service.name"]).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": "perdure"}))
        tracers, meters = self._tracers(resource), self._meters(resource)
        if not self._shutdowns:
            return OFF
        # Imported only here: it costs what a runtime without telemetry should not pay.
        from perdure.telemetry.spans import Spans

        return Spans(tracers, meters, self._clock, content=self._wanted.content)

    def _tracers(self, resource: Resource) -> TracerProvider | None:
        exporters = self._exporters("traces", self._wanted.traces)
        if not exporters:
            return None
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._shutdowns.append(provider.shutdown)
        for exporter in exporters:
            provider.add_span_processor(BatchSpanProcessor(exporter))
        return provider

    def _meters(self, resource: Resource) -> MeterProvider | None:
        exporters = self._exporters("metrics", self._wanted.metrics)
        if not exporters:
            return None
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader

        readers = [
            each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each)
            for each in exporters
        ]
        provider = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        self._shutdowns.append(provider.shutdown)
        return provider

    def _exporters(self, signal: str, names: Iterable[str]) -> Sequence[Any]:
        made = (self._exporter(signal, name) for name in names)
        return [exporter for exporter in made if exporter is not None]

    def _exporter(self, signal: str, name: str) -> Any:
        """Return an exporter by its name in the environment; None, and a complaint, without one."""
        said, variable = protocol(self._env, signal.upper())
        if name == "otlp" and said not in _OTLP:
            self._complain(_NO_PROTOCOL % (variable, said))
            return None
        known = _OTLP[said] if name == "otlp" else name
        for point in entry_points(group=f"opentelemetry_{signal}_exporter", name=known):
            try:
                return point.load()()
            except Exception as error:  # noqa: BLE001 - code of others, with settings of others
                self._complain(_FAULTY % (name, type(error).__name__))
                return None
        if name != "otlp":
            self._complain(_NO_EXPORTER % (deciding(self._env, signal.upper()), name))
        else:
            self._complain(_NO_GRPC % variable if said == "grpc" else _MISSING % name)
        return None


class _Complaints(logging.Handler):
    """Hears what OpenTelemetry logs where the program has not configured any logging.

    Python would print it then, tracebacks included, between the answers of a command.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._logger = logging.getLogger("opentelemetry")
        self._worst = logging.NOTSET

    def hear(self) -> None:
        """Begin to listen, if nobody else does."""
        if not self._logger.hasHandlers():
            self._logger.addHandler(self)

    def leave(self) -> bool:
        """Stop listening, and say whether there was anything to hear."""
        self._logger.removeHandler(self)
        return self._worst > logging.NOTSET

    def emit(self, record: logging.LogRecord) -> None:
        """Remember that there was something; it may hold addresses with credentials."""
        self._worst = max(self._worst, record.levelno)


def _run(threads: Sequence[Thread]) -> bool:
    """Run threads for a bounded time; return whether all of them have ended."""
    until = time.monotonic() + _FLUSH
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0))
    return not any(thread.is_alive() for thread in threads)
