"""Writing messages: blocks, and the page of JSON that they fill from left to right."""

from __future__ import annotations

import msgspec

from perdure.models.chain import Links, extend


class Block(msgspec.Struct, frozen=True):
    """The smallest part of a request that is kept or broken as one.

    `role` is that of the message it stands in, `member` the name of the list there, `data` its
    JSON. A `whole` block is a message by itself. A cache marker may stand in a `markable` one.
    Blocks of another `group` never share a message, whatever their role.
    """

    role: str
    data: bytes
    whole: bool = False
    markable: bool = True
    member: str = "content"
    group: str = ""


class Page:
    """Messages as JSON, separated by commas, and the digest chain over their blocks.

    `links` holds one link for each block, and `link` the newest or, before any block, the one that
    they continue. `end` is where a cache marker goes that stands in the last markable block,
    `anchor` where one goes that stands in the last markable block before the newest answer; 0
    where there is none.
    """

    __slots__ = ("_open", "anchor", "data", "end", "link", "links")

    def __init__(self, link: bytes) -> None:
        self.data = bytearray()
        self.links = Links()
        self.end = 0
        self.anchor = 0
        self.link = link
        self._open: tuple[str, str] | None = None

    def add(self, block: Block) -> None:
        """Write a block into the open message of its role and group, else into a new one."""
        place = (block.role, block.group)
        opens = block.whole or place != self._open
        if opens:
            self.close()
        if self.data:
            self.data += b","
        if opens and not block.whole:
            self.data += b'{"role":"%s","%s":[' % (block.role.encode(), block.member.encode())
            self._open = place
        self.data += block.data
        if block.markable:
            self.end = len(self.data) - 1
        joint = b"|" if opens else b"+"
        self.link = extend(self.link, block.role.encode() + joint + block.data)
        self.links.append(self.link)

    def close(self) -> None:
        """End the message that is open."""
        if self._open is not None:
            self.data += b"]}"
            self._open = None

    def turn(self) -> None:
        """End the message that is open and remember this place: an answer follows."""
        self.close()
        self.anchor = self.end

    def append(self, other: Page) -> None:
        """Write a closed page, which continues this one's chain, behind this closed one."""
        if self.data and other.data:
            self.data += b","
        shift = len(self.data)
        self.data += other.data
        self.links.extend(other.links)
        self.link = other.link
        self.anchor = shift + other.anchor if other.anchor else self.anchor
        self.end = shift + other.end if other.end else self.end
