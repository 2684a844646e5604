"""The digest chain: a short proof that one request begins with the whole of another.

Each link digests the link before it and one block, so two chains that agree at a length agree in
everything up to there. The first four bytes of every link are those of the head, the part of a
request that stands before its first block: where only they differ, the head has changed.
"""

from __future__ import annotations

from hashlib import blake2b

_SIZE = 16
_HEAD = 4


def start(head: bytes) -> bytes:
    """Return the link of a request without blocks; `head` is all that its cache is keyed by."""
    return blake2b(head, digest_size=_SIZE).digest()


def extend(link: bytes, block: bytes) -> bytes:
    """Return the link after one more block."""
    rest = blake2b(link + block, digest_size=_SIZE - _HEAD).digest()
    return link[:_HEAD] + rest


def same_head(one: str, other: str) -> bool:
    """Tell whether two links, in hexadecimal, began with the same head."""
    return one[: 2 * _HEAD] == other[: 2 * _HEAD]
