"""A project for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.instructions.instruction_project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
