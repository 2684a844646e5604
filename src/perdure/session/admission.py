"""What a boundary admits of the System Context: a pure decision over one observation."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.context import (
    Generation,
    Observation,
    Replaced,
    ReplacementBlocked,
    Unchanged,
    Updated,
    changed_entries,
)
from perdure.history.content import ToolDefinition
from perdure.history.events import EpochStarted, Event, SystemMessage
from perdure.history.state import SessionState


def replacement_due(
    state: SessionState, model: str, tools: Sequence[ToolDefinition]
) -> tuple[str, ...]:
    """Return every reason for which the epoch in force must end; derived from the log alone."""
    epoch = state.epoch
    if epoch is None:
        return ("session started",)
    reasons = list(state.due)
    if epoch.model != model:
        reasons.append("model switched")
    if epoch.tools != tuple(tools):
        reasons.append("tools changed")
    return tuple(dict.fromkeys(reasons))


def admit(
    state: SessionState,
    observation: Observation,
    *,
    model: str,
    tools: Sequence[ToolDefinition],
    lowering: int,
) -> list[Event]:
    """Return the one event that brings the model up to date, or none.

    Raises nothing: what could not be observed stands as it was last told.
    """

    def start(generation: Generation, reasons: tuple[str, ...]) -> list[Event]:
        number = state.epoch.number + 1 if state.epoch else 1
        snapshot = dict(generation.snapshot)
        return [
            EpochStarted(
                number, reasons, model, generation.baseline, snapshot, tuple(tools), lowering
            )
        ]

    reasons = replacement_due(state, model, tools)
    if state.epoch is None:
        return start(observation.initialize(), reasons)
    decided = (
        observation.replace(state.snapshot) if reasons else observation.reconcile(state.snapshot)
    )
    match decided:
        case Unchanged():
            return []
        case Updated():
            return [_message(state, decided)]
        case Replaced(generation):
            return start(generation, reasons or ("a told fact could not be updated",))
        case ReplacementBlocked(update=update):
            return [] if update is None else [_message(state, update)]


def _message(state: SessionState, update: Updated) -> SystemMessage:
    return SystemMessage(update.text, changed_entries(state.snapshot, update.snapshot))
