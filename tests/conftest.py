"""What every test shares."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# On a busy machine slow is no fault of a test, and a run of CI can be repeated exactly.
settings.register_profile(
    "perdure",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("perdure")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
