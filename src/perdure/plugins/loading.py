"""Run one plugin's registration against a fresh scope."""

from __future__ import annotations

import inspect

from perdure.errors import UsageError
from perdure.plugins.lifetime import contained
from perdure.plugins.origins import Origin
from perdure.plugins.scope import Scope

PATIENCE = 10.0
"""Seconds that an async registration may take."""


async def load(origin: Origin, patience: float = PATIENCE) -> Scope | str:
    """Return the scope in which the plugin has registered everything, or why it could not.

    Whatever a failed or cancelled registration has opened is closed again. Sync code that never
    returns cannot be stopped.
    """
    scope = Scope(origin.name)

    async def register() -> None:
        returned: object = origin.register(scope)
        if inspect.isawaitable(returned):
            returned = await returned
        if returned is not None:  # a class or a generator, say, that was never run
            raise UsageError(f"the plugin must return None, not {type(returned).__name__}")

    problem: str | None = "it was cancelled"
    try:
        problem = await contained(register, patience)
    finally:
        if problem is not None:
            await scope.lifetime.close()
    return scope if problem is None else problem
