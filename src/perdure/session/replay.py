"""The exact request of an earlier step, made again from the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.errors import StoreDamaged, UsageError
from perdure.history.events import Record, StepStarted
from perdure.history.state import fold
from perdure.models.types import WireProtocol


def request_body(
    session: str,
    records: Sequence[Record],
    protocols: Mapping[str, WireProtocol],
    step: int | None = None,
) -> bytes:
    """Return the body of a step's request, byte for byte as it was sent; the last step's if None.

    Raises UsageError where the session has no such step or its protocol is unknown, StoreDamaged
    where what the log gives now is not what was sent.
    """
    index, started = _find(session, records, step)
    state = fold(session, records[:index])
    protocol = protocols.get(started.request.protocol)
    if protocol is None:
        raise UsageError(
            f"session {session}: step {started.step} was sent in the protocol "
            f"{started.request.protocol!r}, which this Perdure does not know; upgrade it"
        )
    lowering = protocol.lowering(state.frame(started.model), started.request)
    request = lowering.request(state.items_for(started.model))
    if request.digest != started.digest:
        raise StoreDamaged(
            f"session {session}: the log does not give step {started.step} as it was sent; "
            "run `perdure doctor`"
        )
    return request.body


def _find(session: str, records: Sequence[Record], step: int | None) -> tuple[int, StepStarted]:
    found = [
        (index, record.data)
        for index, record in enumerate(records)
        if isinstance(record.data, StepStarted) and step in {None, record.data.step}
    ]
    if not found:
        if step is None:
            raise UsageError(f"session {session} has no step yet; a prompt begins the first")
        raise UsageError(
            f"session {session} has no step {step}; `perdure events {session}` lists them"
        )
    return found[-1]
