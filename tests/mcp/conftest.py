from __future__ import annotations

from pathlib import Path

import pytest

from perdure.mcp import Pace
from tests.mcp.wild import PATIENT, Wild


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runtimes wait for servers that take long to start only because the machine is busy."""
    monkeypatch.setattr("perdure.mcp.servers.DEFAULT_PACE", Pace(**PATIENT))


@pytest.fixture
def wild(tmp_path: Path) -> Wild:
    return Wild(tmp_path / "wild")
