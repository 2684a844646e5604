"""The digest chain: a short proof that one request begins with the whole of another.

Each link digests the link before it and one block, so two chains that agree at a length agree in
everything up to there. The first four bytes of every link are those of the head, the part of a
request that stands before its first block: where only they differ, the head has changed.
"""

from __future__ import annotations

from hashlib import blake2b

_SIZE = 16
_HEAD = 4


class Links:
    """The links of a chain, each after the other: a long session has thousands of them."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes) // _SIZE

    def __getitem__(self, at: int) -> bytes:
        """Return one link, counted from 0; IndexError where there is none."""
        if not 0 <= at < len(self):
            raise IndexError(at)
        return bytes(self._bytes[at * _SIZE : (at + 1) * _SIZE])

    def append(self, link: bytes) -> None:
        """Add one link."""
        self._bytes += link

    def extend(self, links: Links) -> None:
        """Add the links that follow these."""
        self._bytes += links._bytes


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
