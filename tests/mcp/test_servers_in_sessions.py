"""Servers in whole sessions: what is told, what ends an epoch and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from perdure import PermissionAnswer, PermissionRequest, Session
from perdure.history import events as ev
from perdure.mcp import Pace
from perdure.session.reading import AnyRecord
from perdure.testing import ReceivedRequest, Reply, call, say
from perdure.tools import Tool, ToolContext
from tests.mcp.wild import Wild
from tests.mcp.wild_server import tool
from tests.session.support import Bench, ask, bench, of_type, told

pytestmark = pytest.mark.anyio


def names(request: ReceivedRequest) -> list[str]:
    offered = [each["function"]["name"] for each in request.json["tools"]]
    return [name.removeprefix("mcp_wild_") for name in offered if name.startswith("mcp_")]


def set_up(b: Bench, wild: Wild, **more: Any) -> None:
    b.config["mcp"] = {"wild": wild.table(**more)}
    b.config["permissions"] = {"mcp_*": "allow"}


async def until_offered(session: Session, tool: str, count: int | None = None) -> None:
    """Wait until the server is seen to offer a tool, and so many in all."""
    with anyio.fail_after(60):
        while True:
            sources = {each.key: each for each in (await session.context()).sources}
            found = sources.get("mcp.wild/tools")
            now: list[dict[str, str]] = (found.now if found else None) or []
            listed = [each["name"] for each in now]
            if f"mcp_wild_{tool}" in listed and count in {None, len(listed)}:
                return
            await anyio.sleep(0.02)


async def ask_again(b: Bench, wild: Wild, trait: str) -> list[AnyRecord]:
    """Ask once, give the server a trait, and return what a new runtime makes of a second prompt."""
    async with b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "first")
    wild.write(trait)
    async with b.runtime() as runtime:
        return await ask(await runtime.session(session.id), "second")


async def test_a_servers_instructions_and_tools_are_told(wild: Wild, tmp_path: Path) -> None:
    wild.write("instructions", "Always call echo first.")
    wild.write("tools", [tool("echo")])
    async with bench(tmp_path, [say("ok")]) as b:
        set_up(b, wild)
        async with b.runtime() as runtime:
            await ask(await b.session(runtime), "hello")
        baseline = b.provider.requests[0].json["messages"][0]["content"]
    assert "Always call echo first." in baseline
    assert "- mcp_wild_echo: The echo." in baseline


async def test_no_server_is_started_before_a_step(wild: Wild, tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        set_up(b, wild)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.context()
    assert wild.lines("pids") == []


async def test_a_lost_server_ends_nothing_and_its_calls_say_so(wild: Wild, tmp_path: Path) -> None:
    script = [say("1"), call("mcp_wild_echo", {"words": "x"}), say("2")]
    async with bench(tmp_path, script) as b:
        set_up(b, wild)
        records = await ask_again(b, wild, "broken")
        first, second, _ = b.provider.requests
    assert of_type(records, ev.EpochStarted) == []
    assert told(records) == []
    assert second.json["tools"] == first.json["tools"]
    (settled,) = of_type(records, ev.ToolSettled)
    assert settled.outcome == "failed"
    assert "not run: the MCP server wild cannot be reached now" in settled.output


async def test_a_server_that_dies_in_a_step_costs_only_its_call(wild: Wild, tmp_path: Path) -> None:
    script = [call("mcp_wild_die"), call("mcp_wild_echo", {"words": "back"}), say("done")]
    async with bench(tmp_path, script) as b:
        set_up(b, wild)
        async with b.runtime() as runtime:
            records = await ask(await b.session(runtime), "go")
    died, back = of_type(records, ev.ToolSettled)
    assert (died.outcome, back.outcome) == ("failed", "completed")
    assert back.output == "back"
    assert len(of_type(records, ev.EpochStarted)) == 1


async def test_a_late_server_joins_with_one_new_epoch(
    wild: Wild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.mcp.servers.DEFAULT_PACE", Pace(join=0.05, call=60))
    wild.write("late")
    async with bench(tmp_path, [say("1"), say("2"), say("3")]) as b:
        b.prefix_may_break = "the server joined"
        set_up(b, wild)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            wild.lift("late")
            await until_offered(session, "echo")
            (epoch,) = of_type(await ask(session, "second"), ev.EpochStarted)
            assert of_type(await ask(session, "third"), ev.EpochStarted) == []
        first, second, third = b.provider.requests
    assert epoch.reasons == ("tools changed",)
    assert names(first) == []
    assert names(second) == names(third) != []


async def test_a_tool_that_is_gone_stays_defined_and_says_so(wild: Wild, tmp_path: Path) -> None:
    only = [tool("change"), tool("echo")]
    wild.write("tools", only)
    script = [
        call("mcp_wild_change", {"tools": [tool("change")]}),
        say("1"),
        call("mcp_wild_echo"),
        say("2"),
    ]
    async with bench(tmp_path, script) as b:
        set_up(b, wild)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await until_offered(session, "change", count=1)
            records = await ask(session, "second")
        requests = b.provider.requests
    (settled,) = of_type(records, ev.ToolSettled)
    assert "does not offer mcp_wild_echo any more" in settled.output
    assert [names(each) for each in requests] == [["change", "echo"]] * 4
    assert told(records) == [
        "The MCP server wild now offers only these tools:\n- mcp_wild_change: The change."
    ]


async def test_new_tools_end_the_epoch_once_and_what_is_gone_goes_with_it(
    wild: Wild, tmp_path: Path
) -> None:
    wild.write("tools", [tool("change"), tool("echo")])
    after = [tool("change"), tool("hang"), tool("huge")]
    script = [call("mcp_wild_change", {"tools": after}), say("1"), say("2"), say("3")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "there are new tools"
        set_up(b, wild)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await until_offered(session, "huge", count=3)
            (epoch,) = of_type(await ask(session, "second"), ev.EpochStarted)
            assert of_type(await ask(session, "third"), ev.EpochStarted) == []
        requests = b.provider.requests
    assert epoch.reasons == ("tools changed",)
    assert names(requests[-1]) == ["change", "hang", "huge"]


async def test_a_server_taken_out_of_the_configuration_is_told_to_be_gone(
    wild: Wild, tmp_path: Path
) -> None:
    async with bench(tmp_path, [say("1"), say("2")]) as b:
        b.prefix_may_break = "a server was taken out"
        set_up(b, wild)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
        set_up(b, wild, disabled=True)
        async with b.runtime() as runtime:
            (epoch,) = of_type(
                await ask(await runtime.session(session.id), "second"), ev.EpochStarted
            )
    assert epoch.reasons == ("tools changed",)
    assert "MCP" not in epoch.baseline
    assert names(b.provider.requests[1]) == []


async def test_a_huge_result_is_cut_with_the_whole_in_a_file(wild: Wild, tmp_path: Path) -> None:
    async with bench(tmp_path, [call("mcp_wild_huge"), say("much")]) as b:
        set_up(b, wild)
        async with b.runtime() as runtime:
            (settled,) = of_type(await ask(await b.session(runtime), "go"), ev.ToolSettled)
    assert len(settled.output) < 60_000
    assert Path(settled.file).read_text().endswith("line 99999")


async def test_a_tool_is_asked_for_unless_it_only_reads(wild: Wild, tmp_path: Path) -> None:
    wild.write("tools", [tool("echo", annotations={"readOnlyHint": True}), tool("fail")])
    asked: list[str] = []

    async def answer(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request.tool)
        return PermissionAnswer(allowed=True)

    script = [call("mcp_wild_echo", {"words": "x"}), call("mcp_wild_fail"), say("done")]
    async with bench(tmp_path, script) as b:
        b.config["mcp"] = {"wild": wild.table()}
        async with b.runtime(ask=answer) as runtime:
            await ask(await b.session(runtime), "go")
    assert asked == ["mcp_wild_fail"]


async def test_a_tool_that_only_reads_is_not_asked_for_while_its_server_still_starts(
    wild: Wild, tmp_path: Path
) -> None:
    wild.write("tools", [tool("echo", annotations={"readOnlyHint": True})])

    def script(_: ReceivedRequest, number: int) -> Reply:
        if number != 1:
            return say("done")
        wild.lift("late")
        return call("mcp_wild_echo", {"words": "there"})

    async with bench(tmp_path, script) as b:
        b.config["mcp"] = {"wild": wild.table()}
        records = await ask_again(b, wild, "late")
    (settled,) = of_type(records, ev.ToolSettled)
    assert settled.output == "there"


async def test_a_pattern_of_the_configuration_counts_more_than_what_a_tool_says_of_itself(
    wild: Wild, tmp_path: Path
) -> None:
    wild.write("tools", [tool("echo", annotations={"readOnlyHint": True})])
    async with bench(tmp_path, [call("mcp_wild_echo"), say("done")]) as b:
        set_up(b, wild)
        async with b.runtime(config={"permissions": {"mcp_wild_*": "deny"}}) as runtime:
            (settled,) = of_type(await ask(await b.session(runtime), "go"), ev.ToolSettled)
    assert "by the rule mcp_wild_*: deny in the given configuration" in settled.output
    assert wild.lines("calls") == []


async def test_an_answer_for_one_call_allows_only_the_same_call(wild: Wild, tmp_path: Path) -> None:
    asked: list[Any] = []

    async def answer(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request.arguments)
        return PermissionAnswer(allowed=True, always="call")

    words = ["a", "a", "b"]
    script = [*(call("mcp_wild_echo", {"words": word}) for word in words), say("done")]
    async with bench(tmp_path, script) as b:
        (b.project / "perdure.toml").write_text("")
        async with b.runtime(ask=answer, config={"mcp": {"wild": wild.table()}}) as runtime:
            await ask(await b.session(runtime), "go")
    assert asked == [{"words": "a"}, {"words": "b"}]


class Nothing(msgspec.Struct):
    """No arguments."""


def own_echo() -> Tool[Nothing]:
    async def run(arguments: Nothing, context: ToolContext) -> str:
        return "own"

    return Tool(name="mcp_wild_echo", description="The program's own.", arguments=Nothing, run=run)


async def test_an_own_tool_of_the_same_name_is_kept(wild: Wild, tmp_path: Path) -> None:
    async with bench(tmp_path, [say("ok")]) as b:
        set_up(b, wild)
        async with b.runtime(tools=[own_echo()]) as runtime:
            await ask(await b.session(runtime), "hello")
        (described,) = [
            each["function"]["description"]
            for each in b.provider.requests[0].json["tools"]
            if each["function"]["name"] == "mcp_wild_echo"
        ]
    assert described == "The program's own."
