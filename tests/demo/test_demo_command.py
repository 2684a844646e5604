"""`perdure demo` as a visitor runs it: what it shows, how it ends, what it leaves behind."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from perdure.testing import Finished, isolated_environment, run_cli
from tests.tools.processes import wait_until_gone

LINUX = sys.platform == "linux"
PROCESS = re.compile(r"^-- process (\d+) ", re.M)
ROW = re.compile(r"^ (\d) .* (-|yes|NO) +([\d,]+) +([\d,]+)$", re.M)


class Visit(msgspec.Struct, frozen=True):
    """One run of the demo, and the directory that it had for temporary files."""

    ended: Finished
    temporary: Path

    @property
    def table(self) -> str:
        return self.ended.out.partition("-- step by step ")[2]

    @property
    def workers(self) -> list[int]:
        return [int(pid) for pid in PROCESS.findall(self.ended.out)]


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Visit:
    temporary = tmp_path_factory.mktemp("tmp")
    here = tmp_path_factory.mktemp("here")
    return Visit(run_cli(["demo"], here, {"TMPDIR": str(temporary)}), temporary)


def test_it_ends_well_and_says_nothing_on_standard_error(visit: Visit) -> None:
    assert (visit.ended.code, visit.ended.err) == (0, "")


def test_it_says_that_the_model_is_scripted(visit: Visit) -> None:
    assert "The model is scripted" in visit.ended.out


def test_a_pipe_gets_plain_text_of_80_columns(visit: Visit) -> None:
    assert visit.ended.out.isascii()
    assert visit.ended.out.replace("\n", "").isprintable()
    assert max(map(len, visit.ended.out.splitlines())) <= 80


def test_every_step_keeps_the_request_before_it_as_prefix(visit: Visit) -> None:
    rows = ROW.findall(visit.table)
    assert [row[0] for row in rows] == [str(step) for step in range(1, 10)]
    assert [row[1] for row in rows] == ["-", *["yes"] * 8]


def test_the_table_says_what_changed_and_what_was_told(visit: Visit) -> None:
    words = " ".join(visit.table.split())
    assert "4 AGENTS.md edited AGENTS.md, all of it" in words
    assert "5 now 2026-03-07 the new date" in words
    assert "AGENTS.md no longer applies" in words
    assert "call: outcome unknown" in words


def test_a_step_with_a_change_costs_more_without_and_the_first_steps_the_same(visit: Visit) -> None:
    bills = [(number(with_), number(without)) for *_, with_, without in ROW.findall(visit.table)]
    assert all(with_ == without for with_, without in bills[:3])
    # Each change beside a step of the same part of the history that told nothing new.
    for change, quiet in ((3, 2), (4, 5), (7, 6)):
        assert bills[change][0] < 2 * bills[quiet][0]
        assert bills[change][1] > 2 * bills[quiet][1]
    assert sum(without for _, without in bills) > sum(with_ for with_, _ in bills)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_the_texts_that_the_model_was_told_are_shown(visit: Visit) -> None:
    assert "Note every fix in CHANGES.md, under today's date." in visit.ended.out
    assert "Today's date is now Saturday, 2026-03-07." in visit.ended.out
    assert "This file no longer applies: disregard what it said." in visit.ended.out


def test_the_scripted_model_knows_the_new_date_from_its_request(visit: Visit) -> None:
    assert "+ ## 2026-03-07" in visit.ended.out


def test_the_killed_call_is_not_run_again(visit: Visit) -> None:
    first, second = visit.workers
    assert f"kill -9 {first}" in visit.ended.out
    assert first != second
    assert visit.ended.out.count("shell sh release.sh") == 1
    assert visit.ended.out.count("outcome unknown; it may have run") == 1
    assert "ok       its effect, a line in releases.txt, is there once" in visit.ended.out


def test_every_claim_is_checked_and_holds(visit: Visit) -> None:
    checked = visit.ended.out.partition("-- checked")[2].partition("-- step by step")[0]
    assert [line.split()[0] for line in checked.splitlines()[1:] if line] == ["ok"] * 7


def test_nothing_is_left_behind(visit: Visit) -> None:
    assert list(visit.temporary.iterdir()) == []
    wait_until_gone(visit.workers)


class Reader:
    """Somebody who reads what a demo prints; where the system can do so, write by write.

    There the pipe holds one write at a time, so that the demo comes no further than it is read,
    however slow the test is.
    """

    def __init__(self, demo: subprocess.Popen[str], pipe: int) -> None:
        self.demo = demo
        self._pipe = pipe

    def up_to_worker(self) -> int:
        """Return the id of the first worker."""
        said = ""
        while piece := os.read(self._pipe, 65536).decode():
            said += piece
            if found := PROCESS.search(said):
                return int(found[1])
        raise AssertionError("the demo ended before it started a worker")

    def rest(self) -> tuple[str, str]:
        """Return what it still prints and all that it says on standard error, to its end."""
        said = b""
        while piece := os.read(self._pipe, 65536):
            said += piece
        _, errors = self.demo.communicate(timeout=60)
        return said.decode(), errors

    def leave(self) -> None:
        """Read no more."""
        if self._pipe >= 0:
            os.close(self._pipe)
        self._pipe = -1


@contextmanager
def read_demo(temporary: Path, here: Path) -> Generator[Reader]:
    """Start a demo; it is killed at the end if it still runs."""
    reading, writing = os.pipe2(os.O_DIRECT | os.O_CLOEXEC) if LINUX else os.pipe()
    if LINUX:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen(
        [sys.executable, "-m", "perdure", "demo"],
        cwd=here,
        env=isolated_environment(here) | {"TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as demo:
        os.close(writing)
        reader = Reader(demo, reading)
        try:
            yield reader
        finally:
            demo.kill()
            reader.leave()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_cleans_up(tmp_path: Path, stop: signal.Signals) -> None:
    temporary, here = directories(tmp_path)
    with read_demo(temporary, here) as reader:
        worker = reader.up_to_worker()
        reader.demo.send_signal(stop)
        out, err = reader.rest()
    assert reader.demo.returncode == 128 + stop
    assert "Traceback" not in out + err
    assert list(temporary.iterdir()) == []
    wait_until_gone([worker])


def test_a_reader_that_leaves_ends_it_and_it_cleans_up(tmp_path: Path) -> None:
    temporary, here = directories(tmp_path)
    with read_demo(temporary, here) as reader:
        worker = reader.up_to_worker()
        reader.leave()
        _, err = reader.demo.communicate(timeout=60)
    assert (reader.demo.returncode, err) == (141, "")
    assert list(temporary.iterdir()) == []
    wait_until_gone([worker])


def test_the_worker_does_not_outlive_a_demo_that_is_killed(tmp_path: Path) -> None:
    temporary, here = directories(tmp_path)
    with read_demo(temporary, here) as reader:
        worker = reader.up_to_worker()
        reader.demo.kill()
        reader.demo.wait(60)
        wait_until_gone([worker])


def directories(root: Path) -> tuple[Path, Path]:
    """Return a directory for temporary files and one to start the demo in."""
    temporary, here = root / "tmp", root / "here"
    temporary.mkdir()
    here.mkdir()
    return temporary, here


def test_what_is_kept_can_be_looked_at_as_it_says(tmp_path: Path) -> None:
    temporary, here = directories(tmp_path)
    # Half a day behind the clock of UTC, the date must come out the same.
    environment = {"TMPDIR": str(temporary), "TZ": "WEST+12"}
    kept = run_cli(["demo", "--keep"], here, environment)
    assert (kept.code, kept.err) == (0, "")
    assert "Today's date is now Saturday, 2026-03-07." in kept.out
    commands = [line.strip() for line in kept.out.partition("look at it with")[2].splitlines()[1:]]
    *exports, context, request, events, remove = commands
    assert "told at seq" in shell([*exports, context], here)
    assert "outcome unknown" in shell([*exports, request], here)
    assert shell([*exports, events], here).count("\n") > 40
    shell([remove], here)
    assert list(temporary.iterdir()) == []


def shell(lines: Iterable[str], directory: Path) -> str:
    """Run lines that a visitor copies from the screen, with `perdure` being this one."""
    function = f'perdure() {{ {shlex.quote(sys.executable)} -m perdure "$@"; }}'
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join([function, *lines])],
        cwd=directory,
        env=isolated_environment(directory),
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout
