"""What every store must do, as tests that anybody can run against a store of his own.

It needs pytest with anyio's plugin, which comes with anyio. Derive a class whose name begins with
`Test` from `StoreConformance` and override its fixture `opener`; docs/testing.md has an example.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

# Before the tests are imported, or their assertions would not say what they compared.
for _name in ("log", "prompts", "leases", "restoring", "opening"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")

from perdure.store.contract import Store  # noqa: E402 - as above
from perdure.testing.clock import FakeClock  # noqa: E402
from perdure.testing.conformance.leases import Leases  # noqa: E402
from perdure.testing.conformance.log import Log  # noqa: E402
from perdure.testing.conformance.opening import Opening  # noqa: E402
from perdure.testing.conformance.prompts import Prompts  # noqa: E402
from perdure.testing.conformance.restoring import Restoring  # noqa: E402

Opener = Callable[[], Awaitable[Store]]
"""Opens one and the same database each time it is called; the suite closes what it opens."""


@pytest.mark.anyio
class StoreConformance(Log, Prompts, Leases, Restoring, Opening):
    """The contract of `perdure.store.contract.Store`, one test for each behaviour.

    The fixture `opener` must be overridden. What it opens is empty at the beginning of each test
    and takes the time from the fixture `clock`.
    """

    @pytest.fixture
    def clock(self) -> FakeClock:
        """Give the clock that the store under test must use."""
        return FakeClock()

    @pytest.fixture
    def opener(self, clock: FakeClock) -> Opener:
        """Return what opens the store under test; override it."""
        raise NotImplementedError("override the fixture `opener` of StoreConformance")

    @pytest.fixture
    async def store(self, opener: Opener) -> AsyncGenerator[Store]:
        """Give the store under test, and close it."""
        opened = await opener()
        yield opened
        await opened.close()


__all__ = ["Opener", "StoreConformance"]
