"""Our names against those that OpenTelemetry's own helper for GenAI sends."""

from __future__ import annotations

from pathlib import Path

import pytest
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


def helped() -> Collected:
    """Return the same session, told through OpenTelemetry's helper."""
    seen = Collected()
    handler = TelemetryHandler(
        tracer_provider=seen.telemetry.tracer_provider, meter_provider=seen.telemetry.meter_provider
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
    return seen


async def test_spans_have_the_names_kinds_and_attributes_of_the_conventions(
    tmp_path: Path,
) -> None:
    seen, helper = await ours(tmp_path), {span.name: span for span in helped().spans}
    assert set(helper) == {AGENT, CHAT, "execute_tool effect"}
    for name, theirs in helper.items():
        span, expected = seen.named(name)[-1], set(attributes(theirs))
        own = {each for each in attributes(span) if not each.startswith("perdure.")}
        assert span.kind is theirs.kind
        assert own - expected <= FURTHER
        assert expected - own == set()


async def test_metrics_have_the_boundaries_of_the_conventions(tmp_path: Path) -> None:
    seen, helper = await ours(tmp_path), helped().metrics()
    for metric in METRICS:
        points = seen.points(metric)
        assert points
        if metric in helper:
            (theirs,) = {tuple(point.explicit_bounds) for point in helper[metric]}
            assert tuple(points[0].explicit_bounds) == pytest.approx(theirs)
    assert set(helper) <= set(METRICS)
