"""Commands without a process of their own, where a test is about what they say."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.cli import main
from perdure.testing import Finished, isolated_environment
from tests.cli.support import KEY

Here = Callable[..., Finished]


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Here:
    """Run commands in this process, in the directory and with the files that a Shell has."""
    directory = tmp_path / "project"
    directory.mkdir(exist_ok=True)
    environment = isolated_environment(directory) | {KEY: "scripted-key"}
    monkeypatch.chdir(directory)
    for name in os.environ.keys() - environment.keys():
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> Finished:
        capfd.readouterr()
        code = main(arguments)
        said = capfd.readouterr()
        return Finished(code, said.out, said.err)

    return run
