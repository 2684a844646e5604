"""What a call's result says, in words and pictures for the model."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator, Sequence

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

from perdure.errors import ImageRefused
from perdure.history.content import Image
from perdure.images import LARGEST_SUM, MOST, make_image
from perdure.tools.base import ToolOutput


def output(result: CallToolResult) -> ToolOutput:
    """Return the words of a result, and the images in it that a model takes."""
    pictures = _pictures(result.content)
    images = tuple(each for each in pictures.values() if isinstance(each, Image))
    return ToolOutput(_text(result, pictures), images=images)


def words(result: CallToolResult) -> str:
    """Return the words of a result alone; what is no text is named."""
    return _text(result, {})


Pictures = dict[int, Image | str]
"""What became of the images of a result, by their place: an image, or why it is none."""


def _pictures(content: Iterable[ContentBlock]) -> Pictures:
    found: Pictures = {}
    for at, block in enumerate(content):
        if isinstance(block, ImageContent):
            picture = _picture(block, f"image {len(found) + 1}")
            taken = [each for each in found.values() if isinstance(each, Image)]
            found[at] = _fitting(picture, taken) if isinstance(picture, Image) else picture
    return found


def _fitting(image: Image, taken: Sequence[Image]) -> Image | str:
    if len(taken) == MOST:
        return f"{MOST} images are the most at a time"
    if sum(len(each.data) for each in (*taken, image)) > LARGEST_SUM:
        return "the images before it are large"
    return image


def _picture(block: ImageContent, name: str) -> Image | str:
    try:
        return make_image(binascii.a2b_base64(block.data, strict_mode=True), name)
    except ImageRefused as error:
        return str(error)
    except ValueError:
        return "its data are no base64"


def _text(result: CallToolResult, pictures: Pictures) -> str:
    """Return the texts of a result, one below the other; what is no text is named.

    Structured content counts where there is no other, since it repeats what the texts say.
    """
    if not result.content and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(_each(result.content, pictures))


def _each(content: Iterable[ContentBlock], pictures: Pictures) -> Iterator[str]:
    for at, block in enumerate(content):
        match block:
            case TextContent(text=text):
                yield text
            case ImageContent():
                yield _named(block, pictures.get(at, ""))
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


def _named(block: ImageContent, picture: Image | str) -> str:
    if isinstance(picture, Image):
        return f"[{picture.described}]"
    why = f": {picture}" if picture else ""
    return f"[an image ({block.mime_type}, {_size(block.data)}), which is not shown{why}]"


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4:,} bytes"
