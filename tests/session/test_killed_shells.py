"""What a shell command started does not outlive a runtime that is killed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perdure.history import events as ev
from perdure.testing import call, say
from tests.session.support import of_type
from tests.session.test_recovery import read_until, scene
from tests.tools.processes import is_alive, numbers_in, wait_until_gone

LINUX = sys.platform == "linux"

IN_THE_BACKGROUND = "(while :; do echo x >> {written}; sleep 0.01; done) & echo $! >> {pids};"
IN_ITS_OWN_SESSION = (
    'setsid sh -c \'echo $$ >> {pids}; trap "" TERM HUP;'
    " while :; do echo y >> {written}; sleep 0.01; done' &"
)
ITSELF = "echo $$ >> {pids}; trap '' TERM HUP; while :; do echo z >> {written}; sleep 0.01; done"


@pytest.mark.parametrize(
    ("started", "count"),
    [
        (IN_THE_BACKGROUND, 2),
        pytest.param(
            IN_ITS_OWN_SESSION,
            2,
            marks=pytest.mark.skipif(
                not LINUX, reason="only Linux lets a process adopt its descendants"
            ),
        ),
    ],
)
def test_a_command_and_what_it_started_are_gone_with_a_killed_runtime(
    tmp_path: Path, started: str, count: int
) -> None:
    pids, written = tmp_path / "pids", tmp_path / "written"
    command = (started + ITSELF).format(pids=pids, written=written)
    script = [call("shell", {"command": command, "timeout": 600}), say("I see."), say("Fine.")]
    with scene(tmp_path, script) as s:
        s.job.config["permissions"] = {"shell": "allow"}
        with s.process() as worker:
            session = read_until(worker.stdout, None)
            processes = numbers_in(pids, count)
            assert all(is_alive(process) for process in processes)
            worker.kill()
        wait_until_gone(processes)
        size = written.stat().st_size
        s.finish(session, "Go on.")
        assert size > 0
        assert written.stat().st_size == size
        assert not any(is_alive(process) for process in processes)
        settled = of_type(s.log(session), ev.ToolSettled)
        assert [event.outcome for event in settled] == ["unknown"]
