"""The contract that every store keeps, as SQLite keeps it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.store.contract import Store
from perdure.store.sqlite import open_sqlite
from perdure.testing import FakeClock
from perdure.testing.conformance import Opener, StoreConformance


class TestSQLite(StoreConformance):
    """The whole suite, on a real file."""

    @pytest.fixture
    def opener(self, tmp_path: Path, clock: FakeClock) -> Opener:
        async def open_store() -> Store:
            return await open_sqlite(tmp_path / "store.db", clock=clock)

        return open_store


def test_the_testing_package_needs_no_test_framework() -> None:
    program = "import sys; sys.modules['pytest'] = None; import perdure.testing"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_example_in_the_documents_is_a_whole_file(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n(import pytest\n.*?)```", text, re.S)
    (tmp_path / "test_my_store.py").write_text(program)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "restored or lease"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout
