"""Where a history can be cut: the place that somebody means, and the nearest one between steps."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import UsageError
from perdure.history import events as ev
from perdure.history.content import ToolCall


def place_of(session: str, records: Sequence[ev.Record], message: int | str) -> int:
    """Return the seq that a message means: its own seq, or the id of a promoted prompt.

    Raises UsageError for what is neither.
    """
    if isinstance(message, str):
        return _promotion(session, records, message)
    if not 1 <= message <= len(records):
        raise UsageError(
            f"session {session} has no event {message}; its log goes from 1 to {len(records)}"
        )
    return message


def require_standing(session: str, records: Sequence[ev.Record], seq: int) -> None:
    """Raise UsageError where a revert has taken the message at that seq out of the history."""
    for record in records:
        event = record.data
        if isinstance(event, ev.SessionReverted) and event.to < seq < record.seq:
            raise UsageError(
                f"session {session}: event {seq} is no longer in the history, it was reverted by "
                f"event {record.seq}; `perdure sessions fork {session} --at {seq}` goes on from it"
            )


def sound_cut(records: Sequence[ev.Record], at: int) -> int:
    """Return the seq nearest to `at` at which no step is open.

    Behind the last words of a step, the whole step stays, with its settlement; anywhere else in it
    the cut is before its start, so that no call is left without its result.
    """
    started = next((each for each in reversed(records[:at]) if _starts(each)), None)
    if started is None:
        return at
    finished = next((each.seq for each in records[started.seq :] if _finishes(each)), None)
    if finished is not None and at >= finished:
        return at
    if finished is not None and _is_whole(records[started.seq : at]):
        return finished
    return started.seq - 1


def _promotion(session: str, records: Sequence[ev.Record], prompt: str) -> int:
    known = False
    for record in records:
        match record.data:
            case ev.PromptPromoted(prompt=id_) if id_ == prompt:
                return record.seq
            case ev.PromptWithdrawn(prompt=id_) if id_ == prompt:
                raise UsageError(f"session {session}: prompt {prompt} was withdrawn; it is nowhere")
            case ev.PromptAdmitted(prompt=id_) if id_ == prompt:
                known = True
            case _:
                pass
    if known:
        raise UsageError(
            f"session {session}: prompt {prompt} is still pending; it is not in the history yet"
        )
    raise UsageError(
        f"session {session} has no prompt {prompt!r}; `perdure sessions show {session}` gives the "
        "number of each message"
    )


def _starts(record: ev.Record) -> bool:
    return isinstance(record.data, ev.StepStarted)


def _finishes(record: ev.Record) -> bool:
    return isinstance(record.data, ev.StepFinished)


def _is_whole(records: Sequence[ev.Record]) -> bool:
    """Say whether the answer and every result are among the records of a step."""
    answers = [each.data for each in records if isinstance(each.data, ev.AssistantMessage)]
    calls = {part.id for each in answers for part in each.parts if isinstance(part, ToolCall)}
    settled = {each.data.call for each in records if isinstance(each.data, ev.ToolSettled)}
    return bool(answers) and calls <= settled
