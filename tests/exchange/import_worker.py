"""A process that imports and dies on the way: `import_worker.py STORE FILE MOMENT`."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio

from perdure import Runtime
from perdure.exchange.staging import Staging
from perdure.store.sqlite import SQLiteStore

DIED = 9
MOMENTS = ("first byte", "outputs written", "outputs in place", "session written")


def die(*_: Any, **__: Any) -> Any:
    os._exit(DIED)


def arrange(moment: str) -> None:
    """Let the process die at that moment, as `kill -9` would end it."""
    place, restore = Staging.place, SQLiteStore.restore

    def placed(staging: Any) -> None:
        place(staging)
        die()

    async def restored(*given: Any) -> None:
        await restore(*given)
        die()

    match moment:
        case "first byte":
            Staging.reserve, Staging.create = die, _dies_after_creating(Staging.create)
        case "outputs written":
            Staging.place = die
        case "outputs in place":
            setattr(Staging, "place", placed)  # noqa: B010 - a patch that no type describes
        case _:
            setattr(SQLiteStore, "restore", restored)  # noqa: B010 - likewise


def _dies_after_creating(create: Any) -> Any:
    def created(*given: Any) -> Any:
        create(*given).write(b"half")
        die()

    return created


async def main(store: str, file: str, moment: str) -> None:
    arrange(moment)
    async with Runtime.open(store, config={}, environ={}) as runtime:
        await runtime.import_session(file)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
