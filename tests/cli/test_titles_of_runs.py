"""Titles on the command line: only where the configuration wants them, and never waited for."""

from __future__ import annotations

import threading
from pathlib import Path

from perdure.testing import hold, say
from tests.cli.support import finished, shell, until

PROMPT = "Why does the build fail?"


def test_a_run_sends_one_request_and_no_other(tmp_path: Path) -> None:
    with shell(tmp_path, [say("It is old.")]) as s:
        assert s.run("run", PROMPT).code == 0
        assert len(s.provider.requests) == 1
        assert s.provider.title_requests == []
        assert s.listed()["title"] == PROMPT


def test_a_run_has_a_title_written_where_the_configuration_says_so(tmp_path: Path) -> None:
    released = threading.Event()
    script = [hold(released, say("It is old."))]
    with (
        shell(tmp_path, script, config={"titles": True}, titles=[say("Old build")]) as s,
        s.start("run", PROMPT) as process,
    ):
        try:
            until(lambda: s.store.exists() and s.provider.title_requests)
            until(lambda: s.row().title == "Old build")
        finally:
            released.set()
        ended = finished(process)
        assert (ended.code, ended.out) == (0, "It is old.\n")


def test_a_run_does_not_wait_for_its_title(tmp_path: Path) -> None:
    never = threading.Event()
    titles = [hold(never, say("Old build"))]
    with shell(tmp_path, [say("It is old.")], config={"titles": True}, titles=titles) as s:
        ended = s.run("run", PROMPT)
        assert (ended.code, ended.out) == (0, "It is old.\n")
        assert s.listed()["title"] == PROMPT
