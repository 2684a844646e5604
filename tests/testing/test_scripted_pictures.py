"""What the scripted provider takes and refuses of pictures, protocol by protocol."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import httpx2
import pytest

from perdure.testing import ScriptedProvider, say
from tests.testing import anthropic_wire, chat_wire, gemini_wire, responses_wire

pytestmark = pytest.mark.anyio


def png(width: int = 3, height: int = 2) -> bytes:
    """Return the beginning of a PNG, as much of it as the provider reads."""
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size


def text_of(data: bytes) -> str:
    return b64encode(data).decode()


SMALL = text_of(png())
URL = f"data:image/png;base64,{SMALL}"


def claude(data: str = SMALL, kind: str = "image/png") -> dict[str, Any]:
    source = {"type": "base64", "media_type": kind, "data": data}
    return {"type": "image", "source": source}


def chat(url: Any = URL) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def responses(url: Any = URL, **more: Any) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": url, **more}


def gemini(data: str = SMALL, kind: str = "image/png") -> dict[str, Any]:
    return {"inlineData": {"mimeType": kind, "data": data}}


def claude_result(*content: Any, **members: Any) -> list[Any]:
    result = {**anthropic_wire.RESULT, "content": list(content), **members}
    return [
        anthropic_wire.user("Go"),
        anthropic_wire.assistant(anthropic_wire.use()),
        anthropic_wire.user(result),
    ]


WORDS = {"type": "text", "text": "Look."}
READ = {"type": "input_text", "text": "Look."}

ACCEPTED: dict[str, tuple[Any, Any]] = {
    "Anthropic, from the user": (
        anthropic_wire,
        anthropic_wire.request(anthropic_wire.user(claude(), "What is it?")),
    ),
    "Anthropic, in a result": (
        anthropic_wire,
        anthropic_wire.request(*claude_result(WORDS, claude())),
    ),
    "Anthropic, with a cache marker": (
        anthropic_wire,
        anthropic_wire.request(anthropic_wire.user(anthropic_wire.cached(claude()))),
    ),
    "Anthropic, twenty large ones": (
        anthropic_wire,
        anthropic_wire.request(anthropic_wire.user(*[claude(text_of(png(3000)))] * 20)),
    ),
    "Anthropic, many small ones": (
        anthropic_wire,
        anthropic_wire.request(anthropic_wire.user(*[claude()] * 21)),
    ),
    "Chat Completions": (chat_wire, chat_wire.request(chat_wire.user([chat(), WORDS]))),
    "Responses, from the user": (
        responses_wire,
        responses_wire.request(responses_wire.user([responses(), READ])),
    ),
    "Responses, in an output": (
        responses_wire,
        responses_wire.request(
            responses_wire.asks(), responses_wire.output(output=[READ, responses()])
        ),
    ),
    "Gemini": (gemini_wire, gemini_wire.request(gemini_wire.user(gemini(), "What is it?"))),
    "Gemini, behind the results": (
        gemini_wire,
        gemini_wire.request(
            gemini_wire.user("Go"),
            gemini_wire.model(gemini_wire.asks()),
            gemini_wire.user(gemini_wire.responds()),
            gemini_wire.user(gemini()),
        ),
    ),
}

REFUSED: dict[str, tuple[Any, Any, str]] = {
    "Anthropic: no base64": (
        anthropic_wire,
        anthropic_wire.request(anthropic_wire.user(claude("a picture"))),
        "messages.0.content.0.image.source.base64.data: Invalid base64 data",
    ),
    "Anthropic: another type than it says": (
        anthropic_wire,
        anthropic_wire.request(anthropic_wire.user(claude(kind="image/gif"))),
        "does not match the provided media type image/gif",
    ),
    "Anthropic: a type that it does not know": (
        anthropic_wire,
        anthropic_wire.request(anthropic_wire.user(claude(kind="image/bmp"))),
        "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'",
    ),
    "Anthropic: no picture": (
        anthropic_wire,
        anthropic_wire.request(anthropic_wire.user(claude(text_of(b"text")))),
        "Could not process image",
    ),
    "Anthropic: of the assistant": (
        anthropic_wire,
        anthropic_wire.request(
            anthropic_wire.user("Hi"), anthropic_wire.assistant(claude()), anthropic_wire.user("x")
        ),
        "Input tag 'image' does not match any of the expected tags",
    ),
    "Anthropic: in a system entry": (
        anthropic_wire,
        anthropic_wire.request(
            anthropic_wire.user("Hi"),
            anthropic_wire.system([claude()]),
            model="claude-opus-5-5",
        ),
        "role 'system' supports text",
    ),
    "Anthropic: in a failed result": (
        anthropic_wire,
        anthropic_wire.request(*claude_result(WORDS, claude(), is_error=True)),
        "all content must be type `text` if `is_error` is true",
    ),
    "Anthropic: too many bytes": (
        anthropic_wire,
        anthropic_wire.request(
            anthropic_wire.user(claude(text_of(png() + bytes(4 * 1024 * 1024))))
        ),
        "image exceeds 5 MB maximum",
    ),
    "Anthropic: too many pixels": (
        anthropic_wire,
        anthropic_wire.request(anthropic_wire.user(claude(text_of(png(8001))))),
        "exceed max allowed size: 8000 pixels",
    ),
    "Anthropic: a large one among many": (
        anthropic_wire,
        anthropic_wire.request(
            anthropic_wire.user(claude(text_of(png(2001))), *[claude()] * 19),
            anthropic_wire.assistant("Nice."),
            anthropic_wire.user(claude()),
        ),
        "exceed max allowed size for many-image requests: 2000 pixels",
    ),
    "Chat Completions: no base64": (
        chat_wire,
        chat_wire.request(chat_wire.user([chat("data:image/png;base64,a picture")])),
        "Expected a base64-encoded data URL",
    ),
    "Chat Completions: no picture": (
        chat_wire,
        chat_wire.request(chat_wire.user([chat(f"data:image/png;base64,{text_of(b'text')}")])),
        "unsupported image",
    ),
    "Chat Completions: a bare address": (
        chat_wire,
        chat_wire.request(chat_wire.user([{"type": "image_url", "image_url": "data:"}])),
        "Invalid type for 'messages[0].content[0].image_url': expected an object",
    ),
    "Chat Completions: in a tool message": (
        chat_wire,
        chat_wire.request(
            chat_wire.user("Go"),
            chat_wire.asks("call_1"),
            {**chat_wire.result("call_1"), "content": [WORDS, chat()]},
        ),
        "Invalid value: 'image_url'. Supported values are: 'text'.",
    ),
    "Chat Completions: a model of text": (
        chat_wire,
        chat_wire.request(chat_wire.user([chat(), WORDS]), model="o3-mini"),
        "image_url is only supported by certain models",
    ),
    "Responses: no base64": (
        responses_wire,
        responses_wire.request(responses_wire.user([responses("data:image/png;base64,?")])),
        "Invalid 'input[0].content[0].image_url'. Expected a base64-encoded data URL",
    ),
    "Responses: an unknown detail": (
        responses_wire,
        responses_wire.request(responses_wire.user([responses(detail="fine")])),
        "Invalid value: 'fine'. Supported values are: 'low', 'high', 'auto', and 'original'.",
    ),
    "Responses: of the assistant": (
        responses_wire,
        responses_wire.request(
            responses_wire.user("Hi"),
            responses_wire.assistant([responses()]),
            responses_wire.user("x"),
        ),
        "Invalid value: 'input_image'. Supported values are: 'output_text', and 'refusal'.",
    ),
    "Responses: a part of Chat Completions": (
        responses_wire,
        responses_wire.request(responses_wire.asks(), responses_wire.output(output=[chat()])),
        "Invalid value: 'image_url'.",
    ),
    "Gemini: no base64": (
        gemini_wire,
        gemini_wire.request(gemini_wire.user(gemini("a picture"))),
        "Base64 decoding failed",
    ),
    "Gemini: a GIF": (
        gemini_wire,
        gemini_wire.request(gemini_wire.user(gemini(text_of(b"GIF89a"), "image/gif"))),
        "Unsupported MIME type: image/gif",
    ),
    "Gemini: no picture": (
        gemini_wire,
        gemini_wire.request(gemini_wire.user(gemini(text_of(b"text")))),
        "Unable to process input image",
    ),
    "Gemini: of the model": (
        gemini_wire,
        gemini_wire.request(
            gemini_wire.user("Hi"), gemini_wire.model(gemini()), gemini_wire.user("x")
        ),
        "images are in a turn of the user role",
    ),
    "Gemini: among the results": (
        gemini_wire,
        gemini_wire.request(
            gemini_wire.user("Go"),
            gemini_wire.model(gemini_wire.asks()),
            gemini_wire.user(gemini_wire.responds(), gemini()),
        ),
        "the number of function response parts is equal",
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
async def test_a_picture_in_its_place_is_taken(client: httpx2.AsyncClient, case: str) -> None:
    wire, body = ACCEPTED[case]
    async with ScriptedProvider([say("A cat.")]) as provider:
        response = await wire.post(client, provider, body)
        assert (response.status_code, provider.refused) == (200, [])


@pytest.mark.parametrize("case", REFUSED)
async def test_a_picture_that_no_provider_takes_is_refused(
    client: httpx2.AsyncClient, case: str
) -> None:
    wire, body, words = REFUSED[case]
    async with ScriptedProvider([say("Never said.")]) as provider:
        response = await wire.post(client, provider, body)
        assert response.status_code == 400, response.text
        assert words in response.json()["error"]["message"]
        assert provider.remaining == 1
