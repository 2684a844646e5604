"""The command line in a process of its own.

A small package named `perdure` stands in the process for the real one and tells what it was given.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.testing import home_of, run_cli, start_cli, to_toml, write_config

TELL = """
import json, os, pathlib, sys
print(json.dumps({"args": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ),
                  "in": sys.stdin.read()}))
print("told", file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


def stand_in(tmp_path: Path, program: str) -> dict[str, str]:
    """Return an environment in which `python -m perdure` runs `program`."""
    package = tmp_path / "lib" / "perdure"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(program, encoding="utf-8")
    return {"PYTHONPATH": str(package.parent)}


def told(tmp_path: Path, project: Path, **more: str) -> dict[str, Any]:
    env = stand_in(tmp_path, TELL) | more
    return msgspec.json.decode(run_cli(["run"], project, env).out)


def test_arguments_input_output_and_code_go_through(tmp_path: Path, project: Path) -> None:
    env = stand_in(tmp_path, TELL)
    finished = run_cli(["run", "-m", "a/b", "Héllo"], project, env, input="from here\n")
    assert finished.code == 3
    assert finished.err == "told\n"
    said = msgspec.json.decode(finished.out)
    assert said["args"] == ["run", "-m", "a/b", "Héllo"]
    assert said["in"] == "from here\n"
    assert Path(said["cwd"]) == project.resolve()


def test_input_is_empty_by_default(tmp_path: Path, project: Path) -> None:
    assert told(tmp_path, project)["in"] == ""


def test_no_key_and_no_setting_of_the_user_gets_in(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("SOME_OTHER_API_KEY", "secret")
    monkeypatch.setenv("PERDURE_STORE", "/their/store.db")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/their/config")
    env = told(tmp_path, project)["env"]
    assert "secret" not in env.values()
    assert "XDG_CONFIG_HOME" not in env
    home = home_of(project)
    assert env["HOME"] == str(home)
    assert env["PERDURE_CONFIG_DIR"] == str(home / "config")
    assert env["PERDURE_DATA_DIR"] == str(home / "data")
    assert env["PERDURE_STORE"] == str(home / "data" / "perdure.db")


def test_what_the_test_sets_is_passed_on(tmp_path: Path, project: Path) -> None:
    env = told(tmp_path, project, SCRIPTED_API_KEY="k", PERDURE_STORE="mine.db")["env"]
    assert (env["SCRIPTED_API_KEY"], env["PERDURE_STORE"]) == ("k", "mine.db")


def test_the_home_is_the_same_for_each_run_and_not_in_the_project(project: Path) -> None:
    assert home_of(project) == home_of(project)
    assert home_of(project).is_dir()
    assert list(project.iterdir()) == []


def test_a_command_that_does_not_end_is_killed_with_its_children(
    tmp_path: Path, project: Path
) -> None:
    program = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""
    # It returns when the pipe is closed, which the child has inherited: so the child is gone too.
    with pytest.raises(TimeoutError, match=r"did not end in 1\.0 s"):
        run_cli(["run"], project, stand_in(tmp_path, program), timeout=1.0)


def test_a_started_command_can_be_killed_by_its_pid(tmp_path: Path, project: Path) -> None:
    env = stand_in(tmp_path, "print('up', flush=True)\nimport time\ntime.sleep(600)")
    with start_cli(["run"], project, env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        os.kill(process.pid, 9)
        assert process.wait(60) == -9


def test_a_started_command_does_not_outlive_its_test(tmp_path: Path, project: Path) -> None:
    env = stand_in(tmp_path, "import time\ntime.sleep(600)")
    with start_cli(["run"], project, env) as process:
        assert process.poll() is None
    assert process.returncode == -9


def test_a_configuration_is_written_where_the_command_looks(project: Path) -> None:
    config = {"model": "a/b", "providers": {"a": {"base_url": "http://127.0.0.1"}}}
    path = write_config(project, config)
    assert path == home_of(project) / "config" / "config.toml"
    assert tomllib.loads(path.read_text("utf-8")) == config


def test_toml_is_read_back_as_it_was() -> None:
    config: dict[str, Any] = {
        "tables": {"a.b": {"c d": {"x": 1.5}, "empty": {}}, "text": 'a "quoted"\nline é'},
        "flag": True,
        "list": ["a", 1, [True]],
        "left_out": None,
    }
    del (expected := dict(config))["left_out"]
    assert tomllib.loads(to_toml(config)) == expected
