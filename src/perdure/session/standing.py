"""What a session is doing, and why it does not go on where it should."""

from __future__ import annotations

from typing import Literal

import msgspec

from perdure.errors import CrashLoop, PerdureError
from perdure.history.events import Failure, StepFinished
from perdure.history.state import SessionState, fold
from perdure.session.drain import Equipment
from perdure.session.owner import described, owner_is_gone
from perdure.store.contract import SessionRow, Store

Status = Literal["idle", "running", "waiting", "failed", "interrupted", "blocked"]

_TAIL = 50
"""Events in which the settlement of the last step is looked for."""


class Standing(msgspec.Struct, frozen=True):
    """What a session is doing. `reason` is one line, empty where there is nothing to explain.

    `running`: a process works on it. `waiting`: prompts are in its inbox and nobody works on it.
    `blocked`: it has work and cannot go on. Otherwise how its last step ended: `failed`,
    `interrupted` (also by a declined permission or a crash), else `idle`.
    """

    status: Status
    reason: str = ""


async def standing_of(row: SessionRow, equipment: Equipment) -> Standing:
    """Return what a session is doing; it looks into its log only where something is left to do.

    Starts and writes nothing, and raises nothing for a session that is damaged.
    """
    if row.owner:
        return Standing("running", f"by {described(row.owner)}{_further(row)}")
    if (row.pending or _is_cut(row)) and (unfinished := await _unfinished(row, equipment)):
        return unfinished
    if row.outcome == "failed":
        return await _failed(row, equipment.store)
    if row.outcome == "interrupted":
        return Standing("interrupted", "its work was interrupted")
    if row.outcome == "declined":
        return Standing("interrupted", "a tool call was declined")
    return Standing("idle")


def _is_cut(row: SessionRow) -> bool:
    """Say whether the process that drained it last did not come to the end of its work."""
    return row.crashed or row.outcome in {"open", "crashed"}


async def _unfinished(row: SessionRow, equipment: Equipment) -> Standing | None:
    """Return how a session stands that may have work left; None where it has none."""
    try:
        state = fold(row.id, await equipment.store.events(row.id))
        if not (state.pending or state.unread or state.step or state.compacting):
            return None
        workplace = await equipment.workplaces.at(state.directory)
        workplace.target(state.model)
    except PerdureError as error:
        return Standing("blocked", str(error))
    if _is_cut(row):
        return Standing("interrupted", f"its process died{_further(row)}; {_go_on(row)}")
    return Standing("waiting", _waiting(row, state))


def _waiting(row: SessionRow, state: SessionState) -> str:
    holders = {prompt.holder for prompt in state.pending.values() if prompt.holder}
    if living := sorted(described(each) for each in holders if not owner_is_gone(each)):
        return f"{_prompts(row.pending)} for {living[0]}"
    return f"{_prompts(row.pending)} and nobody works on it; {_go_on(row)}"


async def _failed(row: SessionRow, store: Store) -> Standing:
    try:
        failure = await _last_failure(row, store)
    except PerdureError as error:
        return Standing("failed", str(error))
    if failure is None:
        return Standing("failed", f"`perdure events {row.id}` tells why")
    stuck = failure.error == CrashLoop.__name__
    return Standing("blocked" if stuck else "failed", failure.message)


async def _last_failure(row: SessionRow, store: Store) -> Failure | None:
    records = await store.events(row.id, after=max(0, row.last_seq - _TAIL), limit=_TAIL)
    for record in reversed(records):
        if isinstance(record.data, StepFinished):
            return record.data.failure
    return None


def _further(row: SessionRow) -> str:
    return f", and {_prompts(row.pending)}" if row.pending else ""


def _prompts(count: int) -> str:
    return "1 prompt waits" if count == 1 else f"{count} prompts wait"


def _go_on(row: SessionRow) -> str:
    return f"`perdure run -s {row.id} PROMPT` goes on"
