"""A project for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.calling import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
