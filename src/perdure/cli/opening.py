"""The runtime that a command works with."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from perdure.config.paths import store_path
from perdure.runtime import Runtime


@asynccontextmanager
async def opened(**options: Any) -> AsyncGenerator[Runtime]:
    """Open the store that the environment names; raise as `Runtime.open`, whose options these are.

    What is raised within comes out as it is, not as a group of one.
    """
    async with Runtime.open(store_path(os.environ), **options) as runtime:
        yield runtime
