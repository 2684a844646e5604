"""What the tests of the scripted provider share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    """A client that obeys no proxy of this machine, and spends no time on certificates."""
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=60.0) as client:
        yield client
