"""One step's Attempts: the same bytes again, while it may help and is not too late."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import msgspec

from perdure import errors
from perdure.clock import Clock
from perdure.errors import BrokenStream, PerdureError, ProviderError, Transient
from perdure.history.content import Part, Reasoning, Text
from perdure.history.events import AttemptFailed, Failure, ReasoningDelta, TextDelta
from perdure.models.types import Answer, ReasoningPiece, TextPiece
from perdure.session.boundary import Crossed
from perdure.session.log import SessionLog
from perdure.telemetry import Sent, conversation


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often and how long to try: `attempts` in all, `waiting` seconds of waiting in all.

    The n-th wait is `base * 2**(n-1)` seconds, made up to half shorter at random, so that clients
    which failed together do not come back together.
    """

    attempts: int = 5
    waiting: float = 20.0
    base: float = 0.5
    chance: Callable[[], float] = random.random

    def wait(self, error: ProviderError, attempt: int, waited: float) -> float | None:
        """Return the seconds to wait before the next Attempt, or None when it is no use."""
        if not isinstance(error, Transient) or attempt >= self.attempts:
            return None
        seconds = self.base * 2 ** (attempt - 1) * (1 - self.chance() / 2)
        if error.retry_after is not None:
            seconds = error.retry_after
        return seconds if waited + seconds <= self.waiting else None


def failure_of(error: PerdureError) -> Failure:
    """Return an error as the log keeps it."""
    return Failure(type(error).__name__, str(error), getattr(error, "status", None))


def error_of(failure: Failure) -> PerdureError:
    """Return a stored error as one that can be raised."""
    kind = getattr(errors, failure.error, PerdureError)
    error = kind(failure.message)
    if isinstance(error, ProviderError):
        error.status = failure.status
    return error


class Attempts:
    """Gets one answer to one request.

    `number` is the Attempt on the wire, `partial` what it has yielded so far; both are what an
    interrupt finds.
    """

    def __init__(self, log: SessionLog, clock: Clock, policy: RetryPolicy, step: Crossed) -> None:
        self.number = 1
        self._log = log
        self._clock = clock
        self._policy = policy
        self._step = step
        self._text: list[str] = []
        self._reasoning: list[str] = []

    @property
    def partial(self) -> tuple[Part, ...]:
        """What the present Attempt has yielded; never shown to the model."""
        parts: list[Part] = []
        if self._reasoning:
            parts.append(Reasoning("".join(self._reasoning)))
        if self._text:
            parts.append(Text("".join(self._text)))
        return tuple(parts)

    async def answer(self) -> Answer:
        """Return the answer; raise the last ProviderError when no Attempt gave one.

        Every failed Attempt but the last is written to the log here; `failed` gives the last one,
        for the caller to write together with the settlement of the step.
        """
        waited = 0.0
        while True:
            try:
                return await self._once()
            except ProviderError as error:
                wait = self._policy.wait(error, self.number, waited)
                if wait is None:
                    raise
                await self._log.write(self.failed(error, wait))
            # Before the wait, for an interrupt in it must not find the failed Attempt once more.
            self.number += 1
            self._text.clear()
            self._reasoning.clear()
            await self._clock.sleep(wait)
            waited += wait

    def failed(self, error: PerdureError, wait: float | None = None) -> AttemptFailed:
        """Return the event that records the present Attempt's failure."""
        step = self._step.started.step
        return AttemptFailed(step, self.number, failure_of(error), self.partial, wait)

    def interrupted(self) -> AttemptFailed:
        """Return the event that keeps what had come when the step was interrupted."""
        failure = Failure("Interrupted", "interrupted by the user")
        return AttemptFailed(self._step.started.step, self.number, failure, self.partial)

    async def _once(self) -> Answer:
        with self._step.workplace.telemetry.request(self._sent()) as span:
            answer = await self._read(span.piece)
            span.answered(answer)
        return answer

    async def _read(self, came: Callable[[], None]) -> Answer:
        target, step = self._step.target, self._step.started.step
        answer: Answer | None = None
        stream = target.protocol.stream(
            target.endpoint, target.profile.model, self._step.request.body
        )
        async with stream as pieces:
            async for piece in pieces:
                came()
                match piece:
                    case TextPiece(text):
                        self._text.append(text)
                        self._log.show(TextDelta(step, text))
                    case ReasoningPiece(text):
                        self._reasoning.append(text)
                        self._log.show(ReasoningDelta(step, text))
                    case Answer():
                        answer = piece
        if answer is None:
            raise BrokenStream(f"{target.name} ended its stream without an answer")
        return answer

    def _sent(self) -> Sent:
        state, target = self._log.state, self._step.target
        return Sent(
            session=state.session,
            endpoint=target.endpoint,
            profile=target.profile,
            conversation=partial(conversation, state, target.name),
            started=self._step.started,
            attempt=self.number,
        )
