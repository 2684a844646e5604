"""What the model has been told, beside what holds now: read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from perdure.context import ABSENT, UNAVAILABLE, Diagnostic, Observation, ReplacementBlocked
from perdure.context.snapshot import SourceSnapshot
from perdure.history import events as ev
from perdure.history.standing import standing
from perdure.history.state import SessionState, fold
from perdure.session.admission import admit, replacement_due
from perdure.session.workplace import Workplace

Standing = Literal["current", "changed", "new", "removed", "unavailable", "never told", "told"]
"""How what holds now stands to what the model was last told; `told` where now was not asked."""

Next = Literal["unchanged", "message", "epoch", "blocked", "past"]
"""What the next step would admit; `past` for a view of an earlier point."""


class EpochView(msgspec.Struct, frozen=True):
    """One Context Epoch on the time line. `time` is milliseconds since 1970."""

    number: int
    seq: int
    time: int
    model: str
    reasons: tuple[str, ...]
    baseline: str
    tools: tuple[str, ...]


class MessageView(msgspec.Struct, frozen=True):
    """One System Message: where it stands, what it said, and the sources it spoke of."""

    epoch: int
    seq: int
    time: int
    text: str
    keys: tuple[str, ...]


class SourceView(msgspec.Struct, frozen=True):
    """One Context Source: the value last told, what holds now, and how the two stand.

    `told` and `now` are JSON data; `standing` says whether they exist. `removed` is the text that
    would tell its removal.
    """

    key: str
    standing: Standing
    told: Any = None
    now: Any = None
    removed: str | None = None


class ContextView(msgspec.Struct, frozen=True):
    """All that `perdure context` shows; title, model and directory are those of that moment.

    `next` is what the next step would admit: nothing, a System Message (`next_text`), a new epoch
    for `reasons`, or nothing yet because `blocked` sources cannot be observed.
    """

    session: str
    title: str
    model: str
    directory: str
    epochs: tuple[EpochView, ...]
    messages: tuple[MessageView, ...]
    sources: tuple[SourceView, ...]
    next: Next
    next_text: str
    reasons: tuple[str, ...]
    blocked: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


async def view_context(
    session: str, records: Sequence[ev.Record], workplace: Workplace
) -> ContextView:
    """Observe once, read-only, and compare with what the log says was told; admits nothing.

    It asks for no provider: what was told can be seen also where the model is not configured.
    """
    state = fold(session, records)
    async with workplace.plugins() as plugins:
        servers = workplace.servers()
        observation = await (await workplace.facts(state, plugins, servers)).observe()
        tools = workplace.tools(state, plugins, servers).definitions()
        troubles = workplace.diagnostics(plugins, servers)
    on_move = workplace.config.on_move
    reasons = replacement_due(state, state.model, tools, on_move=on_move)
    admitted = admit(
        state,
        observation,
        model=state.model,
        tools=tools,
        lowering=0,  # nothing is lowered
        on_move=on_move,
    )
    event = admitted[0] if admitted else None
    blocked = _blocked(state, observation, reasons)
    return ContextView(
        session=session,
        title=state.title,
        model=state.model,
        directory=state.directory,
        epochs=tuple(_epochs(records)),
        messages=tuple(_messages(records)),
        sources=tuple(_sources(state, observation)),
        next=_next(event, blocked),
        next_text=event.text if isinstance(event, ev.SystemMessage) else "",
        reasons=event.reasons if isinstance(event, ev.EpochStarted) else reasons,
        blocked=blocked,
        diagnostics=tuple(dict.fromkeys((*observation.diagnostics, *troubles))),
    )


def view_told(session: str, records: Sequence[ev.Record]) -> ContextView:
    """Return what the model had been told after these records; observes nothing."""
    state = fold(session, records)
    return ContextView(
        session=session,
        title=state.title,
        model=state.model,
        directory=state.directory,
        epochs=tuple(_epochs(records)),
        messages=tuple(_messages(records)),
        sources=tuple(
            SourceView(key, "told", entry.value, removed=entry.removed)
            for key, entry in state.snapshot.items()
        ),
        next="past",
        next_text="",
        reasons=(),
        blocked=(),
        diagnostics=(),
    )


def _next(event: ev.Event | None, blocked: tuple[str, ...]) -> Next:
    if isinstance(event, ev.EpochStarted):
        return "epoch"
    if isinstance(event, ev.SystemMessage):
        return "message"
    return "blocked" if blocked else "unchanged"


def _blocked(
    state: SessionState, observation: Observation, reasons: tuple[str, ...]
) -> tuple[str, ...]:
    if state.epoch is None:
        return ()
    decided = (
        observation.replace(state.snapshot) if reasons else observation.reconcile(state.snapshot)
    )
    return tuple(decided.keys) if isinstance(decided, ReplacementBlocked) else ()


def _epochs(records: Sequence[ev.Record]) -> list[EpochView]:
    return [
        EpochView(
            number=event.epoch,
            seq=record.seq,
            time=record.time,
            model=event.model,
            reasons=event.reasons,
            baseline=event.baseline,
            tools=tuple(tool.name for tool in event.tools),
        )
        for record in standing(records)
        if isinstance(event := record.data, ev.EpochStarted)
    ]


def _messages(records: Sequence[ev.Record]) -> list[MessageView]:
    epoch = 0
    messages: list[MessageView] = []
    for record in standing(records):
        event = record.data
        if isinstance(event, ev.EpochStarted):
            epoch = event.epoch
        elif isinstance(event, ev.SystemMessage):
            keys = tuple(event.changed)
            messages.append(MessageView(epoch, record.seq, record.time, event.text, keys))
    return messages


def _sources(state: SessionState, observation: Observation) -> list[SourceView]:
    held = observation.values
    keys = [*held, *(key for key in state.snapshot if key not in held)]
    return [_source(key, state.snapshot.get(key), held.get(key, ABSENT)) for key in keys]


def _source(key: str, told: SourceSnapshot | None, now: Any) -> SourceView:
    if told is None:
        if now is UNAVAILABLE or now is ABSENT:
            return SourceView(key, "never told")
        return SourceView(key, "new", now=now)
    if now is UNAVAILABLE:
        return SourceView(key, "unavailable", told.value, removed=told.removed)
    if now is ABSENT:
        return SourceView(key, "removed", told.value, removed=told.removed)
    same = told.value == now
    return SourceView(key, "current" if same else "changed", told.value, now, told.removed)
