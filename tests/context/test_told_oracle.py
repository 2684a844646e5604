"""After any sequence of changes, failures and removals, the model knows what holds.

The oracle is a reader that sees only the texts: a Baseline replaces all it knew, a message changes
what it names. Beside it stands a plain ledger of what was told, kept without the algebra, which
says what each operation should return.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.context import (
    ABSENT,
    UNAVAILABLE,
    Generation,
    Replaced,
    ReplacementBlocked,
    Source,
    SourceSnapshot,
    Unchanged,
    Updated,
    changed_entries,
)
from tests.context.context_facts import context, raising

pytestmark = pytest.mark.anyio

Outcome = Generation | Unchanged | Updated | Replaced | ReplacementBlocked


class Trouble(enum.Enum):
    """What goes wrong with a source."""

    NONE = "none"
    UNAVAILABLE = "unavailable"
    LOADER = "the loader raises"
    TYPE = "the loader returns another type"
    BASELINE = "the baseline renderer raises"
    UPDATE = "the update renderer renders nothing"
    REMOVED = "the removed renderer raises"


class Fact(msgspec.Struct, frozen=True):
    """A source as it is for one operation."""

    key: str
    type: Any
    value: Any
    removable: bool
    trouble: Trouble

    @property
    def absent(self) -> bool:
        return self.value is ABSENT and self.trouble not in _LOST

    @property
    def lost(self) -> bool:
        """Whether nothing at all can be told of it."""
        return self.trouble in _LOST

    @property
    def tellable(self) -> bool:
        """Whether it can be part of a new Baseline."""
        mute = self.trouble is Trouble.BASELINE or (
            self.trouble is Trouble.REMOVED and self.removable
        )
        return not (self.lost or self.absent or mute)

    @property
    def updatable(self) -> bool:
        """Whether a change of it can be told."""
        mute = self.trouble is Trouble.UPDATE or (
            self.trouble is Trouble.REMOVED and self.removable
        )
        return not (self.lost or self.absent or mute)


_LOST = {Trouble.UNAVAILABLE, Trouble.LOADER, Trouble.TYPE}
_VALUES: dict[Any, list[Any]] = {
    int: [0, 1, 2],
    str: ["zero", "one"],
    bool | list[int]: [True, False, [0], [1, 0]],
    dict[str, Any]: [{}, {"k": 1}, {"k": True}, {"k": 1, "l": None}],
}
_KEYS = ["a/a", "a/b", "b/a", "c/c"]


@st.composite
def facts(draw: st.DrawFn) -> list[Fact]:
    """Compose some of the keys, in any order, each in any state."""
    keys = draw(st.permutations(_KEYS))[: draw(st.integers(0, len(_KEYS)))]
    return [draw(fact_of(key)) for key in keys]


@st.composite
def fact_of(draw: st.DrawFn, key: str) -> Fact:
    kind = draw(st.sampled_from([int, int, int, *_VALUES]))
    value = draw(st.sampled_from([*_VALUES[kind], *_VALUES[kind], ABSENT]))
    trouble = draw(st.sampled_from([Trouble.NONE] * 6 + list(Trouble)))
    return Fact(key, kind, value, draw(st.integers(0, 3)) > 0, trouble)


def source_of(fact: Fact, updates: list[tuple[Any, Any]]) -> Source[Any]:
    """Return the source; its texts are `key = JSON` or `key is gone`, never the old state."""

    def load() -> Any:
        match fact.trouble:
            case Trouble.LOADER:
                return raising()
            case Trouble.TYPE:
                return 1.5
            case Trouble.UNAVAILABLE:
                return UNAVAILABLE
            case _:
                return fact.value

    def state(value: Any) -> str:
        return f"{fact.key} = {json.dumps(value, sort_keys=True)}"

    def update(previous: Any, current: Any) -> str:
        updates.append((previous, current))
        return "" if fact.trouble is Trouble.UPDATE else state(current)

    def removed(_: Any) -> str:
        return raising() if fact.trouble is Trouble.REMOVED else f"{fact.key} is gone"

    return Source[Any](
        key=fact.key,
        type=fact.type,
        load=load,
        baseline=raising if fact.trouble is Trouble.BASELINE else state,
        update=update,
        removed=removed if fact.removable else None,
        inline=True,
    )


class Reader:
    """A model that believes what it was told: key to JSON text."""

    def __init__(self) -> None:
        self.knows: dict[str, str] = {}

    def read(self, outcome: Outcome) -> None:
        match outcome:
            case Generation(baseline=text) | Replaced(Generation(baseline=text)):
                self.knows = {}
            case Updated(text=text) | ReplacementBlocked(update=Updated(text=text)):
                pass
            case _:
                return
        for line in text.split("\n\n") if text else []:
            if line.endswith(" is gone"):
                del self.knows[line.removesuffix(" is gone")]
            else:
                key, value = line.split(" = ")
                self.knows[key] = value


class Entry(msgspec.Struct, frozen=True):
    """What the ledger remembers of a told source."""

    type: Any
    text: str
    removable: bool


class Ledger:
    """What was told, by plain rules of its own."""

    def __init__(self) -> None:
        self.told: dict[str, Entry] = {}

    def expect(self, operation: str, now: Sequence[Fact]) -> tuple[type[Any], tuple[str, ...]]:
        """Advance by one operation; return the result's class and the keys that block."""
        composed = {fact.key: fact for fact in now}
        if operation == "initialize":
            self.told = self._fresh(now)
            return Generation, ()
        if operation == "reconcile" and not any(self._stuck(key, composed) for key in self.told):
            return (Updated if self._advance(composed, ()) else Unchanged), ()
        blocking = tuple(
            key
            for key in sorted(self.told)
            if key in composed and not composed[key].absent and not composed[key].tellable
        )
        if blocking:
            self._advance(composed, blocking)
            return ReplacementBlocked, blocking
        self.told = self._fresh(now)
        return Replaced, ()

    def _fresh(self, now: Sequence[Fact]) -> dict[str, Entry]:
        return {fact.key: _entry(fact) for fact in now if fact.tellable}

    def _stuck(self, key: str, composed: dict[str, Fact]) -> bool:
        """Whether what was told under a key can no longer be corrected by a message."""
        if key not in composed or composed[key].absent:
            return not self.told[key].removable
        return self.told[key].type != composed[key].type

    def _advance(self, composed: dict[str, Fact], blocking: Sequence[str]) -> bool:
        before = dict(self.told)
        for key, fact in composed.items():
            if key not in blocking and self._is_news(fact, before.get(key)):
                self.told[key] = _entry(fact)
        for key, entry in before.items():
            if entry.removable and (key not in composed or composed[key].absent):
                del self.told[key]
        return self.told != before

    def _is_news(self, fact: Fact, known: Entry | None) -> bool:
        if known is None:
            return fact.tellable
        return fact.updatable and known.type == fact.type and known.text != _text(fact.value)


def _entry(fact: Fact) -> Entry:
    return Entry(fact.type, _text(fact.value), fact.removable)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _snapshot_of(outcome: Outcome) -> Any:
    match outcome:
        case Generation(snapshot=snapshot) | Replaced(Generation(snapshot=snapshot)):
            return snapshot
        case Updated(snapshot=snapshot) | ReplacementBlocked(update=Updated(snapshot=snapshot)):
            return snapshot
        case _:
            return None


def _stored(snapshot: Any) -> dict[str, SourceSnapshot]:
    """Send a snapshot through a store, as a restart does."""
    return msgspec.json.decode(msgspec.json.encode(snapshot), type=dict[str, SourceSnapshot])


class World:
    """One session: the algebra, the reader and the ledger, side by side."""

    def __init__(self) -> None:
        self.snapshot: dict[str, SourceSnapshot] = {}
        self.reader = Reader()
        self.ledger = Ledger()

    async def step(self, operation: str, now: Sequence[Fact]) -> None:
        updates: list[tuple[Any, Any]] = []
        before = dict(self.reader.knows)
        composed = context(*(source_of(fact, updates) for fact in now))
        given = () if operation == "initialize" else (self.snapshot,)
        outcome: Outcome = await getattr(composed, operation)(*given)
        self._check_result(outcome, self.ledger.expect(operation, now))
        self.reader.read(outcome)
        self._advance(outcome)
        self._check_told()
        self._check_updates(outcome, updates)
        self._check_silence(outcome, now, before)

    def _advance(self, outcome: Outcome) -> None:
        new = _snapshot_of(outcome)
        if new is not None:
            for key, entry in changed_entries(self.snapshot, new).items():
                if entry is None:
                    del self.snapshot[key]
                else:
                    self.snapshot[key] = entry
            assert _text(_plain(self.snapshot)) == _text(_plain(new))
            self.snapshot = _stored(self.snapshot)

    def _check_result(self, outcome: Outcome, expected: tuple[type[Any], tuple[str, ...]]) -> None:
        keys = outcome.keys if isinstance(outcome, ReplacementBlocked) else ()
        assert (type(outcome), keys) == expected

    def _check_told(self) -> None:
        told = {key: entry.text for key, entry in self.ledger.told.items()}
        assert self.reader.knows == told
        assert {key: _text(entry.value) for key, entry in self.snapshot.items()} == told

    def _check_updates(self, outcome: Outcome, updates: list[tuple[Any, Any]]) -> None:
        assert all(_text(previous) != _text(current) for previous, current in updates)
        assert not (isinstance(outcome, Replaced | Generation) and updates)

    def _check_silence(self, outcome: Outcome, now: Sequence[Fact], before: dict[str, str]) -> None:
        """What holds is known; of what cannot be observed, what was told last."""
        blocked = isinstance(outcome, ReplacementBlocked)
        for fact in now:
            if fact.lost and not isinstance(outcome, Generation):
                assert self.reader.knows.get(fact.key) == before.get(fact.key)
            elif fact.absent:
                assert blocked or fact.key not in self.reader.knows
            elif fact.trouble is Trouble.NONE and not blocked:
                assert self.reader.knows[fact.key] == _text(fact.value)


def _plain(snapshot: Any) -> Any:
    return {key: [entry.value, entry.removed] for key, entry in snapshot.items()}


OPERATIONS = st.sampled_from(["reconcile"] * 8 + ["replace", "initialize"])


@given(st.lists(st.tuples(OPERATIONS, facts()), min_size=1, max_size=8))
async def test_the_model_knows_what_holds_after_any_sequence(
    steps: list[tuple[str, list[Fact]]],
) -> None:
    world = World()
    for operation, now in steps:
        await world.step(operation, now)


@given(facts(), facts())
async def test_reconciling_twice_says_nothing_new(first: list[Fact], second: list[Fact]) -> None:
    snapshot = (await context(*(source_of(fact, []) for fact in first)).initialize()).snapshot
    composed = context(*(source_of(fact, []) for fact in second))
    outcome = await composed.reconcile(snapshot)
    after = _snapshot_of(outcome)
    again = await composed.reconcile(snapshot if after is None else after)
    if isinstance(outcome, ReplacementBlocked):
        assert again == ReplacementBlocked(outcome.keys)
    else:
        assert again == Unchanged()


@given(facts(), facts())
async def test_the_same_observation_always_decides_the_same(
    first: list[Fact], second: list[Fact]
) -> None:
    snapshot = (await context(*(source_of(fact, []) for fact in first)).initialize()).snapshot
    observation = await context(*(source_of(fact, []) for fact in second)).observe()
    decided = [observation.reconcile(snapshot), observation.replace(snapshot)]
    diagnostics = observation.diagnostics
    observation.initialize()
    assert [observation.reconcile(snapshot), observation.replace(snapshot)] == decided
    assert [each for each in diagnostics if each not in observation.diagnostics] == []
    assert len(set(observation.diagnostics)) == len(observation.diagnostics)
