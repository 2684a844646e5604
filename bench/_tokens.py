"""A provider that streams as many tokens as it is asked for; run it in a process of its own.

It prints its port and serves until its standard input closes. A request to `/N/PAUSE/...` gets N
tokens in the protocol of its path: each in a write of its own with PAUSE seconds behind it, or all
of them as fast as they are read where PAUSE is 0.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from _serving import read_request, serve

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
)
Event = dict[str, Any]


def token(number: int) -> str:
    """Return one token of an answer."""
    return f" word{number % 100}"


def chat(count: int) -> Iterator[Event]:
    """Yield an answer of Chat Completions."""
    frame = {
        "id": "chatcmpl-9f8e7d6c5b4a39281706",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": "model-1",
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
    }
    for number in range(count):
        delta = {"index": 0, "delta": {"content": token(number)}, "logprobs": None}
        yield frame | {"choices": [delta | {"finish_reason": None}]}
    yield frame | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def responses(count: int) -> Iterator[Event]:
    """Yield an answer of Responses."""
    response: Event = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    item: Event = {
        "id": "msg_0123456789abcdef",
        "type": "message",
        "role": "assistant",
        "content": [],
    }
    yield {"type": "response.created", "sequence_number": 0, "response": response}
    at: Event = {"output_index": 0}
    yield {"type": "response.output_item.added", "sequence_number": 1, **at, "item": item}
    at |= {"item_id": "msg_0123456789abcdef", "content_index": 0, "logprobs": []}
    for number in range(count):
        event = {"type": "response.output_text.delta", "sequence_number": number + 2, **at}
        yield event | {"delta": token(number), "obfuscation": "a1b2c3d4e5"}
    response |= {"status": "completed"}
    yield {"type": "response.completed", "sequence_number": count + 2, "response": response}


def messages(count: int) -> Iterator[Event]:
    """Yield an answer of Anthropic Messages."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "usage": {"input_tokens": 9}}
    yield {"type": "message_start", "message": message}
    block = {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for number in range(count):
        delta = {"type": "text_delta", "text": token(number)}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
    yield {"type": "message_stop"}


def gemini(count: int) -> Iterator[Event]:
    """Yield an answer of Gemini."""
    more = {
        "usageMetadata": {"promptTokenCount": 1000, "totalTokenCount": 1000},
        "modelVersion": "model-1",
        "responseId": "0123456789abcdef",
    }
    for number in range(count):
        content = {"role": "model", "parts": [{"text": token(number)}]}
        yield {"candidates": [{"content": content, "index": 0}], **more}
    yield {"candidates": [{"finishReason": "STOP", "index": 0}], **more}


ANSWERS: dict[str, Callable[[int], Iterator[Event]]] = {
    "/chat/completions": chat,
    "/responses": responses,
    "/messages": messages,
    ":streamGenerateContent": gemini,
}


def frames(path: str, count: int) -> list[bytes]:
    """Return the answer as events of a stream."""
    answer = next(made for end, made in ANSWERS.items() if path.partition("?")[0].endswith(end))
    return [*map(frame, answer(count)), *([b"data: [DONE]\n\n"] if answer is chat else [])]


def frame(event: Event) -> bytes:
    """Return an event as bytes, named where the protocol names its events."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head, _ = await read_request(reader)
    path = head.split(b" ", 2)[1].decode()
    count, pause = path.split("/")[1:3]
    answer = [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames(path, int(count))]
    writer.write(HEAD)
    for write in answer if float(pause) else [b"".join(answer)]:
        writer.write(write)
        time.sleep(float(pause))  # noqa: ASYNC251 - an event loop cannot wait for so short a time
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve(_answer))
