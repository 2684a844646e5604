"""A server that others wrote, from its package, in a whole session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perdure.history import events as ev
from perdure.testing import call, say
from tests.session.support import ask, bench, of_type

pytestmark = pytest.mark.anyio

TIME = {"time": {"command": sys.executable, "args": ["-m", "mcp_server_time"]}}


async def test_a_public_server_answers_a_call_in_a_session(tmp_path: Path) -> None:
    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kolkata"}
    script = [call("mcp_time_convert_time", noon), say("Half past five.")]
    async with bench(tmp_path, script) as b:
        b.config["mcp"] = TIME
        async with b.runtime(config={"permissions": {"mcp_*": "allow"}}) as runtime:
            records = await ask(await b.session(runtime), "When is noon there?")
    first, second = b.provider.requests
    names = [tool["function"]["name"] for tool in first.json["tools"]]
    assert {"mcp_time_convert_time", "mcp_time_get_current_time"} < set(names)
    assert names == sorted(names)
    assert "The MCP server time offers these tools:" in first.json["messages"][0]["content"]
    (settled,) = of_type(records, ev.ToolSettled)
    assert settled.outcome == "completed"
    assert "17:30" in settled.output
    assert b"17:30" in second.body


async def test_what_a_public_server_refuses_is_a_failed_result(tmp_path: Path) -> None:
    script = [call("mcp_time_get_current_time", {"timezone": "Nowhere"}), say("No such zone.")]
    async with bench(tmp_path, script) as b:
        b.config["mcp"] = TIME
        async with b.runtime(allow_all=True) as runtime:
            (settled,) = of_type(
                await ask(await b.session(runtime), "What time is it?"), ev.ToolSettled
            )
    assert settled.outcome == "failed"
    assert "Invalid timezone" in settled.output
