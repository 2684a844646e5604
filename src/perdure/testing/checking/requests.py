"""Requests: each one can be made again from the log as it was sent, and a provider takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from perdure.errors import PerdureError
from perdure.history import events as ev
from perdure.history.state import Folding, SessionState
from perdure.models.protocols import wire_protocols
from perdure.models.transport import Transport
from perdure.models.types import WireProtocol
from perdure.testing import (
    anthropic_rules,
    gemini_rules,
    openai_chat_rules,
    openai_responses_rules,
)
from perdure.testing.wire import ReceivedRequest, Rejection, Rules

_TAKES: Mapping[str, Callable[[ReceivedRequest, Rules], object]] = {
    "openai-chat": openai_chat_rules.check_body,
    "openai-responses": openai_responses_rules.check_form,
    "anthropic": anthropic_rules.check_form,
    "gemini": gemini_rules.check_form,
}
"""What refuses a request of each protocol, whoever has signed what is in it."""


def requests(records: Sequence[ev.Record]) -> Iterator[tuple[int, str]]:
    """Yield a log that cannot be folded, and requests that are not as sent or not acceptable."""
    protocols = wire_protocols(Transport())
    folding = Folding("", records)
    for record in records:
        if isinstance(record.data, ev.StepStarted):
            wrong = _wrong(folding.state, record.data, protocols)
            yield from ((record.seq, words) for words in wrong)
        try:
            folding.apply(record)
        except PerdureError as error:
            yield record.seq, f"the log cannot be folded: {error}"
            return


def _wrong(
    state: SessionState, started: ev.StepStarted, protocols: Mapping[str, WireProtocol]
) -> Iterator[str]:
    shape = started.request
    protocol = protocols.get(shape.protocol)
    if protocol is None or state.epoch is None:
        return
    lowering = protocol.lowering(state.frame(started.model), shape)
    request = lowering.request(state.items_for(started.model))
    if request.digest != started.digest or request.blocks != started.blocks:
        yield f"the request of step {started.step} is not the one that was sent"
    if refusal := _refusal(shape, request.body):
        yield f"the request of step {started.step} is refused: {refusal}"


def _refusal(shape: ev.RequestShape, body: bytes) -> str:
    takes = _TAKES.get(shape.protocol)
    if takes is None:
        return ""
    target = f"/models/{shape.model}:"  # where Gemini has the model
    request = ReceivedRequest(0, "POST", target, {}, body, msgspec.json.decode(body))
    try:
        takes(request, Rules())
    except Rejection as rejection:
        return rejection.message
    return ""
