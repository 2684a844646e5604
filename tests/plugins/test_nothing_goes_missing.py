"""Whatever is loaded, reloaded, broken or removed: no source is missing that was not taken out.

An oracle follows which keys each plugin's last successful load registered and what the model was
told. It is asked after every change, and in the middle of every registration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.context import SourceSnapshot, Unchanged, Updated
from tests.context.context_facts import fact
from tests.plugins.given import Changeable, without_installed

NAMES = ("a", "a-b", "b")
KEYS = {name: (f"{name}/1", f"{name}.x/2", f"{name}/3") for name in NAMES}


class Write(NamedTuple):
    """Change the code of a plugin; it takes effect when it is loaded."""

    name: str
    keys: tuple[str, ...]
    value: int
    fails: bool


class Reload(NamedTuple):
    name: str


class Remove(NamedTuple):
    name: str


class Add(NamedTuple):
    name: str


class Replay(NamedTuple):
    pass


class Restart(NamedTuple):
    """Begin again with the plugins that are there, as a new process does."""


class Boundary(NamedTuple):
    """Tell the model what holds."""


Change = Write | Reload | Remove | Add | Replay | Restart | Boundary

names = st.sampled_from(NAMES)
writes = names.flatmap(
    lambda name: st.builds(
        Write,
        st.just(name),
        st.lists(st.sampled_from(KEYS[name]), unique=True).map(tuple),
        st.integers(0, 1),
        st.booleans(),
    )
)
changes = st.one_of(
    writes,
    st.builds(Reload, names),
    st.builds(Remove, names),
    st.builds(Add, names),
    st.builds(Replay),
    st.builds(Restart),
    st.builds(Boundary),
    st.builds(Boundary),
)


class Oracle:
    """What must be seen, whatever the registry does."""

    def __init__(self) -> None:
        self.present: set[str] = set(NAMES)
        self.force: dict[str, dict[str, int] | None] = dict.fromkeys(NAMES)
        self.told: dict[str, int] = {}

    def keys(self) -> list[str]:
        """Every key that a session composes: in force, or told by a plugin that is not loaded."""
        found = set[str]()
        for name in self.present:
            force = self.force[name]
            found |= set(self.told) & set(KEYS[name]) if force is None else set(force)
        return sorted(found)

    def tell(self) -> None:
        loaded = {
            key: value for force in self.force.values() for key, value in (force or {}).items()
        }
        self.told = {key: loaded.get(key, self.told.get(key, -1)) for key in self.keys()}


class House:
    """A registry, its plugins and the Context Snapshot of one session."""

    def __init__(self) -> None:
        self.oracle = Oracle()
        self.plugins = {name: Changeable(name) for name in NAMES}
        self.written: dict[str, dict[str, int]] = {name: {} for name in NAMES}
        for plugin in self.plugins.values():
            plugin.meanwhile = self.look
        self.registry = without_installed()
        self.snapshot: dict[str, SourceSnapshot] = {}

    async def look(self) -> None:
        """Check what a session would compose at this moment."""
        composed = self.registry.view().compose(self.snapshot.keys())
        assert list(composed.keys) == self.oracle.keys()

    async def start(self) -> None:
        await self.registry.close()
        present = [self.plugins[name] for name in NAMES if name in self.oracle.present]
        self.registry = without_installed(*present)
        self.oracle.force = dict.fromkeys(NAMES)
        await self.look()
        for plugin in present:
            # One after the other, so that the oracle knows which are loaded already.
            plugin.meanwhile = None
        await self.registry.prepare()
        for plugin in present:
            plugin.meanwhile = self.look
            self.loaded(plugin.name)

    def loaded(self, name: str) -> None:
        """Note the outcome of a registration that has ended."""
        self.oracle.force[name] = None if self.plugins[name].error else self.written[name]

    async def make(self, change: Change) -> None:
        oracle = self.oracle
        match change:
            case Write(name, keys, value, fails):
                self.written[name] = dict.fromkeys(keys, value)
                self.plugins[name].sources = [fact(key, value, int) for key in keys]
                self.plugins[name].error = SystemExit() if fails else None
            case Reload(name) if name in oracle.present:
                await self.registry.reload(name)
                self.loaded(name)
            case Remove(name) if name in oracle.present:
                oracle.present.discard(name)
                await self.registry.remove(name)
                oracle.force[name] = None
            case Add(name) if name not in oracle.present:
                oracle.present.add(name)
                await self.registry.add(self.plugins[name])
                self.loaded(name)
            case Replay():
                for name in NAMES:
                    if name in oracle.present:
                        await self.make(Reload(name))
            case Restart():
                await self.start()
            case Boundary():
                await self.tell()
            case _:
                pass
        await self.look()

    async def tell(self) -> None:
        context = self.registry.view().compose(self.snapshot.keys())
        decided = await context.reconcile(self.snapshot)
        if isinstance(decided, Updated):
            self.snapshot = dict(decided.snapshot)
        else:
            assert decided == Unchanged()
        self.oracle.tell()
        assert {key: entry.value for key, entry in self.snapshot.items()} == self.oracle.told


async def live(sequence: Sequence[Change]) -> None:
    house = House()
    await house.start()
    for change in sequence:
        await house.make(change)
    await house.registry.close()
    opened = sum(plugin.runs for plugin in house.plugins.values())
    assert sum(len(plugin.closed) for plugin in house.plugins.values()) == opened


@settings(deadline=None)
@given(st.lists(changes, max_size=25))
def test_no_source_goes_missing_but_by_removal(sequence: list[Change]) -> None:
    anyio.run(live, sequence)
