"""The inbox: what waits in it, and which of it a boundary promotes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.history import events as ev
from perdure.history.content import Image
from perdure.history.state import Pending, SessionState, fold
from perdure.session.changes import Changes
from perdure.session.owner import owner_is_gone


class PendingPrompt(msgspec.Struct, frozen=True):
    """A Prompt that waits in the inbox.

    `seq` is that of its admission, `time` the moment of it in milliseconds since 1970.
    """

    id: str
    text: str
    delivery: ev.Delivery
    seq: int
    time: int
    images: tuple[Image, ...] = ()


def pending_prompts(session: str, records: Sequence[ev.Record]) -> list[PendingPrompt]:
    """Return what waits at the end of a log, in the order in which it is promoted.

    Steering prompts come first, then queued ones, each in the order of their admission.
    """
    found = fold(session, records).pending.values()
    return [
        PendingPrompt(
            each.prompt,
            each.text,
            each.delivery,
            each.seq,
            records[each.seq - 1].time,
            each.images,
        )
        for each in sorted(found, key=lambda each: (each.delivery != "steer", each.seq))
    ]


def choose(state: SessionState, owner: str, step_limit: int) -> list[Pending]:
    """Return the prompts to promote now, in order of admission.

    Steering prompts are promoted at once, all of them. A queued one is promoted alone, and only
    when the session would otherwise be idle. A prompt that another living process holds, in order
    to drain it under its own permissions, is left to that process.
    """
    if is_repeated(state):
        return []  # the step that was too long is done once more, with nothing new
    steering = [prompt for prompt in state.pending.values() if prompt.delivery == "steer"]
    if steering or wants_step(state, step_limit):
        return steering
    return waiting(state, owner)[:1]


def waiting(state: SessionState, owner: str) -> list[Pending]:
    """Return the prompts that a drain of that owner would have to promote sooner or later.

    A prompt whose holder is gone is answered before one that nobody else would answer, but is no
    reason to begin: its process may be about to end, with its own work done.
    """
    takeable = [
        prompt
        for prompt in state.pending.values()
        if prompt.delivery == "steer" or _may_take(prompt, owner)
    ]
    wanted = any(prompt.delivery == "steer" or prompt.holder in {"", owner} for prompt in takeable)
    return takeable if wanted else []


async def leave_held(changes: Changes, owner: str) -> None:
    """Leave to others the Prompts that are held for an owner which is about to be gone."""

    def leave(state: SessionState) -> ev.Event | None:
        held = next((each for each in state.pending.values() if each.holder == owner), None)
        return held and ev.PromptDeliveryChanged(held.prompt, held.delivery, left=True)

    for _ in (await changes.state()).pending:
        await changes.decide(leave)


def has_work(state: SessionState, owner: str, step_limit: int) -> bool:
    """Say whether a drain of that owner would have a step to do."""
    return (
        bool(choose(state, owner, step_limit))
        or wants_step(state, step_limit)
        or state.asked_to_compact
    )


def is_repeated(state: SessionState) -> bool:
    """Say whether the next step does one once more that was too long for the model."""
    return state.unread and state.outcome == "overflowed"


def wants_step(state: SessionState, step_limit: int) -> bool:
    """Say whether what stands in the history already calls for a step."""
    return state.step is not None or (state.unread and state.steps_of_prompt < step_limit)


def _may_take(prompt: Pending, owner: str) -> bool:
    return prompt.holder in {"", owner} or owner_is_gone(prompt.holder)
