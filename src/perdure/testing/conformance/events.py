"""The events and helpers with which the suite fills a store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.context.snapshot import SourceSnapshot
from perdure.history import events as ev
from perdure.store.contract import Store

CREATED = ev.SessionCreated(directory="/project", project="/project", model="a/one", marker="word")


async def begin(store: Store, session: str = "s1", *events: ev.Event) -> None:
    """Begin a session with further events behind its creation."""
    await store.create(session, [CREATED, *events])


async def begin_task(store: Store, session: str, parent: str, *events: ev.Event) -> None:
    """Begin a session that works on a task of another one."""
    created = msgspec.structs.replace(CREATED, parent=parent, call="call-1")
    await store.create(session, [created, *events])


async def types(store: Store, session: str = "s1") -> Sequence[str]:
    """Return the types of all events of a session."""
    return [record.type for record in await store.events(session)]


def admitted(prompt: str, text: str = "hello") -> ev.PromptAdmitted:
    """Return the admission of a prompt."""
    return ev.PromptAdmitted(prompt=prompt, text=text)


def told(**entries: str | None) -> ev.SystemMessage:
    """Return a System Message that advances the entries `test/NAME`; None removes one."""
    changed = {
        f"test/{name}": None if value is None else SourceSnapshot(value)
        for name, value in entries.items()
    }
    return ev.SystemMessage(text="told", changed=changed)


def epoch(**entries: str) -> ev.EpochStarted:
    """Return the start of an epoch whose whole Snapshot is these entries."""
    snapshot = {f"test/{name}": SourceSnapshot(value) for name, value in entries.items()}
    return ev.EpochStarted(
        epoch=1,
        reasons=("first",),
        model="a/one",
        baseline="text",
        snapshot=snapshot,
        tools=(),
        lowering=1,
    )
