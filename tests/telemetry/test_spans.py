"""Spans and metrics of sessions, collected by the real SDK."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from opentelemetry import context as otel
from opentelemetry.trace import StatusCode, get_current_span

from perdure import Tool, ToolContext
from perdure.errors import LeaseLost, ToolError
from perdure.history.content import Usage
from perdure.models.types import Endpoint
from perdure.telemetry import OFF, Telemetry
from perdure.telemetry.attributes import error_type, provider
from perdure.testing import FakeClock, call, calls, error, hold, say, think
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.session.support import ask, bench, of_type
from tests.session.worker import EffectArguments
from tests.telemetry.collected import Collected, attributes

pytestmark = pytest.mark.anyio

CHAT = "chat model-1"
AGENT = "invoke_agent perdure"
SECRETS = ("pineapple", "marmalade", "walrus", "giraffe")


def effect(said: str = "marmalade", *, fails: bool = False) -> Tool[EffectArguments]:
    async def run(arguments: EffectArguments, context: ToolContext) -> str:
        if fails:
            raise ToolError(said)
        return said

    return Tool(name="effect", description="Has one.", arguments=EffectArguments, run=run)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_drain_is_the_parent_of_its_requests_and_tools(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    seen = Collected()
    script = [calls(("effect", {"name": "a"}), ("effect", {"name": "b"})), say("Done.")]
    async with bench(tmp_path, script, protocol) as b:
        async with b.runtime(telemetry=seen.telemetry, tools=[effect()]) as runtime:
            session = await b.session(runtime)
            await ask(session, "Work")
    chat = "generate_content model-1" if protocol == "gemini" else CHAT
    tool = "execute_tool effect"
    assert seen.tree() == [(AGENT, ""), (chat, AGENT), (tool, AGENT), (tool, AGENT), (chat, AGENT)]
    drain = seen.one(AGENT)
    assert drain["gen_ai.conversation.id"] == session.id
    assert drain["perdure.outcome"] == "completed"
    first, second = map(attributes, seen.named(chat))
    assert first["gen_ai.operation.name"] == chat.split()[0]
    assert (first["perdure.step"], second["perdure.step"]) == (1, 2)
    assert (first["perdure.prefix_kept"], second["perdure.prefix_kept"]) == ("unknown", "true")
    assert second["perdure.blocks"] > first["perdure.blocks"]
    assert first["server.address"] == "127.0.0.1"
    assert first["gen_ai.response.finish_reasons"] == ("tool_call",)
    assert second["gen_ai.response.finish_reasons"] == ("stop",)
    assert {attributes(span)["gen_ai.tool.type"] for span in seen.named(tool)} == {"function"}
    assert len({attributes(span)["gen_ai.tool.call.id"] for span in seen.named(tool)}) == 2


async def test_each_attempt_is_a_span_and_a_failed_one_tells_its_class(tmp_path: Path) -> None:
    seen = Collected()
    async with bench(tmp_path, [error(529), say("At last.")]) as b:
        async with b.runtime(clock=FakeClock(), telemetry=seen.telemetry) as runtime:
            await ask(await b.session(runtime), "Hello")
    failed, answered = seen.named(CHAT)
    assert attributes(failed)["error.type"] == "ProviderOverloaded"
    assert attributes(failed)["http.response.status_code"] == 529
    assert failed.status.status_code is StatusCode.ERROR
    assert [attributes(span)["perdure.attempt"] for span in (failed, answered)] == [1, 2]
    assert "error.type" not in attributes(answered)
    assert "error.type" not in seen.one(AGENT)


async def test_a_failed_step_fails_the_drain(tmp_path: Path) -> None:
    seen = Collected()
    async with bench(tmp_path, [error(401)]) as b:
        async with b.runtime(telemetry=seen.telemetry) as runtime:
            await ask(await b.session(runtime), "Hello")
    assert seen.one(AGENT)["error.type"] == "AuthenticationFailed"
    assert seen.one(AGENT)["perdure.outcome"] == "failed"
    (point,) = seen.points("gen_ai.invoke_agent.duration")
    assert dict(point.attributes or {})["error.type"] == "AuthenticationFailed"


async def test_tokens_are_on_the_spans_and_in_the_metrics(tmp_path: Path) -> None:
    seen = Collected()
    usage = Usage(input=100, output=20, cache_read=60, cache_write=30, reasoning=7)
    async with bench(tmp_path, [say("Hi.", usage=usage)], "anthropic") as b:
        async with b.runtime(telemetry=seen.telemetry) as runtime:
            records = await ask(await b.session(runtime), "Hello")
    (answer,) = [each for each in of_type(records, object) if hasattr(each, "usage")]
    chat = seen.one(CHAT)
    assert chat["gen_ai.usage.input_tokens"] == answer.usage.input
    assert chat["gen_ai.usage.output_tokens"] == answer.usage.output
    assert chat["gen_ai.usage.cache_read.input_tokens"] == answer.usage.cache_read
    assert chat["gen_ai.usage.cache_creation.input_tokens"] == answer.usage.cache_write
    assert chat["gen_ai.usage.cache_write.input_tokens"] == answer.usage.cache_write
    assert seen.one(AGENT)["gen_ai.usage.input_tokens"] == answer.usage.input
    assert seen.one(AGENT)["gen_ai.usage.cache_read.input_tokens"] == answer.usage.cache_read
    sums = {
        dict(point.attributes or {})["gen_ai.token.type"]: point.sum
        for point in seen.points("gen_ai.client.token.usage")
    }
    assert sums == {"input": answer.usage.input, "output": answer.usage.output}


async def test_durations_are_those_of_the_given_clock(tmp_path: Path) -> None:
    clock, seen = FakeClock(), Collected()

    async def run(arguments: EffectArguments, context: ToolContext) -> str:
        await clock.sleep(3.0)
        return "slept"

    slow = Tool(name="effect", description="Waits.", arguments=EffectArguments, run=run)
    async with bench(tmp_path, [call("effect", {"name": "a"}), say("Done.")]) as b:
        async with b.runtime(clock=clock, telemetry=seen.telemetry, tools=[slow]) as runtime:
            await ask(await b.session(runtime), "Work")
    (tool,) = seen.points("gen_ai.execute_tool.duration")
    (agent,) = seen.points("gen_ai.invoke_agent.duration")
    assert tool.sum == pytest.approx(3.0)
    assert agent.sum >= tool.sum
    assert sum(point.count for point in seen.points("gen_ai.client.operation.duration")) == 2
    first = seen.points("gen_ai.client.operation.time_to_first_chunk")
    assert sum(point.count for point in first) == 2


@pytest.mark.parametrize("content", [False, True])
async def test_what_was_said_is_told_only_where_that_is_asked_for(
    tmp_path: Path, *, content: bool
) -> None:
    seen = Collected(content=content)
    script = [
        think("giraffe") + call("effect", {"name": "walrus"}),
        error(400, "you said: pineapple"),
    ]
    async with bench(tmp_path, script, "anthropic") as b:
        async with b.runtime(telemetry=seen.telemetry, tools=[effect()]) as runtime:
            await ask(await b.session(runtime), "pineapple")
    everything = seen.everything()
    assert {word for word in SECRETS if word in everything} == (set(SECRETS) if content else set())
    assert "scripted-key" not in everything


async def test_content_is_bounded(tmp_path: Path) -> None:
    seen = Collected(content=True)
    async with bench(tmp_path, [call("effect", {"name": "a"}), say("Done.")]) as b:
        tools = [effect("x" * 40_000)]
        async with b.runtime(telemetry=seen.telemetry, tools=tools) as runtime:
            await ask(await b.session(runtime), "y" * 40_000)
    assert len(seen.everything()) < 120_000


async def test_a_failing_tool_tells_its_outcome(tmp_path: Path) -> None:
    seen = Collected()
    async with bench(tmp_path, [call("effect", {"name": "a"}), say("I see.")]) as b:
        tools = [effect(fails=True)]
        async with b.runtime(telemetry=seen.telemetry, tools=tools) as runtime:
            await ask(await b.session(runtime), "Work")
    tool = seen.one("execute_tool effect")
    assert (tool["perdure.outcome"], tool["error.type"]) == ("failed", "ToolError")


async def test_a_call_that_never_ran_has_no_span(tmp_path: Path) -> None:
    seen = Collected()
    async with bench(tmp_path, [call("unheard_of"), say("I see.")]) as b:
        async with b.runtime(telemetry=seen.telemetry) as runtime:
            await ask(await b.session(runtime), "Work")
    assert [name for name, _ in seen.tree()] == [AGENT, CHAT, CHAT]


async def test_an_interrupt_ends_the_spans_of_a_request(tmp_path: Path) -> None:
    seen, begun = Collected(), anyio.Event()
    async with bench(tmp_path, [hold(begun, say("Never whole."), after=1)]) as b:
        async with b.runtime(telemetry=seen.telemetry) as runtime:
            session = await b.session(runtime)
            admission = await session.prompt("Hello")
            async for record in session.events(after=admission.seq):
                if record.type == "text.delta":
                    break
            await session.interrupt()
    assert seen.tree() == [(AGENT, ""), (CHAT, AGENT)]
    assert seen.one(CHAT)["error.type"] == "Interrupted"
    assert seen.one(AGENT)["error.type"] == "Interrupted"


async def test_an_interrupt_ends_the_span_of_a_tool(tmp_path: Path) -> None:
    seen, running = Collected(), anyio.Event()

    async def run(arguments: EffectArguments, context: ToolContext) -> str:
        running.set()
        await anyio.sleep_forever()
        return ""

    slow = Tool(name="effect", description="Hangs.", arguments=EffectArguments, run=run)
    async with bench(tmp_path, [call("effect", {"name": "a"})]) as b:
        async with b.runtime(telemetry=seen.telemetry, tools=[slow]) as runtime:
            session = await b.session(runtime)
            await session.prompt("Work")
            await running.wait()
            await session.interrupt()
    tool = seen.one("execute_tool effect")
    assert (tool["perdure.outcome"], tool["error.type"]) == ("interrupted", "Interrupted")


async def test_a_compaction_is_a_request_of_its_own(tmp_path: Path) -> None:
    seen = Collected()
    async with bench(tmp_path, [say("One."), say("The summary.")]) as b:
        async with b.runtime(telemetry=seen.telemetry) as runtime:
            session = await b.session(runtime)
            await ask(session, "Hello")
            await session.compact()
            await session.wait()
    assert [attributes(span)["perdure.purpose"] for span in seen.named(CHAT)] == [
        "step",
        "compaction",
    ]


async def test_a_title_is_a_request_below_its_drain_and_not_in_its_sum(tmp_path: Path) -> None:
    seen = Collected()
    async with bench(tmp_path, [say("It is old.")], titles=[say("The old one")]) as b:
        async with b.runtime(titles=True, telemetry=seen.telemetry) as runtime:
            session = await b.session(runtime)
            await ask(session, "How old is it?")
            async for record in session.events():
                if record.type == "session.renamed":
                    break
    purposes = {attributes(span)["perdure.purpose"]: span for span in seen.named(CHAT)}
    assert set(purposes) == {"step", "title"}
    assert set(seen.tree()) == {(AGENT, ""), (CHAT, AGENT)}
    step = attributes(purposes["step"])
    assert seen.one(AGENT)["gen_ai.usage.input_tokens"] == step["gen_ai.usage.input_tokens"]


async def test_two_runtimes_tell_two_collectors(tmp_path: Path) -> None:
    one, other = Collected(), Collected()
    async with bench(tmp_path, [say("One."), say("Two.")]) as b:
        b.prefix_may_break = "two sessions"
        async with (
            b.runtime(telemetry=one.telemetry) as first,
            b.runtime(telemetry=other.telemetry) as second,
        ):
            await ask(await b.session(first), "Hello")
            await ask(await b.session(second), "Hello")
    assert len(one.spans) == len(other.spans) == 2
    assert get_current_span(otel.get_current()).get_span_context().is_valid is False


async def test_providers_that_fail_keep_nothing_from_working(tmp_path: Path) -> None:
    class Broken:
        def get_tracer(self, *_: object, **__: object) -> Broken:
            return self

        def start_span(self, *_: object, **__: object) -> None:
            raise RuntimeError("broken")

    broken = Telemetry(tracer_provider=Broken())  # type: ignore[arg-type] - broken on purpose
    async with bench(tmp_path, [say("Hi.")]) as b:
        async with b.runtime(telemetry=broken) as runtime:
            records = await ask(await b.session(runtime), "Hello")
    assert [record.type for record in records][-1] == "step.finished"


def test_errors_are_told_by_their_class() -> None:
    assert error_type(LeaseLost("taken")) == "LeaseLost"
    assert error_type(ValueError("no")) == "ValueError"
    assert error_type(anyio.EndOfStream()) == "anyio.EndOfStream"


@pytest.mark.parametrize(
    ("protocol", "url", "name"),
    [
        ("anthropic", "https://api.anthropic.com", "anthropic"),
        ("openai-responses", "https://api.openai.com/v1", "openai"),
        ("openai-chat", "http://127.0.0.1:11434/v1", "mine"),
        ("gemini", "https://generativelanguage.googleapis.com/v1beta", "gcp.gemini"),
    ],
)
def test_vendors_have_their_name_in_the_conventions(protocol: str, url: str, name: str) -> None:
    assert provider(Endpoint("mine", protocol, url)) == name


def test_without_providers_telemetry_is_off() -> None:
    with OFF.drain("s") as span:
        assert span is OFF
