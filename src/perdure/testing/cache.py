"""Count tokens and what a prompt cache would hold of a request.

Tokens are an estimate that is the same everywhere: a quarter of the bytes. There is no smallest
size for a cached prefix and nothing expires, so that small tests see the cache work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec

from perdure.testing.prefix import Block

LOOK_BACK = 20
"""How many blocks before a marker are tried for an older entry."""


def estimate(text: str | bytes) -> int:
    """Return the tokens of some text: a quarter of its bytes, rounded up."""
    data = text.encode() if isinstance(text, str) else text
    return -(-len(data) // 4)


class Account(msgspec.Struct, frozen=True):
    """Tokens of a request: all of it, what was cached before, what is cached now."""

    total: int
    read: int
    write: int


class PromptCache:
    """Remember the prefixes that were marked, as a provider does."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def account(self, blocks: Sequence[Block], marks: Sequence[int]) -> Account:
        """Count a request whose blocks at `marks` end a prefix to keep, and remember those."""
        encoded = [block.canonical() for block in blocks]
        sizes = accumulate(
            0 if b.part == "parameters" else len(e) for b, e in zip(blocks, encoded, strict=True)
        )
        tokens = [-(-size // 4) for size in sizes]
        chain = list(_digests(encoded))
        read = max((tokens[at] for at in _tried(marks) if chain[at] in self._seen), default=0)
        self._seen.update(chain[mark] for mark in marks)
        kept = tokens[max(marks)] if marks else 0
        return Account(tokens[-1], read, max(0, kept - read))


def tokens_of(blocks: Sequence[Block]) -> int:
    """Return the tokens of a request with these blocks."""
    return PromptCache().account(blocks, []).total


def _tried(marks: Sequence[int]) -> set[int]:
    return {at for mark in marks for at in range(max(0, mark - LOOK_BACK + 1), mark + 1)}


def _digests(encoded: Sequence[bytes]) -> Iterator[bytes]:
    """Yield, after each block, a digest of all blocks so far."""
    chain = hashlib.sha256()
    for block in encoded:
        chain.update(b"%d:" % len(block) + block)
        yield chain.digest()
