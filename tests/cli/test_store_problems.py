"""A database that cannot serve: one line that says what to do, and nothing lost."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from perdure.store.database import Database
from perdure.testing import Finished, isolated_environment, say
from tests.cli.conftest import Here
from tests.cli.support import KEY, Shell, one_line, shell


def with_full_disk(s: Shell, room: int, *arguments: str) -> Finished:
    """Run a command that may let no file grow by more than so many bytes beyond the database."""
    import resource

    limit = s.store.stat().st_size + room
    ended = subprocess.run(
        [sys.executable, "-m", "perdure", *arguments],
        cwd=s.directory,
        env=isolated_environment(s.directory) | {KEY: "scripted-key"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Finished(ended.returncode, ended.stdout, ended.stderr)


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path) as s:
        s.store.parent.mkdir(parents=True)
        s.store.write_bytes(b"not a database at all" * 100)
        assert str(s.store) in one_line(here("run", "hi"), 1)
        assert s.store.read_bytes() == b"not a database at all" * 100


def test_a_directory_in_the_place_of_the_database_is_named(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path) as s:
        s.store.mkdir(parents=True)
        assert f"{s.store} is a directory" in one_line(here("sessions", "list"), 1)


def test_a_newer_database_is_refused_with_its_version(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x")]) as s:
        here("run", "hi")
        with closing(Database(s.store, busy_timeout=1).connect()) as database:
            database.pragma("user_version", 999)
        message = one_line(here("run", "-c", "hi"), 1)
    assert "999" in message
    assert "upgrade Perdure" in message


def test_a_damaged_database_is_named_and_the_doctor_says_so(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x" * 20_000)]) as s:
        here("run", "hi")
        whole = s.store.read_bytes()
        s.store.write_bytes(whole[:1024] + b"\xff" * (len(whole) - 1024))
        assert str(s.store) in one_line(here("run", "-c", "hi"), 1)
        diagnosed = here("doctor")
    assert diagnosed.code == 1
    assert "Broken" in diagnosed.out


def test_a_database_held_by_another_program_is_one_line_and_no_prompt_is_lost(
    tmp_path: Path,
    here: Here,
) -> None:
    with shell(tmp_path, [say("x"), say("y")]) as s:
        here("run", "hi")
        with s.locked_store():
            assert str(s.store) in one_line(here("run", "-c", "more"), 1)
        assert here("run", "-c", "more").out == "y\n"


def test_a_prompt_that_a_full_disk_has_no_room_for_is_refused(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x"), say("Fine.")]) as s:
        here("run", "hi")
        assert "full" in one_line(with_full_disk(s, 0, "run", "-c", "more"), 1)
        assert here("run", "-c", "again").out == "Fine.\n"


def test_a_prompt_whose_answer_a_full_disk_has_no_room_for_is_answered_later(
    tmp_path: Path,
    here: Here,
) -> None:
    script = [say("x"), say("long " * 50_000), say("Found."), say("Fine.")]
    with shell(tmp_path, script) as s:
        here("run", "hi")
        assert "full" in one_line(with_full_disk(s, 60_000, "run", "-c", "the lost question"), 1)
        assert here("run", "-c", "again").out == "Fine.\n"
        assert b"the lost question" in s.provider.requests[2].body


def change(s: Shell, statement: str) -> None:
    """Change the database behind Perdure's back."""
    with closing(sqlite3.connect(s.store)) as database:
        database.execute(statement)
        database.commit()


def test_repair_rebuilds_what_does_not_agree_with_the_log(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x")]) as s:
        here("run", "hi")
        change(s, "UPDATE snapshot SET entry = 'garbage{' WHERE key = 'perdure/date'")
        assert "its Context Snapshot is not that of its log" in here("doctor").out
        mended = here("doctor", "--repair")
        assert mended.code == 0
        assert f"mended: session {s.the_session()}: its Context Snapshot" in mended.err
        assert here("doctor").code == 0


def test_repair_names_what_it_mended_in_json(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("x")]) as s:
        here("run", "hi")
        change(s, "UPDATE session SET title = 'wrong'")
        found = json.loads(here("doctor", "--repair", "--json").out)
        title = f"session {s.the_session()}: its row has title 'wrong', its log 'hi'"
        assert (found["mended"], found["problems"]) == ([title], [])
        assert json.loads(here("doctor", "--repair", "--json").out)["mended"] == []


def test_a_damaged_event_blocks_its_session_and_the_doctor_names_both(
    tmp_path: Path, here: Here
) -> None:
    with shell(tmp_path, [say("x"), say("y"), say("z")]) as s:
        s.prefix_may_break = "two sessions"
        here("run", "hi")
        damaged = s.the_session()
        change(s, "UPDATE event SET data = '{' WHERE place & 4294967295 = 3")
        assert f"event 3 of session {damaged}" in one_line(here("run", "-s", damaged, "more"), 1)
        assert here("run", "hello").out == "y\n"
        for command in (("doctor",), ("doctor", "--repair")):
            diagnosed = here(*command)
            assert diagnosed.code == 1
            assert "mended" not in diagnosed.err
            words = " ".join(diagnosed.out.partition("Broken")[2].split())
            assert words.startswith(f"event 3 of session {damaged} is damaged")
            assert f"`perdure sessions delete {damaged}`" in words
        assert here("run", "-c", "again").out == "z\n"
        assert here("sessions", "delete", damaged, "--yes").code == 0
        assert here("doctor").code == 0


def test_a_log_that_lost_its_end_goes_on_after_a_repair_that_says_so(
    tmp_path: Path, here: Here
) -> None:
    with shell(tmp_path, [say("x"), say("y")]) as s:
        s.prefix_may_break = "an answer was lost"
        here("run", "hi")
        last = s.row().last_seq
        change(s, f"DELETE FROM event WHERE place & 4294967295 = {last}")
        assert f"event {last} of session" in one_line(here("run", "-c", "more"), 1)
        assert s.row().pending == 0
        assert f"what came after event {last - 1} of it may be lost" in here("doctor").out
        mended = here("doctor", "--repair")
        assert f"what came after event {last - 1} of it may be lost" in mended.err
        assert here("run", "-c", "again").out == "y\n"


def test_the_doctor_lists_the_permission_of_every_built_in_tool(here: Here) -> None:
    permissions = json.loads(here("doctor", "--json").out)["permissions"]
    assert permissions["skill"] == "allow"
    assert permissions["shell"] == "ask"
