"""An epoch that is due and cannot begin: who says so, and which source is named."""

from __future__ import annotations

import json
from pathlib import Path

from perdure.testing import say
from tests.cli.support import shell

PLUGIN = """
from perdure import Source

async def load():
    return "up"

def plugin(scope):
    scope.source(Source(key="tower/light", type=str, load=load,
        baseline=lambda value: f"# Light\\n\\nThe light is {value}.",
        update=lambda before, now: f"# Light\\n\\nThe light is {now}."))
"""


def test_context_and_doctor_name_the_source_that_blocks_a_new_epoch(tmp_path: Path) -> None:
    file = tmp_path / "tower.py"
    file.write_text(PLUGIN)
    config = {"plugins": {"paths": [str(file)]}}
    with shell(tmp_path, [say("1"), say("2")], config=config) as s:
        s.run("run", "first")
        session = s.the_session()
        file.write_text("raise RuntimeError('broken')")
        s.run("sessions", "model", session, "scripted/model-2")
        assert "tower/light" in s.run("context", session).out.partition("Next step")[2]
        found = json.loads(s.run("doctor", "--json").out)
        (blocked,) = [line for line in found["diagnostics"] if session in line]
        assert "model switched" in blocked
        assert "tower/light cannot be observed" in blocked


def test_the_doctor_names_a_source_that_cannot_be_observed(tmp_path: Path) -> None:
    file = tmp_path / "tower.py"
    file.write_text(PLUGIN.replace('return "up"', 'raise OSError("dark")'))
    with shell(tmp_path, [say("1")], config={"plugins": {"paths": [str(file)]}}) as s:
        s.run("run", "first")
        found = json.loads(s.run("doctor", "--json").out)
        assert any("source tower/light" in line for line in found["diagnostics"])
