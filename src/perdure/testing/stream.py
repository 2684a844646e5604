"""A reply on its way to the client: frames, waits and faults, as data that a server plays.

A protocol renders a reply as frames. Each fault is a pure change of that list, so that every fault
works with every protocol, and several can be combined.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec


class Signal(Protocol):
    """Anything that is set once: an event of anyio, asyncio, threading or multiprocessing."""

    def is_set(self) -> bool: ...


class Frame(msgspec.Struct, frozen=True):
    """Bytes of the body.

    `content` marks a fragment of what the model says; `ends` marks what follows the last one.
    """

    data: bytes
    content: bool = False
    ends: bool = False


class Pause(msgspec.Struct, frozen=True):
    """Wait for `seconds`, or until a signal is set; with neither, until the client goes away."""

    seconds: float | None = None
    until: Signal | None = None


class Stop(msgspec.Struct, frozen=True):
    """Close the connection here; a `clean` stop ends the HTTP body properly first."""

    clean: bool


class Trouble(msgspec.Struct, frozen=True):
    """An error that the provider reports inside the stream, in the protocol's own frame."""

    type: str
    message: str


Step = Frame | Pause | Stop | Trouble


class Fault(Protocol):
    """One change of the steps of a reply."""

    def apply(self, steps: Sequence[Step]) -> list[Step]: ...


class Cut(msgspec.Struct, frozen=True):
    """End the connection after so many fragments."""

    after: int
    clean: bool

    def apply(self, steps: Sequence[Step]) -> list[Step]:
        return [*steps[: _place(steps, self.after)], Stop(self.clean)]


class Unfinished(msgspec.Struct, frozen=True):
    """Leave out the last frame, then end the body properly."""

    def apply(self, steps: Sequence[Step]) -> list[Step]:
        return [*steps[:-1], Stop(clean=True)]


class Insert(msgspec.Struct, frozen=True):
    """Send other bytes, or wait, after so many fragments."""

    step: Frame | Pause
    after: int

    def apply(self, steps: Sequence[Step]) -> list[Step]:
        place = _place(steps, self.after)
        return [*steps[:place], self.step, *steps[place:]]


class Fail(msgspec.Struct, frozen=True):
    """Report an error inside the stream after so many fragments, then end the body."""

    type: str
    message: str
    after: int

    def apply(self, steps: Sequence[Step]) -> list[Step]:
        place = _place(steps, self.after)
        return [*steps[:place], Trouble(self.type, self.message), Stop(clean=True)]


class Disorder(msgspec.Struct, frozen=True):
    """Send the last fragment after the frame that ends the message."""

    def apply(self, steps: Sequence[Step]) -> list[Step]:
        if not (fragments := _fragments(steps)):
            return [*steps]
        late, end = fragments[-1], _ending(steps)
        return [*steps[:late], *steps[late + 1 : end + 1], steps[late], *steps[end + 1 :]]


class Trickle(msgspec.Struct, frozen=True):
    """Send every byte on its own, with a wait after each."""

    seconds: float

    def apply(self, steps: Sequence[Step]) -> list[Step]:
        slow: list[Step] = []
        for step in steps:
            slow.extend(self._bytes(step) if isinstance(step, Frame) else [step])
        return slow

    def _bytes(self, frame: Frame) -> list[Step]:
        single = [Frame(frame.data[i : i + 1]) for i in range(len(frame.data))]
        if not self.seconds:
            return [*single]
        return [step for byte in single for step in (byte, Pause(self.seconds))]


def with_faults(
    frames: Sequence[Frame], faults: Sequence[Fault], error_frame: Callable[[Trouble], bytes]
) -> tuple[Frame | Pause | Stop, ...]:
    """Apply faults to frames, in order; `error_frame` encodes an error as the protocol does."""
    steps: list[Step] = [*frames]
    for fault in faults:
        steps = fault.apply(steps)
    return tuple(Frame(error_frame(s)) if isinstance(s, Trouble) else s for s in steps)


def _fragments(steps: Sequence[Step]) -> list[int]:
    return [i for i, step in enumerate(steps) if isinstance(step, Frame) and step.content]


def _ending(steps: Sequence[Step]) -> int:
    """Return where the closing frames begin."""
    ends = (i for i, step in enumerate(steps) if isinstance(step, Frame) and step.ends)
    return next(ends, len(steps))


def _place(steps: Sequence[Step], after: int) -> int:
    """Return where the fragment number `after` ends, at most just before the closing frames.

    Place 0 is just before the first fragment, behind what opens the stream.
    """
    fragments = _fragments(steps)
    if not fragments or after > len(fragments):
        return _ending(steps)
    return fragments[after - 1] + 1 if after > 0 else fragments[0]


def halves(data: bytes) -> list[Frame]:
    """Return a document in two frames, so that the faults of a stream have a place in it."""
    half = len(data) // 2
    return [Frame(data[:half], content=True), Frame(data[half:], ends=True)]


def words(text: str, at_most: int = 24) -> list[str]:
    """Split text into fragments as a model streams it: some words each, none lost."""
    return _grouped(re.findall(r"\S*\s+|\S+", text), at_most)


def pieces(text: str, at_most: int = 4) -> list[str]:
    """Split text anywhere into a few fragments, as providers stream the arguments of a call."""
    return _grouped(list(text), at_most)


def _grouped(atoms: list[str], at_most: int) -> list[str]:
    size = max(1, math.ceil(len(atoms) / at_most))
    return ["".join(atoms[i : i + size]) for i in range(0, len(atoms), size)]
