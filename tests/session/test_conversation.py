"""A session from prompt to answer: what is asked, what is kept, what the model sees."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perdure import PromptConflict, Runtime, Source, UsageError
from perdure.history import events as ev
from perdure.history.content import Text
from perdure.history.items import AssistantItem, UserItem
from perdure.testing import FakeClock, call, calls, say
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.session.support import ask, bench, log_of, of_type, told

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_prompt_is_answered_and_both_stay_in_the_history(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    async with bench(tmp_path, [say("Because of the missing comma.")], protocol) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Why does it fail?")
            user, assistant = await session.messages()
    assert isinstance(user, UserItem)
    assert user.text == "Why does it fail?"
    assert isinstance(assistant, AssistantItem)
    assert [part.text for part in assistant.parts if isinstance(part, Text)] == [
        "Because of the missing comma."
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_after_a_restart_the_next_request_begins_with_every_block_of_the_last(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    script = [call("list", {"path": "."}), say("Nothing there."), say("Still nothing.")]
    async with bench(tmp_path, script, protocol) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "What is there?")
        async with b.runtime() as runtime:
            again = await runtime.session(session.id)
            await ask(again, "And now?")
        assert len(b.provider.requests) == 3
        assert not b.provider.refused


async def test_every_step_records_that_it_kept_the_last_request_as_prefix(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two"), say("three")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            for text in ("a", "b", "c"):
                await ask(session, text)
            steps = of_type(await log_of(session), ev.StepStarted)
    assert [step.prefix for step in steps] == [None, True, True]
    assert [step.cause for step in steps] == ["", "", ""]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_request_of_any_earlier_step_is_given_back_byte_for_byte(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    script = [call("list", {"path": "."}), say("Empty."), say("Yes.")]
    async with bench(tmp_path, script, protocol) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "What is there?")
            (b.project / "AGENTS.md").write_text("Be brief.")
            await ask(session, "Really?")
        async with b.runtime() as runtime:
            again = await runtime.session(session.id)
            bodies = [await again.request(step) for step in (1, 2, 3)]
            assert await again.request() == bodies[-1]
        assert bodies == [request.body for request in b.provider.requests]


async def test_a_step_that_never_was_has_no_request(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        with pytest.raises(UsageError, match="no step yet"):
            await session.request()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_changed_instruction_file_is_told_once_in_the_next_request(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    async with bench(tmp_path, [say("1"), say("2"), say("3")], protocol) as b:
        (b.project / "AGENTS.md").write_text("Write short sentences.")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Hello")
            (b.project / "AGENTS.md").write_text("Write long sentences.")
            second = await ask(session, "Hello again")
            third = await ask(session, "Once more")
        (text,) = told(second)
        assert "Write long sentences." in text
        assert "short" not in text
        assert told(third) == []
        assert b"Write long sentences." in b.provider.requests[1].body
        assert b"Write short sentences." in b.provider.requests[2].body


async def test_the_date_of_the_injected_clock_is_told_when_it_changes(tmp_path: Path) -> None:
    clock = FakeClock(datetime(2026, 12, 2, 12, tzinfo=UTC))
    async with bench(tmp_path, [say("1"), say("2")]) as b:
        async with b.runtime(clock=clock) as runtime:
            session = await b.session(runtime)
            await ask(session, "Hello")
            clock.set(datetime(2026, 12, 4, 12, tzinfo=UTC))
            (text,) = told(await ask(session, "Hello again"))
    assert "2026-12-04" in text
    assert "2026-12-02" not in text


async def test_changes_of_several_sources_are_one_message_behind_the_prompt(tmp_path: Path) -> None:
    clock = FakeClock(datetime(2026, 12, 2, 12, tzinfo=UTC))
    async with bench(tmp_path, [say("1"), say("2")]) as b:
        async with b.runtime(clock=clock) as runtime:
            session = await b.session(runtime)
            await ask(session, "Hello")
            clock.set(datetime(2026, 12, 4, 12, tzinfo=UTC))
            (b.project / "AGENTS.md").write_text("Be kind.")
            records = await ask(session, "Hello again")
        order = [type(record.data) for record in records if record.seq]
        assert len(told(records)) == 1
        assert order.index(ev.PromptPromoted) < order.index(ev.SystemMessage)
        assert order.index(ev.SystemMessage) < order.index(ev.StepStarted)
        last = b.provider.requests[1].json["messages"][-1]
        assert last["role"] == "user"
        assert last["content"][0]["text"] == "Hello again"
        assert "<system-message-" in last["content"][1]["text"]


async def test_an_own_source_is_told_in_the_baseline_and_then_when_it_changes(
    tmp_path: Path,
) -> None:
    weather = ["sunny"]
    source = Source(
        key="demo/weather",
        type=str,
        load=lambda: weather[0],
        baseline=lambda value: f"The weather is {value}.",
        update=lambda _, current: f"The weather is now {current}.",
    )
    async with bench(tmp_path, [say("1"), say("2")]) as b:
        async with b.runtime(sources=[source]) as runtime:
            session = await b.session(runtime)
            await ask(session, "Hello")
            weather[0] = "rainy"
            assert told(await ask(session, "Hello again")) == ["The weather is now rainy."]
        assert "The weather is sunny." in b.provider.requests[0].json["messages"][0]["content"]


async def test_an_idle_session_loads_nothing(tmp_path: Path) -> None:
    loads: list[int] = []

    async def load() -> str:
        loads.append(1)
        return "value"

    source = Source(
        key="demo/counted", type=str, load=load, baseline=str, update=lambda _, current: current
    )
    async with bench(tmp_path, [say("1")]) as b, b.runtime(sources=[source]) as runtime:
        session = await b.session(runtime)
        assert loads == []
        await ask(session, "Hello")
        assert len(loads) == 1
        await session.wait()
        await session.messages()
        assert len(loads) == 1


async def test_the_embedders_opening_instructions_are_in_the_baseline(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime, instructions="You review pull requests.")
            await ask(session, "Hello")
        baseline = b.provider.requests[0].json["messages"][0]["content"]
        assert "You review pull requests." in baseline


async def test_the_same_prompt_id_is_admitted_once(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        first = await session.prompt("Hello", id="mine")
        await session.wait()
        assert await session.prompt("Hello", id="mine") == first
        await session.wait()
        assert len(of_type(await log_of(session), ev.PromptAdmitted)) == 1
        assert len(b.provider.requests) == 1


async def test_a_prompt_id_of_another_session_is_a_conflict(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1")]) as b, b.runtime() as runtime:
        first, second = await b.session(runtime), await b.session(runtime)
        await ask(first, "Hello", id="mine")
        with pytest.raises(PromptConflict, match="mine"):
            await second.prompt("Hello", id="mine")
        b.prefix_may_break = "two sessions"


async def test_an_empty_prompt_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        with pytest.raises(UsageError, match="empty"):
            await session.prompt("  \n")


async def test_results_of_parallel_calls_keep_the_order_of_the_calls(tmp_path: Path) -> None:
    script = [
        calls(("read", {"path": "a.txt"}), ("list", {"path": "."}), ("read", {"path": "b.txt"})),
        say("done"),
    ]
    async with bench(tmp_path, script) as b:
        (b.project / "a.txt").write_text("alpha")
        (b.project / "b.txt").write_text("beta")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Read them")
        tools = [m for m in b.provider.requests[1].json["messages"] if m["role"] == "tool"]
        assert len(tools) == 3
        assert "alpha" in tools[0]["content"]
        assert "a.txt" in tools[1]["content"]
        assert "beta" in tools[2]["content"]


async def test_text_arrives_live_before_it_is_durable(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("Hello there, friend.")]) as b, b.runtime() as runtime:
        records = await ask(await b.session(runtime), "Hi")
    live = "".join(event.text for event in of_type(records, ev.TextDelta))
    assert live == "Hello there, friend."
    order = [type(record.data) for record in records]
    assert order.index(ev.TextDelta) < order.index(ev.AssistantMessage)


async def test_a_step_limit_ends_with_a_note_and_runs_no_more_calls(tmp_path: Path) -> None:
    script = [call("list", {"path": "."}), call("write", {"path": "x", "content": "y"}), say("ok")]
    async with bench(tmp_path, script) as b:
        b.config["step_limit"] = 2
        b.config["permissions"] = {"write": "allow"}
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            records = await ask(session, "Go on for ever")
            assert not (b.project / "x").exists()
            outcomes = [event.outcome for event in of_type(records, ev.ToolSettled)]
            assert outcomes == ["completed", "not_run"]
            assert len(b.provider.requests) == 2
            await ask(session, "Well?")
        first, second = (request.json for request in b.provider.requests[:2])
        assert first["tools"] == second["tools"]
        assert "last step" in str(second["messages"][-1])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sources": ["AGENTS.md"]}, "each of the sources must be a Source or a SystemContext"),
        ({"sources": 3}, "the sources must be a list, not int"),
        ({"tools": ["read"]}, "each of the tools must be a Tool, not str"),
        ({"tools": Path}, "the tools must be a list, not type"),
    ],
)
async def test_what_is_no_source_and_no_tool_is_refused_when_a_runtime_is_opened(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        async with Runtime.open(tmp_path / "s.db", **given):
            pass
