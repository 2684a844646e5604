"""A fork: the log of another session, made of the events of this one up to a message.

What is copied is what the history hangs on, so that the copy's requests begin with the same bytes;
what is still under way stays behind.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import anyio
import anyio.to_thread
import msgspec

from perdure.clock import Ids, milliseconds
from perdure.exchange import output_names
from perdure.history import events as ev
from perdure.session.cut import place_of, sound_cut
from perdure.session.drain import Equipment
from perdure.session.outputs import copy_outputs


async def fork(equipment: Equipment, ids: Ids, session: str, at: int | str | None) -> str:
    """Begin a session that is a copy of another one up to a message; return its id.

    It is durable, with the stored outputs that its history names, when this returns. Raises
    UsageError where `at` is no message, and StoreError, with nothing left behind.
    """
    store, outputs = equipment.store, equipment.workplaces.outputs
    now = milliseconds(equipment.clock.now())
    records = forked(session, await store.events(session), at, new_id=ids.new, time=now)
    copy = ids.new()
    files = partial(copy_outputs, outputs / session, outputs / copy, output_names(records))
    try:
        await anyio.to_thread.run_sync(files)
        # Once it is handed over it is done, and the files must stay then.
        with anyio.CancelScope(shield=True):
            await store.restore(copy, records)
    except BaseException:
        shutil.rmtree(outputs / copy, ignore_errors=True)
        raise
    return copy


def forked(
    session: str,
    records: Sequence[ev.Record],
    at: int | str | None,
    *,
    new_id: Callable[[], str],
    time: int,
) -> list[ev.Record]:
    """Return the log of a fork of the session whose log is `records`.

    `at` is the last message that is copied, by seq or prompt id; None copies all. `new_id` names
    its prompts anew, since a prompt id belongs to one session. `time` is that of the fork, in
    milliseconds since 1970; what is copied keeps its own. Raises UsageError where `at` is no
    message.
    """
    wanted = len(records) if at is None else place_of(session, records, at)
    cut = sound_cut(records, wanted)
    begun = records[:cut]
    left = {*_pending(begun), *_unsettled(begun), *_interrupts(begun)}
    copied = [record for record in begun if record.seq not in left]
    rewrite = _Rewriting(session, copied, new_id)
    events = [*map(rewrite.event, copied)]
    times = [record.time for record in copied]
    return [
        *(ev.Record(seq, *pair) for seq, pair in enumerate(zip(times, events, strict=True), 1)),
        ev.Record(len(copied) + 1, time, ev.SessionForked(session, cut)),
    ]


def _pending(records: Sequence[ev.Record]) -> Iterator[int]:
    """Yield the seqs of what made the prompts that are pending at the end."""
    settled = {
        record.data.prompt
        for record in records
        if isinstance(record.data, ev.PromptPromoted | ev.PromptWithdrawn)
    }
    return (
        record.seq
        for record in records
        if isinstance(record.data, ev.PromptAdmitted | ev.PromptDeliveryChanged)
        and record.data.prompt not in settled
    )


def _unsettled(records: Sequence[ev.Record]) -> list[int]:
    """Return the seqs of what asked for, or began, a compaction that has no settlement."""
    asked: list[int] = []
    begun: list[int] = []
    for record in records:
        match record.data:
            case ev.CompactionAsked():
                asked.append(record.seq)
            case ev.CompactionStarted():
                asked, begun = [], [*asked, record.seq]
            case ev.CompactionFinished() | ev.CompactionFailed():
                begun = []
            case ev.SessionReverted():
                asked, begun = [], []
            case _:
                pass
    return asked + begun


def _interrupts(records: Sequence[ev.Record]) -> Iterator[int]:
    """Yield the seqs of requests to stop a drain; the copy has had none."""
    return (each.seq for each in records if isinstance(each.data, ev.InterruptAsked))


class _Rewriting:
    """Turns copied events into those of the fork: new seqs, new prompt ids, the old cache key."""

    def __init__(
        self, session: str, copied: Sequence[ev.Record], new_id: Callable[[], str]
    ) -> None:
        self._session = session
        self._seqs = {record.seq: seq for seq, record in enumerate(copied, 1)}
        self._prompts = {
            record.data.prompt: new_id()
            for record in copied
            if isinstance(record.data, ev.PromptAdmitted)
        }

    def event(self, record: ev.Record) -> ev.Event:
        """Return a copied event as the fork's log has it."""
        replace = msgspec.structs.replace
        match event := record.data:
            case ev.SessionCreated():
                return replace(event, cache=event.cache or self._session, parent="")
            case ev.PromptAdmitted():
                return replace(event, prompt=self._prompts[event.prompt], holder="")
            case ev.PromptDeliveryChanged() | ev.PromptWithdrawn() | ev.PromptPromoted():
                return replace(event, prompt=self._prompts[event.prompt])
            case ev.CompactionFinished():
                return replace(event, kept_from=self._seqs.get(event.kept_from, 0))
            case ev.SessionReverted():
                return replace(event, to=self._at_or_before(event.to))
            case _:
                return event

    def _at_or_before(self, seq: int) -> int:
        # What stood there may be a prompt that stays behind; it was no part of the history.
        return next(self._seqs[each] for each in range(seq, 0, -1) if each in self._seqs)
