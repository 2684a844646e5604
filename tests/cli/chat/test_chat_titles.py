"""A chat has its session named, without being asked for it."""

from __future__ import annotations

from pathlib import Path

from perdure.testing import say
from tests.cli.chat.tmux import in_tmux
from tests.cli.support import shell, until


def test_a_chat_has_a_title_written_for_its_session(tmp_path: Path) -> None:
    with (
        shell(tmp_path, [say("It is old.")], titles=[say("Old build")]) as s,
        in_tmux(s) as window,
    ):
        window.send("Why does the build fail?")
        window.until("It is old.")
        until(lambda: s.row().title == "Old build")


def test_a_chat_writes_no_title_where_the_configuration_wants_none(tmp_path: Path) -> None:
    with shell(tmp_path, [say("It is old.")], config={"titles": False}) as s, in_tmux(s) as window:
        window.send("Why does the build fail?")
        window.until("It is old.")
        assert s.provider.title_requests == []
