"""What anybody may write to a session, whoever drains it: admissions, switches, moves, entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, get_args

import msgspec

from perdure.errors import StaleBoundary, UsageError
from perdure.history import events as ev
from perdure.history.state import SessionState, fold
from perdure.session.feed import Feed
from perdure.store.contract import Guard, Store

_TRIES = 20

_AnyEvent = TypeVar("_AnyEvent", bound=ev.Event)
_Result = TypeVar("_Result")


class Changes:
    """Writes to one session from outside of a drain, and tells its readers."""

    def __init__(self, session: str, store: Store, feed: Feed) -> None:
        self._session = session
        self._store = store
        self._feed = feed

    async def state(self) -> SessionState:
        """Return the fold of the session's log as it is now."""
        return fold(self._session, await self._store.events(self._session))

    async def write(self, event: ev.Event, guard: Guard | None = None) -> ev.Record:
        """Append one event; UsageError where it is none that the log could give back."""
        records = await self._store.append(self._session, [checked(event)], guard=guard)
        self._feed.publish(self._session, records)
        return records[0]

    async def decide(self, decide: Callable[[SessionState], ev.Event | None]) -> None:
        """Write what is decided from the state, if nothing has come between; else decide again."""

        async def attempt() -> None:
            state = await self.state()
            event = decide(state)
            if event is not None:
                await self.write(event, Guard(exactly=state.last_seq))

        await until_current(self._session, attempt)


async def until_current(session: str, attempt: Callable[[], Awaitable[_Result]]) -> _Result:
    """Return the result of what reads and then writes, done again while others write in between.

    Raises StaleBoundary where they do so again and again.
    """
    for _ in range(_TRIES):
        with suppress(StaleBoundary):
            return await attempt()
    raise StaleBoundary(f"session {session}: it is being changed too fast; try again")


def checked(event: _AnyEvent) -> _AnyEvent:
    """Return an event made of what a caller gave; UsageError where the log could not give it back.

    Nothing checks it later: an event of wrong types would be written, and never be read again.
    """
    try:
        msgspec.convert(msgspec.structs.asdict(event), type(event))
    except msgspec.ValidationError as error:
        raise UsageError(f"this is no {event.type}: {error}") from None
    return event


def whole_number(number: object, what: str) -> int:
    """Return a number that is 0 or more; UsageError for another one and for another type."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise UsageError(f"the {what} must be an int, not {type(number).__name__}")
    if number < 0:
        raise UsageError(f"the {what} must be 0 or more, not {number}")
    return number


def delivery_of(word: object) -> ev.Delivery:
    """Return how a prompt is promoted; UsageError for any other word."""
    deliveries: tuple[ev.Delivery, ...] = get_args(ev.Delivery)
    for each in deliveries:
        if each == word:
            return each
    raise UsageError(f"the delivery must be {' or '.join(deliveries)}, not {word!r:.60}")


def unicode_text(text: object, what: str) -> str:
    """Return text that can be stored; UsageError for another type and half a surrogate pair."""
    if not isinstance(text, str):
        raise UsageError(f"the {what} must be a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"the {what} is not valid Unicode; leave out the lone surrogates"
        ) from None
    return text
