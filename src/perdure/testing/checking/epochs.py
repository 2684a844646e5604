"""Context Epochs: one before the first step, numbered, and each request what its epoch began."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from perdure.history import events as ev


@dataclass(frozen=True)
class _Point:
    """What holds behind one event: the epoch in force, 0 for none, and whether it had a step."""

    seq: int = 0
    epoch: int = 0
    stepped: bool = False


@dataclass
class _Epochs:
    model: str = ""
    now: _Point = _Point()
    passed: list[_Point] = field(default_factory=list[_Point])

    def follow(self, record: ev.Record) -> Iterator[str]:
        """Take in one event, and say what is wrong with it."""
        match record.data:
            case ev.SessionCreated(model=model) | ev.ModelSwitched(model=model):
                self.model = model
            case ev.EpochStarted() as event:
                if event.epoch != self.now.epoch + 1:
                    yield f"epoch {event.epoch} starts after epoch {self.now.epoch}"
                if event.model != self.model:
                    yield f"epoch {event.epoch} is for {event.model} and {self.model} was chosen"
                self._pass(_Point(record.seq, event.epoch))
            case ev.SystemMessage() if not self.now.epoch:
                yield "a System Message is told before there is an epoch"
            case ev.StepStarted() as event:
                yield from self._step(event)
                self._pass(replace(self.now, seq=record.seq, stepped=True))
            case ev.SessionReverted(to=to):
                points = [point for point in self.passed if point.seq <= to]
                self._pass(replace(points[-1] if points else _Point(), seq=record.seq))
            case _:
                pass

    def _pass(self, point: _Point) -> None:
        self.now = point
        self.passed = [each for each in self.passed if each.seq < point.seq] + [point]

    def _step(self, event: ev.StepStarted) -> Iterator[str]:
        number = event.step
        if not self.now.epoch:
            yield f"step {number} starts before there is an epoch"
        elif event.epoch != self.now.epoch:
            yield f"step {number} is of epoch {event.epoch} while {self.now.epoch} is in force"
        if event.model != self.model:
            yield f"step {number} asks {event.model} and {self.model} was chosen"
        if (event.prefix is None) == self.now.stepped:
            first = "is not" if self.now.stepped else "is"
            yield f"step {number} {first} the first of its epoch, and its prefix is {event.prefix}"
        if event.prefix is False and not event.cause:
            yield f"step {number} breaks the prefix of its epoch without a cause"


def epochs(records: Sequence[ev.Record]) -> Iterator[tuple[int, str]]:
    """Yield steps outside of their epoch, and requests that are not the last one plus something."""
    walk = _Epochs()
    for record in records:
        yield from ((record.seq, words) for words in walk.follow(record))
