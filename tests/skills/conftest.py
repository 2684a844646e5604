"""A project for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.skills.skill_project import SkillProject


@pytest.fixture
def project(tmp_path: Path) -> SkillProject:
    return SkillProject(tmp_path)
