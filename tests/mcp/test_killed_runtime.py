"""A runtime that is killed while a server works for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from perdure.history import events as ev
from perdure.testing import calls, say
from tests.mcp.runtime_worker import Job
from tests.mcp.wild import Wild, until
from tests.session.support import bench, log_of, of_type
from tests.tools.processes import wait_until_gone

pytestmark = pytest.mark.anyio

WORKER = Path(__file__).with_name("runtime_worker.py")


async def test_its_servers_are_gone_and_the_running_call_is_not_repeated(
    wild: Wild, tmp_path: Path
) -> None:
    script = [calls(("mcp_wild_spawn", {}), ("mcp_wild_hang", {})), say("done")]
    async with bench(tmp_path, script) as b:
        b.config |= {"mcp": {"wild": wild.table()}, "permissions": {"mcp_*": "allow"}}
        job = tmp_path / "job.json"
        given = Job(str(b.store), str(b.project), b.config, dict(b.environ))
        job.write_bytes(msgspec.json.encode(given))
        worker = subprocess.Popen([sys.executable, str(WORKER), str(job)])
        try:
            await until(lambda: len(wild.lines("calls")) == 2 and len(wild.lines("pids")) == 2)
        finally:
            worker.kill()
            worker.wait()
        await anyio.to_thread.run_sync(wait_until_gone, [int(pid) for pid in wild.lines("pids")])
        async with b.runtime() as runtime:
            (row,) = await runtime.sessions()
            session = await runtime.session(row.id)
            await runtime.recover()
            await session.wait()
            settled = of_type(await log_of(session), ev.ToolSettled)
    outcomes = {each.call: each.outcome for each in settled}
    assert list(outcomes.values()).count("unknown") >= 1
    assert len(outcomes) == 2
    assert sorted(wild.lines("calls")) == ["hang", "spawn"]
