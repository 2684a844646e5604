"""Follow a session: live while it works, and from a cursor after the connection was lost.

    python examples/follow_events.py

The model is played by a script, so no key is needed; everything else is what you would ship. One
reader shows words as they come and then goes away. It comes back in another run of the program,
with nothing but the number of the last event it saw, and misses nothing.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from perdure import LiveRecord, Record, Runtime, Session
from perdure.history.events import StepFinished, TextDelta, ToolProgress
from perdure.testing import Reply, ScriptedProvider, call, say


async def watch(session: Session, cursor: int, *, steps: int | None = None) -> int:
    """Print what comes after the cursor; return the new cursor.

    With `steps`, the reader leaves after so many steps, whatever is still going on.
    """
    # Closing the iteration at once is what lets go of the session's feed.
    async with aclosing(session.events(after=cursor, until_idle=True)) as records:
        async for record in records:
            match record:
                case LiveRecord(data=TextDelta(text=text) | ToolProgress(text=text)):
                    print(f"      live  {text!r}")
                case Record(seq=seq):
                    print(f"{seq:>10}  {record.type}")
                    cursor = seq
                case _:
                    pass
            if steps is not None and isinstance(record.data, StepFinished):
                steps -= 1
                if steps == 0:
                    break
    return cursor


async def first_run(store: Path, config: dict[str, Any], project: Path) -> tuple[str, int]:
    """Begin a session, watch its first step, and let the second one happen unseen."""
    async with Runtime.open(store, config=config) as runtime:
        session = await runtime.create_session(directory=project)
        await session.prompt("What is here?")
        print("A reader from the beginning:")
        cursor = await watch(session, 0, steps=1)
        print(f"It goes away. Its cursor is {cursor}; the session works on.")
        await session.wait()
        return session.id, cursor


async def second_run(store: Path, config: dict[str, Any], session_id: str, cursor: int) -> None:
    """Come back with the cursor: first what was missed, then what is new."""
    async with Runtime.open(store, config=config) as runtime:
        session = await runtime.session(session_id)
        await session.prompt("Thank you.")
        print("\nAnother run of the program; the reader comes back:")
        await watch(session, cursor)
        log = [record.seq async for record in session.events(until_idle=True)]
        print(f"\nThe log holds events {log[0]} to {log[-1]}, with no gap.")


async def main() -> None:
    """Run both, against one provider."""
    script: Sequence[Reply] = [
        say("I will look.") + call("list", {"path": "."}),
        say("A letter."),
        say("You are welcome."),
    ]
    with tempfile.TemporaryDirectory() as root:
        store, project = Path(root) / "sessions.db", Path(root) / "project"
        project.mkdir()
        (project / "letter.txt").write_text("Dear reader\n")
        async with ScriptedProvider(script) as provider:
            session_id, cursor = await first_run(store, provider.config(), project)
            await second_run(store, provider.config(), session_id, cursor)


if __name__ == "__main__":
    asyncio.run(main())
