"""Exporters that the environment names, from the command line, over real HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import NoOpTracerProvider

from perdure import Runtime
from perdure.clock import SystemClock
from perdure.telemetry import OFF, Telemetry, instrumented
from perdure.telemetry.environment import Wanted, protocol, wanted
from perdure.testing import isolated_environment, say
from tests.cli.support import KEY, Shell, shell

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Collector(ThreadingHTTPServer):
    """Takes what is exported over loopback; one that `hangs` answers nothing until it is closed."""

    daemon_threads = True

    def __init__(self, *, hangs: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[tuple[str, bytes]] = []
        self.hangs = hangs
        self.closing = threading.Event()
        self.asked = threading.Event()

    @property
    def environment(self) -> dict[str, str]:
        """What names this collector."""
        return {ENDPOINT: f"http://127.0.0.1:{self.server_address[1]}"}

    def span_names(self) -> set[str]:
        """Return the names of the spans that came."""
        return {
            span.name
            for path, body in self.received
            if path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        assert isinstance(server, Collector)
        server.received.append((self.path, body))
        server.asked.set()
        if server.hangs:
            server.closing.wait(60)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as its base does
        """Print nothing."""


@contextmanager
def collector(*, hangs: bool = False) -> Generator[Collector]:
    with Collector(hangs=hangs) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


def python(s: Shell, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that ends as the command `perdure run Hello` does."""
    return subprocess.run(
        [sys.executable, "-c", f"{program}; from perdure.cli import main; main()", "run", "Hello"],
        cwd=s.directory,
        env=isolated_environment(s.directory) | {KEY: "scripted-key"} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_run_sends_spans_and_metrics_to_the_collector_that_the_environment_names(
    tmp_path: Path,
) -> None:
    with collector() as to, shell(tmp_path, [say("Seen.")]) as s:
        ended = s.run("run", "pineapple", env=to.environment)
    assert (ended.code, ended.out) == (0, "Seen.\n")
    assert to.span_names() == {"invoke_agent perdure", "chat model-1"}
    assert {path for path, _ in to.received} == {"/v1/traces", "/v1/metrics"}
    sent = b"".join(body for _, body in to.received)
    assert b"gen_ai.client.token.usage" in sent
    assert b"service.name" in sent
    assert b"perdure" in sent
    for secret in (b"pineapple", b"Seen.", b"scripted-key"):
        assert secret not in sent


def test_content_is_sent_where_the_environment_asks_for_it(tmp_path: Path) -> None:
    with collector() as to, shell(tmp_path, [say("Seen.")]) as s:
        s.run("run", "pineapple", env=to.environment | {CONTENT: "true"})
    sent = b"".join(body for _, body in to.received)
    assert b"pineapple" in sent
    assert b"Seen." in sent
    assert b"scripted-key" not in sent


def test_a_collector_that_refuses_costs_one_warning(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Seen.")]) as s:
        ended = s.run("run", "Hello", env={ENDPOINT: "http://127.0.0.1:9"})
    assert (ended.code, ended.out) == (0, "Seen.\n")
    assert ended.err.count("telemetry is incomplete") == 1
    assert "Traceback" not in ended.err


def test_a_collector_that_hangs_does_not_keep_a_run_from_ending(tmp_path: Path) -> None:
    with collector(hangs=True) as to, shell(tmp_path, [say("Seen.")]) as s:
        # It answers nothing before the command has ended.
        ended = s.run("run", "Hello", env=to.environment)
        assert to.asked.is_set()
    assert (ended.code, ended.out) == (0, "Seen.\n")
    assert ended.err.count("telemetry is incomplete") == 1
    assert "Traceback" not in ended.err


def test_a_missing_exporter_costs_one_warning_that_names_the_extra(tmp_path: Path) -> None:
    program = "import sys; sys.modules['opentelemetry.sdk'] = None"
    with shell(tmp_path, [say("Seen.")]) as s:
        ended = python(s, program, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert (ended.returncode, ended.stdout) == (0, "Seen.\n")
    assert ended.stderr.count("perdure[otel]") == 1


@pytest.mark.parametrize(
    "setting",
    [
        {"OTEL_METRIC_EXPORT_INTERVAL": "-5"},
        {"OTEL_BSP_MAX_QUEUE_SIZE": "1"},
        {"OTEL_METRICS_EXEMPLAR_FILTER": "no filter"},
    ],
    ids=str,
)
def test_a_setting_that_opentelemetry_cannot_use_costs_one_warning(
    tmp_path: Path, setting: dict[str, str]
) -> None:
    with collector() as to, shell(tmp_path, [say("Seen.")]) as s:
        ended = s.run("run", "Hello", env=to.environment | setting)
    assert (ended.code, ended.out) == (0, "Seen.\n")
    assert ended.err.count("telemetry is off: OpenTelemetry cannot be set up (ValueError)") == 1
    assert "Traceback" not in ended.err


def test_an_exporter_that_nobody_installed_is_named(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Seen.")]) as s:
        ended = s.run("run", "Hello", env={"OTEL_TRACES_EXPORTER": "carrier_pigeon"})
    assert (ended.code, ended.out) == (0, "Seen.\n")
    (warning,) = [line for line in ended.err.splitlines() if "telemetry" in line]
    assert "OTEL_TRACES_EXPORTER asks for the exporter carrier_pigeon" in warning
    assert "perdure[otel]" not in warning


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ("http/json", "asks for the protocol http/json, which is not known here; set http/proto"),
        ("grpc", "asks for grpc, whose exporter is not installed; install opentelemetry-exporter"),
    ],
)
def test_a_protocol_that_cannot_be_spoken_costs_one_warning_that_says_why(
    tmp_path: Path, protocol: str, words: str
) -> None:
    env = {ENDPOINT: "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    with shell(tmp_path, [say("Seen.")]) as s:
        ended = s.run("run", "Hello", env=env)
    assert (ended.code, ended.out) == (0, "Seen.\n")
    (warning,) = [line for line in ended.err.splitlines() if "telemetry" in line]
    assert f"OTEL_EXPORTER_OTLP_PROTOCOL {words}" in warning
    assert "perdure[otel]" not in warning


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, "telemetry  off"),
        ({ENDPOINT: "http://c", "OTEL_SDK_DISABLED": "true"}, "telemetry  off (OTEL_SDK_DISABLED)"),
        ({"OTEL_TRACES_EXPORTER": "none"}, "telemetry  off"),
        (
            {ENDPOINT: "http://127.0.0.1:9", "OTEL_METRICS_EXPORTER": "console", CONTENT: "true"},
            (
                f"telemetry  spans to otlp ({ENDPOINT}), "
                f"metrics to console (OTEL_METRICS_EXPORTER), with content ({CONTENT})"
            ),
        ),
    ],
    ids=["nothing", "disabled", "none", "both"],
)
def test_the_doctor_says_where_telemetry_goes_and_which_variable_says_so(
    tmp_path: Path, settings: dict[str, str], line: str
) -> None:
    with shell(tmp_path) as s:
        ended = s.run("doctor", env=settings)
    assert ended.code == 0, ended
    assert f"  {line}" in ended.out.splitlines()
    assert ended.err == ""


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "the protocol http/json, which is not known",
        ),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "-5"}, "OpenTelemetry cannot be set up (ValueError)"),
        ({"OTEL_TRACES_EXPORTER": "carrier_pigeon"}, "asks for the exporter carrier_pigeon"),
    ],
    ids=["protocol", "setting", "exporter"],
)
def test_the_doctor_names_what_is_wrong_with_telemetry_once(
    tmp_path: Path, setting: dict[str, str], words: str
) -> None:
    with shell(tmp_path) as s:
        ended = s.run("doctor", "--json", env={ENDPOINT: "http://127.0.0.1:9"} | setting)
    assert ended.code == 1
    (problem,) = json.loads(ended.out)["problems"]
    assert words in problem


def test_the_doctor_sends_nothing_to_the_collector(tmp_path: Path) -> None:
    with collector() as to, shell(tmp_path) as s:
        ended = s.run("doctor", "--json", env=to.environment)
    assert json.loads(ended.out)["telemetry"]["spans"] == {
        "exporters": ["otlp"],
        "variable": ENDPOINT,
    }
    assert to.received == []


def test_a_run_without_telemetry_imports_nothing_of_it(tmp_path: Path) -> None:
    program = (
        "import sys, atexit; "
        "atexit.register(lambda: print(*[m for m in sys.modules if 'opentelemetry' in m]))"
    )
    with shell(tmp_path, [say("Seen.")]) as s:
        ended = python(s, program)
    assert (ended.returncode, ended.stdout.strip()) == (0, "Seen.")


def test_only_a_named_exporter_turns_telemetry_on() -> None:
    assert wanted({}) == Wanted()
    assert wanted({CONTENT: "true"}).anything is False
    assert wanted({ENDPOINT: "http://c"}) == Wanted(("otlp",), ("otlp",))
    assert wanted({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}) == Wanted(("otlp",))
    assert wanted({ENDPOINT: "http://c", "OTEL_METRICS_EXPORTER": "none"}) == Wanted(("otlp",))
    assert wanted({"OTEL_TRACES_EXPORTER": "console, otlp"}) == Wanted(("console", "otlp"))
    assert wanted({ENDPOINT: "http://c", "OTEL_SDK_DISABLED": "TRUE"}) == Wanted()
    assert wanted({ENDPOINT: "http://c", CONTENT: "span_only"}).content is True


def test_the_protocol_of_one_signal_counts_before_that_of_all() -> None:
    env = {
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
    }
    assert protocol(env, "TRACES") == ("http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    assert protocol(env, "METRICS") == ("grpc", "OTEL_EXPORTER_OTLP_PROTOCOL")
    assert protocol({}, "TRACES")[0] == "http/protobuf"


@pytest.mark.anyio
async def test_a_program_with_an_environment_of_its_own_has_no_telemetry_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    async with instrumented(None, SystemClock(), {}) as instrumentation:
        assert instrumentation is OFF


@pytest.mark.anyio
async def test_telemetry_without_providers_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    async with instrumented(Telemetry(), SystemClock(), None) as instrumentation:
        assert instrumentation is OFF


@pytest.mark.anyio
async def test_a_runtime_that_works_on_nothing_sets_no_exporter_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENDPOINT, "no address at all")
    async with Runtime.open(tmp_path / "sessions.db") as runtime:
        assert await runtime.sessions() == []
    assert caplog.records == []


def test_the_global_providers_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTENT, "true")
    assert Telemetry.from_globals().content is True
    assert Telemetry.from_globals(content=False).content is False
    assert Telemetry.from_globals().tracer_provider is not None


@pytest.mark.anyio
async def test_providers_that_cannot_be_used_leave_telemetry_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Faulty(NoOpTracerProvider):
        def get_tracer(self, *args: object, **options: object) -> NoReturn:
            raise RuntimeError("the key is secret-key")

    given = Telemetry(tracer_provider=Faulty())
    async with instrumented(given, SystemClock(), {}) as instrumentation:
        assert instrumentation is OFF
    assert [record.getMessage() for record in caplog.records] == [
        "telemetry is off: the providers that the program gave cannot be used (RuntimeError)"
    ]
