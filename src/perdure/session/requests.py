"""Requests from the history: one lowering for an epoch and a model, kept between steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from perdure.errors import BrokenStream, EmptyAnswer
from perdure.history.events import RequestShape, StepStarted
from perdure.history.items import Item
from perdure.history.state import SessionState
from perdure.models.types import Answer, Lowering, Request, WireProtocol
from perdure.session.memory import LoweringKey, Remembered
from perdure.session.workplace import Target
from perdure.telemetry import RequestSpan


class Requests:
    """Makes the requests of one drain.

    What a boundary prepares is kept only when `keep` is called: a boundary that was refused may
    have prepared an epoch that never came to be.
    """

    def __init__(self, memory: Remembered) -> None:
        self._memory = memory
        self._prepared: tuple[LoweringKey, Lowering] | None = None

    def prepare(self, ahead: SessionState, target: Target) -> tuple[StepStarted, Request]:
        """Return the next step and its request, for the state as it will be at its start."""
        shape = target.shape()
        lowering = self._lowering(ahead, target.name, shape, target.protocol)
        items = ahead.items_for(target.name)
        request = lowering.request(items, previous=ahead.last_request)
        started = StepStarted(
            step=ahead.steps + 1,
            epoch=ahead.frame(target.name).epoch,
            model=target.name,
            request=shape,
            blocks=request.blocks,
            digest=request.digest,
            prefix=request.prefix,
            cause=request.cause,
            forms=request.forms,
        )
        return started, request

    def keep(self) -> None:
        """Keep the lowering of the request prepared last."""
        self._memory.lowering = self._prepared or self._memory.lowering

    def side_request(
        self,
        state: SessionState,
        last: StepStarted,
        protocol: WireProtocol,
        extra: Iterable[Item],
        items: int,
    ) -> bytes:
        """Return a body that begins like the last step's: its first `items`, then `extra`."""
        lowering = self._lowering(state, last.model, last.request, protocol)
        kept = state.items_for(last.model)
        if items < len(kept):
            # A shorter history is no continuation of what the kept lowering has settled.
            lowering = protocol.lowering(state.frame(last.model), last.request)
        return lowering.request(kept[:items], extra).body

    def _lowering(
        self, state: SessionState, model: str, shape: RequestShape, protocol: WireProtocol
    ) -> Lowering:
        frame = state.frame(model)
        key = LoweringKey(frame.epoch, model, shape, state.rebuilt)
        kept = self._memory.lowering
        lowering = kept[1] if kept and kept[0] == key else protocol.lowering(frame, shape)
        self._prepared = (key, lowering)
        return lowering


async def whole_answer(
    target: Target,
    body: bytes,
    request: AbstractContextManager[RequestSpan],
    most: int | None = None,
) -> Answer:
    """Return the answer to a request that is no step's, as a whole.

    Stops reading at more than `most` characters of text and reasoning. `request` is the telemetry
    of it. Raises ProviderError, EmptyAnswer where no answer came.
    """
    with request as span:
        answer = await _read(target, body, span.piece, most)
        span.answered(answer)
    return answer


async def _read(target: Target, body: bytes, came: Callable[[], None], most: int | None) -> Answer:
    answer, read = None, 0
    stream = target.protocol.stream(target.endpoint, target.profile.model, body)
    async with stream as pieces:
        async for piece in pieces:
            came()
            if isinstance(piece, Answer):
                answer = piece
            else:
                read += len(piece.text)
            if most is not None and read > most:
                raise BrokenStream(f"{target.name} wrote more than {most} characters")
    if answer is None:
        raise EmptyAnswer(f"{target.name} gave no answer")
    return answer
