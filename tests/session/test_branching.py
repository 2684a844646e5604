"""Forks and reverts at arbitrary places of arbitrary sessions.

The whole session of `test_whole_session` goes on, now and then, in a copy of itself or from an
earlier message. What the model knows is worked out as before; at the end, every cut of the log is
compared with what the session was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from perdure.clock import RandomIds, SystemClock
from perdure.exchange.checking import find_fault
from perdure.history import events as ev
from perdure.history.items import Item, SummaryItem, SystemItem, UserItem
from perdure.history.state import SessionState, fold
from perdure.models.protocols import wire_protocols
from perdure.models.transport import Transport
from perdure.session.fork import forked
from perdure.session.owner import new_owner
from perdure.session.replay import request_body
from perdure.store.sqlite import open_sqlite
from perdure.testing import ReceivedRequest, call, calls, say, think
from perdure.testing.provider import ProtocolName
from tests.session.support import log_of
from tests.session.test_whole_session import QUICK, WholeSession, told_by

PROTOCOLS = wire_protocols(Transport())
PLACES = st.integers(0, 10_000)


class Branching(WholeSession):
    """A session that is copied and taken back; `requests` are those of its steps, by number."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: dict[int, ReceivedRequest] = {}

    def check(self, request: ReceivedRequest, step: ev.StepStarted) -> None:
        super().check(request, step)
        self.requests[step.step] = request

    @rule()
    def prompt_with_thinking(self) -> None:
        self.step([think("Let me see.") + call("list", {"path": "."}, "one"), say("Done.")])

    @rule()
    def prompt_with_calls(self) -> None:
        both = calls(call("list", {"path": "."}, "one"), call("list", {"path": "no"}, "two"))
        self.step([both, say("Done.")])

    @rule()
    def another_program_has_something_to_ask(self) -> None:
        self.portal.call(self._admit_for_another)

    async def _admit_for_another(self) -> None:
        store = await open_sqlite(self.root / "sessions.db", clock=SystemClock())
        prompt, holder = RandomIds().new(), new_owner(RandomIds())
        waiting = ev.PromptAdmitted(prompt, "Wait.", "queue", holder)
        await store.append(self.session.id, [waiting])
        await store.close()

    @precondition(lambda self: self.last is not None)
    @rule(at=PLACES, go_on=st.booleans())
    def fork(self, at: int, go_on: bool) -> None:
        records = self.portal.call(log_of, self.session)
        copy = self.portal.call(self.session.fork, at % len(records) + 1)
        before = msgspec.json.encode(records)
        assert msgspec.json.encode(self.portal.call(log_of, self.session)) == before
        if go_on:
            self.session = copy
            self.resume()

    @precondition(lambda self: self.last is not None)
    @rule(to=PLACES)
    def revert(self, to: int) -> None:
        records = self.portal.call(log_of, self.session)
        places = standing_places(records)
        before = self.portal.call(self.session.state)
        self.portal.call(self.session.revert, places[to % len(places)])
        self.resume()
        (*_, reverted) = self.portal.call(log_of, self.session)
        assert isinstance(reverted.data, ev.SessionReverted)
        cut = reverted.data.to
        then, now = fold(before.session, records[:cut]), self.portal.call(self.session.state)
        assert history_of(now) == history_of(then)
        assert settings_of(now) == settings_of(before)
        assert reverted.data.snapshot == then.snapshot

    def resume(self) -> None:
        """Learn what the session, as it stands now, has told the model."""
        records = self.portal.call(log_of, self.session)
        state = fold(self.session.id, records)
        history = self.portal.call(self.messages)
        if records[-1].type == "session.reverted":
            cut = records[-1].data.to  # pyright: ignore
            assert history == [item for item in self.history if item.seq <= cut]
        self.history = history
        self.told = told_by(telling(state))
        self.place = Path(state.directory)
        self.world.pop("entry", None)
        if "note" in state.entries:
            self.world["entry"] = state.entries["note"]
        last = state.last_step
        self.last = (self.requests[last.step], last) if last else None
        at = max((item.seq for item in state.items if isinstance(item, SummaryItem)), default=0)
        self.compacted = last is not None and at > seq_of_step(records, last.step)

    def teardown(self) -> None:
        if hasattr(self, "session"):
            check_every_cut(self.portal.call(log_of, self.session))
            assert self.portal.call(check_of, self.root / "sessions.db") == []
        super().teardown()


class BranchingOverAnthropic(Branching):
    """The same over the other protocol, whose reasoning is bound to what stands before it."""

    protocol: ProtocolName = "anthropic"


def standing_places(records: Sequence[ev.Record]) -> list[int]:
    """Return every seq that no revert has taken out of the history."""
    gone = [(each.data.to, each.seq) for each in records if type(each.data) is ev.SessionReverted]
    seqs = range(1, len(records) + 1)
    return [seq for seq in seqs if not any(to < seq < end for to, end in gone)]


def telling(state: SessionState) -> Any:
    """Return what the projected history tells, in the shape of a request."""
    system = [item.text for item in state.items if isinstance(item, SystemItem)]
    baseline = state.epoch.baseline if state.epoch else ""

    return SimpleNamespace(json={"messages": [baseline, *system]})


def seq_of_step(records: Sequence[ev.Record], step: int) -> int:
    (seq,) = (
        each.seq
        for each in records
        if isinstance(each.data, ev.StepStarted) and each.data.step == step
    )
    return seq


def history_of(state: SessionState) -> list[Any]:
    """Return what a revert takes back."""
    return [state.items, state.epoch, state.snapshot, state.last_request, state.last_step]


def settings_of(state: SessionState) -> list[Any]:
    """Return what a revert leaves as it is."""
    return [
        *(state.model, state.directory, state.project, state.title, state.instructions),
        *(state.marker, state.cache, state.entries, state.pending, state.steps),
    ]


async def check_of(path: Path) -> Sequence[str]:
    store = await open_sqlite(path, clock=SystemClock())
    try:
        return await store.check()
    finally:
        await store.close()


def check_every_cut(records: Sequence[ev.Record]) -> None:
    """Fork a log at each of its events; the copy must be what the session was at the cut."""
    asked: set[int] = set()
    for at in range(1, len(records) + 1):
        ids = count()
        copy = forked("origin", records, at, new_id=lambda ids=ids: f"new{next(ids)}", time=7)
        last = copy[-1].data
        assert isinstance(last, ev.SessionForked)
        assert find_fault("copy", copy) is None
        then, now = fold("origin", records[: last.at]), fold("copy", copy)
        assert facts_of(now) == facts_of(then)
        assert not any([now.pending, now.unread, now.step, now.compacting, now.asked_to_compact])
        if now.steps and last.at not in asked:
            asked.add(last.at)
            assert request_body("copy", copy, PROTOCOLS) == request_body(
                "origin", records[: last.at], PROTOCOLS
            )


def facts_of(state: SessionState) -> list[Any]:
    """Return what a copy has in common with its origin, without seqs and prompt ids."""
    epoch = state.epoch and msgspec.structs.replace(state.epoch, seq=0)
    return [
        *(nameless(item) for item in state.items),
        *(epoch, state.snapshot, state.entries, state.discovered, state.marker, state.cache),
        *(state.model, state.directory, state.title, state.instructions, state.due, state.steps),
        *(state.last_request, state.last_step, state.usage),
    ]


def nameless(item: Item) -> Item:
    item = msgspec.structs.replace(item, seq=0)
    return msgspec.structs.replace(item, prompt="") if isinstance(item, UserItem) else item


_QUICK = settings(QUICK, max_examples=12)
TestBranching = Branching.TestCase
TestBranching.settings = _QUICK
TestBranchingOverAnthropic = BranchingOverAnthropic.TestCase
TestBranchingOverAnthropic.settings = _QUICK
