"""The list of what is to be done: a tool that writes it, and a fact that stays told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.history import events as ev
from perdure.testing import call, say
from perdure.tools import Tool, ToolContext, ToolOutput
from tests.session.support import ask, bench, of_type, told

pytestmark = pytest.mark.anyio

ITEMS = [{"content": "Find it", "status": "completed"}, {"content": "Mend it", "status": "pending"}]


async def test_the_list_is_durable_with_its_result_and_told_at_the_next_boundary(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [call("todo", {"items": ITEMS}), say("Kept.")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            records = await ask(session, "Plan it.")
            assert (await session.state()).entries["todo"] == ITEMS
        kinds = [record.type for record in records]
        assert kinds.index("entry.set") == kinds.index("tool.settled") + 1
        (message,) = told(records)
        assert "- [x] Find it\n- [ ] Mend it" in message


async def test_the_list_outlives_a_compaction(tmp_path: Path) -> None:
    script = [call("todo", {"items": ITEMS}), say("Kept."), say("A summary."), say("On.")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "a compaction begins a new epoch"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Plan it.")
            await session.compact()
            await ask(session, "Go on.")
            epoch = (await session.state()).epoch
            assert epoch is not None
            assert "- [ ] Mend it" in epoch.baseline


async def test_the_same_list_again_is_told_once(tmp_path: Path) -> None:
    script = [call("todo", {"items": ITEMS}), call("todo", {"items": ITEMS}), say("Kept.")]
    async with bench(tmp_path, script) as b, b.runtime() as runtime:
        records = await ask(await b.session(runtime), "Plan it.")
        assert len(of_type(records, ev.EntrySet)) == 1
        assert len(told(records)) == 1


async def test_an_entry_that_cannot_be_is_an_error_for_the_model(tmp_path: Path) -> None:
    class Nothing(msgspec.Struct):
        """No arguments."""

    async def run(arguments: Nothing, context: ToolContext) -> ToolOutput:
        return ToolOutput("kept", entries={"large": "x" * 9000})

    tool: Tool[Any] = Tool(name="keep", description="Keep.", arguments=Nothing, run=run)
    async with (
        bench(tmp_path, [call("keep", {}), say("No.")]) as b,
        b.runtime(tools=[tool]) as runtime,
    ):
        records = await ask(await b.session(runtime), "Keep it.")
        (settled,) = of_type(records, ev.ToolSettled)
        assert settled.outcome == "failed"
        assert "the limit is 8192" in settled.output
        assert of_type(records, ev.EntrySet) == []
