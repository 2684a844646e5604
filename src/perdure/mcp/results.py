"""What a call's result says, in words for the model."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)


def words(result: CallToolResult) -> str:
    """Return the texts of a result, one below the other; what is no text is named.

    Structured content counts where there is no other, since it repeats what the texts say.
    """
    if not result.content and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(_each(result.content))


def _each(content: Iterable[ContentBlock]) -> Iterable[str]:
    for block in content:
        match block:
            case TextContent(text=text):
                yield text
            case ImageContent(data=data, mime_type=kind):
                yield f"[an image ({kind}, {_size(data)}), which is not shown]"
            case AudioContent(data=data, mime_type=kind):
                yield f"[a sound ({kind}, {_size(data)}), which is not played]"
            case ResourceLink(uri=uri, name=name):
                yield f"[a link to the resource {name}: {uri}]"
            case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
                yield f"[the resource {uri}:]\n{text}"
            case EmbeddedResource(resource=BlobResourceContents(uri=uri, blob=blob)):
                yield f"[the resource {uri} ({_size(blob)}), which is no text]"
            case _:  # a kind that the SDK learns later
                yield f"[a part of type {block.type}, which is not shown]"


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4:,} bytes"
