"""What a boundary admits of the System Context: a pure decision over one observation."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.config.schema import OnMove
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
from perdure.history.items import images_in
from perdure.history.state import MOVED, SessionState

MODEL_SWITCHED = "model switched"
"""The reason of an epoch that another model begins."""

TOOLS_CHANGED = "tools changed"
"""The reason of an epoch for which the model is told of other tools."""

IMAGES_CHANGED = "image input changed"
"""The reason of an epoch for which pictures that it holds go out in another way."""


def replacement_due(
    state: SessionState,
    model: str,
    tools: Sequence[ToolDefinition],
    *,
    on_move: OnMove = "epoch",
    images: bool | None = None,
) -> tuple[str, ...]:
    """Return every reason for which the epoch in force must end; derived from the log alone.

    With `on_move` "update", a move alone ends no epoch: what it changes is told like any change.
    `images` says whether the model takes pictures now, None where that is not asked: those that
    the epoch holds go out in another way once it changes.
    """
    epoch = state.epoch
    if epoch is None:
        return ("session started",)
    reasons = [reason for reason in state.due if on_move == "epoch" or reason != MOVED]
    # The last step's model counts too: an epoch whose replacement was blocked has had several.
    if epoch.model != model or (state.last_step and state.last_step.model != model):
        reasons.append(MODEL_SWITCHED)
    if epoch.tools != tuple(tools):
        reasons.append(TOOLS_CHANGED)
    if images is not None and _pictures_change(state, images):
        reasons.append(IMAGES_CHANGED)
    return tuple(dict.fromkeys(reasons))


def _pictures_change(state: SessionState, images: bool) -> bool:
    last = state.last_step
    if last is None or last.request.images == images:
        return False
    return any(images_in(item) for item in state.items)


def admit(
    state: SessionState,
    observation: Observation,
    *,
    model: str,
    tools: Sequence[ToolDefinition],
    lowering: int,
    on_move: OnMove = "epoch",
    images: bool | None = None,
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

    reasons = replacement_due(state, model, tools, on_move=on_move, images=images)
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
