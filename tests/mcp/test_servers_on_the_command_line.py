"""What `perdure doctor` and `perdure run` say of MCP servers."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from perdure.testing import ReceivedRequest, Reply, call, hold, say, stall
from tests.cli.support import finished, shell
from tests.mcp.wild import Wild
from tests.mcp.wild_server import tool


def config(wild: Wild, **more: Any) -> dict[str, Any]:
    rules = {"mcp_wild_*": "allow", "mcp_wild_eco": "deny", "mcp_*": "allow"}
    return {"mcp": {"wild": wild.table(**more)}, "permissions": rules}


def test_the_doctor_shows_servers_and_what_was_left_out(wild: Wild, tmp_path: Path) -> None:
    wild.write("tools", [tool("echo"), tool("bad", inputSchema={"type": "array"})])
    with shell(tmp_path, config=config(wild)) as s:
        page = s.run("doctor")
        found = json.loads(s.run("doctor", "--json").out)
    assert "servers    wild (ready, 1 tools)" in page.out
    assert found["mcp"][0]["tools"] == ["mcp_wild_echo"]
    assert "MCP server wild: tool bad is left out: its input schema" in page.out
    assert "permissions.mcp_wild_eco names no built-in tool" in page.out
    assert "permissions.mcp_wild_*" not in page.out
    assert page.code == 1


def test_the_doctor_names_a_server_that_does_not_start(wild: Wild, tmp_path: Path) -> None:
    wild.write("broken")
    with shell(tmp_path, config=config(wild)) as s:
        page = s.run("doctor")
    assert page.code == 1
    assert "MCP server wild: " in page.out
    assert "it cannot start with" in page.out
    assert "names no built-in tool" not in page.out


def test_a_run_uses_a_server_and_prints_nothing_of_its_noise(wild: Wild, tmp_path: Path) -> None:
    def model(request: ReceivedRequest, number: int) -> Reply:
        """Look around until the server is there: on a busy machine it may join late."""
        if "mcp_wild_nonsense" not in str(request.json.get("tools")):
            return stall(call("list", {"path": "."}), seconds=0.5)
        return say("It said so.") if wild.lines("calls") else call("mcp_wild_nonsense")

    with shell(tmp_path, model, config=config(wild)) as s:
        s.prefix_may_break = "the server may join late"
        ended = s.run("run", "go")
    assert (ended.code, ended.out.strip()) == (0, "It said so.")
    assert "hello, I am no message" not in ended.err
    assert "Traceback" not in ended.err


def test_a_lost_server_is_said_and_the_run_goes_on(wild: Wild, tmp_path: Path) -> None:
    wild.write("broken")
    said = threading.Event()
    with shell(tmp_path, [hold(said, say("Anyway."))], config=config(wild)) as s:
        with s.start("run", "go") as process:
            assert process.stderr is not None
            assert any("MCP server wild" in line for line in process.stderr)
            said.set()
            ended = finished(process)
    assert (ended.code, ended.out.strip()) == (0, "Anyway.")
