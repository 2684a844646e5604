"""A defect of Perdure itself never shows a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.testing import home_of, isolated_environment, run_cli

BROKEN = """
import sys
import perdure.cli.trust

def broken(env):
    raise ValueError("it holds sk-a-secret-key")

perdure.cli.trust.trusted_projects = broken
sys.exit(perdure.cli.main(["trust", "--list"]))
"""


def test_a_defect_is_one_line_with_the_file_that_has_the_traceback(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BROKEN],
        cwd=tmp_path,
        env=isolated_environment(tmp_path) | {"MY_API_KEY": "sk-a-secret-key"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    log = home_of(tmp_path) / "data" / "errors.log"
    (said,) = ended.stderr.splitlines()
    assert ended.returncode == 1
    assert said.startswith("perdure: internal error (ValueError); please report it")
    assert str(log) in said
    assert "Traceback" in log.read_text()
    assert "it holds [MY_API_KEY]" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_closed_standard_streams_are_no_defect(tmp_path: Path) -> None:
    command = f"{sys.executable} -m perdure sessions list <&- >&- 2>&-"
    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env=isolated_environment(tmp_path),
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0


@pytest.mark.parametrize("arguments", [["--help"], ["sessions", "list"]])
def test_output_that_nobody_reads_ends_quietly(tmp_path: Path, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "perdure", *arguments],
        cwd=tmp_path,
        env=isolated_environment(tmp_path),
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_disk_without_room_for_the_output_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "perdure", "sessions", "list"],
            cwd=tmp_path,
            env=isolated_environment(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr == "perdure: cannot read or write: No space left on device\n"


def test_help_loads_neither_the_runtime_nor_what_draws(tmp_path: Path) -> None:
    program = (
        "import sys; from perdure.cli import main; main(['--help']);"
        "print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=isolated_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(ended.stderr.split())
    assert "perdure.cli.app" in loaded
    assert not loaded & {"perdure.runtime", "rich", "httpx2", "apsw", "anyio"}
    assert "run" in run_cli(["--help"], cwd=tmp_path).out
