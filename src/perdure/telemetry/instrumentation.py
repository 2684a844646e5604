"""What a session tells of its work while it works, and the telemetry that hears nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, Self

import msgspec

from perdure.history.content import ToolCall
from perdure.history.events import StepStarted
from perdure.history.items import Item
from perdure.history.state import SessionState
from perdure.models.types import Answer, Endpoint, ModelProfile
from perdure.tools.settle import Settled

Purpose = Literal["step", "compaction", "title"]
"""What a request is for."""


class Conversation(msgspec.Struct, frozen=True):
    """The text of a request: the Baseline, and the items of the history."""

    baseline: str
    items: Sequence[Item]


def conversation(state: SessionState, model: str) -> Conversation:
    """Return what a request to `provider/model` says that holds the history as it is now."""
    return Conversation(state.frame(model).baseline, state.items_for(model))


class Sent(msgspec.Struct, frozen=True):
    """One request on the wire.

    `started` and `attempt` say which Step and Attempt it belongs to; a request for another purpose
    has no Step. `conversation` gives its text, and is called only where content is asked for.
    """

    session: str
    endpoint: Endpoint
    profile: ModelProfile
    conversation: Callable[[], Conversation]
    purpose: Purpose = "step"
    started: StepStarted | None = None
    attempt: int = 1


class DrainSpan(Protocol):
    """What can be told of a Drain while it runs."""

    def ended(self, state: SessionState, /) -> None:
        """Say that the Drain came to its end, and in which state."""
        ...


class RequestSpan(Protocol):
    """What can be told of a request while its answer streams."""

    def piece(self) -> None:
        """Say that something of the answer has come."""
        ...

    def answered(self, answer: Answer, /) -> None:
        """Say that the answer is whole."""
        ...


class CallSpan(Protocol):
    """What can be told of a tool call while it runs."""

    def settled(self, settled: Settled, /) -> None:
        """Say how the call ended."""
        ...


class Instrumentation(Protocol):
    """Hears of the work of sessions.

    Each context lasts as long as the work that it is about, in one task; what is raised in it says
    how the work failed, and is passed on. A context raises nothing of its own.
    """

    def drain(self, session: str, /) -> AbstractContextManager[DrainSpan]:
        """Open a context around one Drain."""
        ...

    def request(self, sent: Sent, /) -> AbstractContextManager[RequestSpan]:
        """Open a context around one request and its stream."""
        ...

    def call(self, session: str, step: int, call: ToolCall, /) -> AbstractContextManager[CallSpan]:
        """Open a context around one tool that runs."""
        ...


class _Off:
    """Telemetry that is off: every context and every span at once, and none of it does anything."""

    def _opened(self, *_: object) -> Self:
        return self

    def _hear(self, *_: object) -> None:
        return

    drain = request = call = __enter__ = _opened
    ended = piece = answered = settled = __exit__ = _hear


OFF: Instrumentation = _Off()
"""The telemetry of a runtime that has none."""
