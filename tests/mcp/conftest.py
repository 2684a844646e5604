from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcp.wild import Wild


@pytest.fixture
def wild(tmp_path: Path) -> Wild:
    return Wild(tmp_path / "wild")
