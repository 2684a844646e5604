"""What a provider would bill for the demo's requests, and for the same conversation without.

The unit is the price of one fresh input token. A token is estimated as four bytes. By the rules of
Anthropic's prompt cache, input that is read from the cache counts 0.1, input that is written to it
1.25, and any other input 1. Nothing expires, and no prefix is too short to be cached. What the
model says is the same either way and left out.

*With* Perdure is what the scripted provider counted: it keeps a prompt cache as the real one does,
and its count came back with each answer.

*Without* stands for a program that keeps its facts in the system prompt and rebuilds that when a
fact changes. It sends the same conversation, but for the System Messages: in their place the system
prompt says what holds at that moment, rendered by the same Context Sources. It marks the same
places for the cache, so as long as nothing changes it pays what Perdure pays. When something does,
the tools are still read from the cache, since they stand before the system prompt; the system
prompt and the whole history behind it are not, and are written again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.history.content import Usage
from perdure.testing import Block, ReceivedRequest, blocks
from perdure.testing.cache import Account, PromptCache

READ = 0.1
WRITE = 1.25


def billed(usage: Usage) -> float:
    """Return the price of a request, from the usage that came with its answer."""
    return _price(Account(usage.input, usage.cache_read, usage.cache_write))


class Rebuilding:
    """Bills a conversation whose system prompt is rebuilt at each change."""

    def __init__(self) -> None:
        self._cache = PromptCache()

    def bill(self, request: ReceivedRequest, system: str) -> float:
        """Return the price of the next request, had `system` been its system prompt."""
        sent = [_rebuilt(block, system) for block in _without_messages(request)]
        return _price(self._cache.account(sent, _marks(sent)))


def _price(account: Account) -> float:
    fresh = account.total - account.read - account.write
    return account.read * READ + account.write * WRITE + fresh


def _without_messages(request: ReceivedRequest) -> list[Block]:
    """Return the blocks of a request but for its System Messages."""
    return [b for b in blocks(request) if (b.part, b.role) != ("messages", "system")]


def _rebuilt(block: Block, system: str) -> Block:
    if block.part != "system":
        return block
    return replace(block, content={**block.content, "text": system})


def _marks(sent: Sequence[Block]) -> list[int]:
    """Return the places that Perdure marks: the last tool, the system prompt, the last block."""
    last = {block.part: at for at, block in enumerate(sent)}
    return sorted(last[part] for part in ("tools", "system", "messages") if part in last)
