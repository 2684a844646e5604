"""What comes from a server, on its way to the SDK.

The SDK takes a list whole or not at all. One wrong tool would hide the others, so the tools are
taken out here, as they came, and an empty list goes on. One part of a result that the SDK does not
know would cost the others, so words stand in its place.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.client._transport import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types import ContentBlock, JSONRPCResponse
from pydantic import TypeAdapter, ValidationError

from perdure.tools.printable import printable, shortened

Incoming = SessionMessage | Exception

_PART: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)


class Sieve:
    """A stream of messages that keeps the tools which are listed in them; `ended` at its end."""

    def __init__(self, inner: ReadStream[Incoming], ended: anyio.Event) -> None:
        self._inner = inner
        self._ended = ended
        self._tools: list[Any] = []

    def take(self) -> list[Any]:
        """Return the tools listed since the last call, as they came."""
        tools, self._tools = self._tools, []
        return tools

    async def receive(self) -> Incoming:
        try:
            return self._sifted(await self._inner.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended.set()
            raise

    async def aclose(self) -> None:
        self._ended.set()
        await self._inner.aclose()

    def __aiter__(self) -> ReadStream[Incoming]:
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _sifted(self, item: Incoming) -> Incoming:
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            if isinstance(tools := result.get("tools"), list):
                self._tools += cast("list[Any]", tools)
                result["tools"] = []
            if isinstance(parts := result.get("content"), list):
                result["content"] = [_known(part) for part in cast("list[Any]", parts)]
        return item


def _known(part: Any) -> Any:
    try:
        _PART.validate_python(part, by_name=False)
    except ValidationError:
        kind = cast("dict[str, Any]", part).get("type") if isinstance(part, dict) else None
        named = f"of type {shortened(printable(str(kind)), 80)}" if kind else "of no type"
        return {"type": "text", "text": f"[a part {named}, which is wrong or not known]"}
    return part
