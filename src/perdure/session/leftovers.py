"""What a crash left of tasks, and whether anybody waits for it."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import SessionNotFound
from perdure.history import events as ev
from perdure.history.state import fold
from perdure.session.claimed import WriteAlone, settling
from perdure.session.delegation import task_prompt, task_session
from perdure.store.contract import SessionRow, Store


async def is_left_to_its_call(store: Store, write_alone: WriteAlone, row: SessionRow) -> bool:
    """Say whether all that is left to do in a session is the task that a call gave it.

    The call wakes it when it is run again. Where the call is settled, nobody reads an answer any
    more: what is left open is settled then, too, and is not gone on with.
    """
    if not row.parent or not _is_at_its_task(row.id, await store.events(row.id)):
        return False
    try:
        given = await store.events(row.parent)
    except SessionNotFound:
        return False  # it was imported without the one that gave it
    if _is_settled(given, row):
        await write_alone(row.id, lambda records: giving_up(row.id, records))
        return True
    return _is_waited_for(given, row)


def giving_up(session: str, records: Sequence[ev.Record]) -> list[ev.Event]:
    """Return the events that settle a task of which nothing more is to be done."""
    state = fold(session, records)
    events = settling(state, "interrupted")
    if state.step is None and state.unread:
        events.append(ev.DrainInterrupted())
    if task_prompt(session) in state.pending:
        events.append(ev.PromptWithdrawn(task_prompt(session)))
    return events


def _is_at_its_task(session: str, records: Sequence[ev.Record]) -> bool:
    """Say whether nobody but the call has given the session anything to do."""
    admitted = (each.data for each in records if isinstance(each.data, ev.PromptAdmitted))
    return {each.prompt for each in admitted} == {task_prompt(session)}


def _is_settled(given: Sequence[ev.Record], row: SessionRow) -> bool:
    settled = (each.data for each in given if isinstance(each.data, ev.ToolSettled))
    return any(task_session(row.parent, each.step, each.call) == row.id for each in settled)


def _is_waited_for(given: Sequence[ev.Record], row: SessionRow) -> bool:
    step = fold(row.parent, given).step
    return step is not None and any(
        task_session(row.parent, step.started.step, call) == row.id for call in step.calls
    )
