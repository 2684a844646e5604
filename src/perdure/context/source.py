"""One independently observed typed value of the System Context."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from perdure.context.codec import Codec, codec_for
from perdure.context.keys import check_key
from perdure.context.sentinels import UNAVAILABLE, Absent, Unavailable
from perdure.context.threads import Call
from perdure.errors import ContextError

T = TypeVar("T")

Loader = Callable[[], Awaitable[T | Unavailable | Absent]] | Callable[[], T | Unavailable | Absent]
"""Observe one coherent value, now; sync or async."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Source(Generic[T]):
    """Declare a Context Source.

    `key` is `namespace/name` and stays the same for ever. `type` is a type that msgspec or pydantic
    can encode, or a pydantic TypeAdapter.

    `load` returns one coherent value of that type, `UNAVAILABLE` (it cannot be observed now) or
    `ABSENT` (there is none). It has `timeout` seconds; one that raises or is late counts as
    Unavailable. A sync loader runs in a thread, unless `inline` promises that it never blocks: then
    it is called in the event loop, which saves the thread. An async one must heed cancellation.

    `baseline(value)` states the value to a model that knows nothing of it; `update(previous,
    current)` states the newly effective one; `removed(value)` is what will be said when the source
    is gone. They are pure, get values that went through the codec, and return text; newlines around
    the text are cut off. One that raises or renders nothing makes the source Unavailable for that
    operation. Without `removed`, the removal of a told source starts a new Baseline.

    Raises InvalidKey for the key and ContextError for a type that cannot be encoded or a timeout
    that is not a positive number.
    """

    key: str
    type: Any
    load: Loader[T]
    baseline: Callable[[T], str]
    update: Callable[[T, T], str]
    removed: Callable[[T], str] | None = None
    timeout: float = 5.0
    inline: bool = False
    # Not for the declaring code: what the algebra keeps of the source.
    codec: Codec = field(init=False)
    given_up: list[Call] = field(init=False, default_factory=list[Call])

    def __post_init__(self) -> None:
        check_key(self.key)
        if not self.timeout > 0:
            raise ContextError(f"context source {self.key}: the timeout must be above 0 seconds")
        if self.inline and self.is_async:
            raise ContextError(f"context source {self.key}: only a sync loader can be inline")
        try:
            object.__setattr__(self, "codec", codec_for(self.type))
        except ContextError as error:
            raise ContextError(f"context source {self.key}: {error}") from error

    @classmethod
    def unavailable(cls, key: str) -> Source[Any]:
        """Return a source that can never be observed, in place of one whose provider is lost.

        What the model was told under that key stands, and nothing is said.
        """
        return Source[Any](
            key=key,
            type=Any,
            load=lambda: UNAVAILABLE,
            baseline=str,
            update=lambda _, current: str(current),
            inline=True,
        )

    @property
    def is_async(self) -> bool:
        """Whether calling the loader returns an awaitable, as far as its definition says."""
        return any(map(inspect.iscoroutinefunction, (self.load, type(self.load).__call__)))

    def __repr__(self) -> str:
        return f"Source({self.key!r})"
