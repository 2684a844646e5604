"""JSON that a provider nests without end: a typed error, and never more than can be stored."""

from __future__ import annotations

import pytest

from perdure.errors import BrokenStream, ProviderOverloaded
from perdure.history.content import Reasoning
from perdure.history.events import AssistantMessage, decode, encode
from perdure.models.anthropic_stream import MessagesDecoder
from perdure.models.encoding import DEPTH, parse
from perdure.models.failures import Peer, failure, response_report
from perdure.models.openai_stream import ChatDecoder
from perdure.models.sse import ServerEvent
from perdure.models.types import Answer

PEER = Peer("acme", "m", "http://127.0.0.1")


def nested(depth: int, opening: str = "[", closing: str = "]", core: str = "") -> str:
    return opening * depth + core + closing * depth


def nested_objects(depth: int) -> str:
    return nested(depth, '{"a":', "}", "1")


def call_with(arguments: str) -> ServerEvent:
    return ServerEvent(
        "",
        '{"choices":[{"finish_reason":"stop","delta":{"tool_calls":[{"id":"c",'
        f'"function":{{"name":"f","arguments":{arguments}}}}}]}}}}]}}',
    )


def sealed_with(value: str) -> Answer:
    decoder = MessagesDecoder(PEER)
    block = f'{{"type":"redacted_thinking","data":{value}}}'
    for data in (
        '{"type":"message_start","message":{}}',
        f'{{"type":"content_block_start","index":0,"content_block":{block}}}',
        '{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"hi"}}',
        '{"type":"message_stop"}',
    ):
        decoder.feed(ServerEvent("", data))
    return decoder.finish()


@pytest.mark.parametrize("depth", [DEPTH, 500, 700, 940, 5000, 100_000])
def test_arguments_nested_too_deeply_break_the_stream(depth: int) -> None:
    for arguments in (nested(depth), nested_objects(depth)):
        with pytest.raises(BrokenStream, match="not a JSON object"):
            ChatDecoder(PEER).feed(call_with(arguments))


@pytest.mark.parametrize("depth", [DEPTH, 500, 700, 940, 5000, 100_000])
def test_sealed_thinking_nested_too_deeply_breaks_the_stream(depth: int) -> None:
    for value in (nested(depth), nested_objects(depth)):
        with pytest.raises(BrokenStream, match="not a JSON object"):
            sealed_with(value)


@pytest.mark.parametrize("depth", [480, 940, 100_000])
def test_an_error_nested_too_deeply_is_typed_by_its_status(depth: int) -> None:
    body = f'{{"error":{nested(depth)}}}'.encode()
    assert isinstance(failure(PEER, response_report(500, body, None)), ProviderOverloaded)


def test_what_is_nested_as_deeply_as_is_allowed_can_be_stored() -> None:
    answer = sealed_with(nested(DEPTH - 10))
    message = AssistantMessage(1, answer.parts, answer.stop)
    assert decode(message.type, encode(message)) == message
    assert isinstance(answer.parts[0], Reasoning)


def test_the_depth_that_is_allowed_is_exact() -> None:
    assert parse(nested(DEPTH)) is not None
    assert parse(nested(DEPTH + 1)) is None
    assert parse(nested_objects(DEPTH - 1)) is not None
    assert parse(nested_objects(DEPTH)) is None


def test_width_is_no_depth() -> None:
    assert len(parse("[" + ",".join(["[]"] * 5000) + "]")) == 5000
