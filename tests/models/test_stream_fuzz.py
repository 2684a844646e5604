"""Whatever a server sends gives pieces and an answer, or a typed error."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.errors import ProviderError
from perdure.history.content import ToolCall
from perdure.models.sse import EventReader
from perdure.models.types import Answer
from tests.models.streams import (
    DECODERS,
    HELLO,
    MESSAGE_STOP,
    PEER,
    RESPONSE_CREATED,
    added,
    block_delta,
    block_start,
    call_delta,
    candidate,
    delta,
    done,
    ended,
    frames,
    growth,
    message_delta,
    message_start,
)

ALL = pytest.mark.parametrize("protocol", sorted(HELLO))

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=4) | st.floats()
keys = st.text(max_size=4)
junk: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
plausible: list[Any] = [0, "", "a", {}, [], "text", "read", '{"a": 1}']
anything: st.SearchStrategy[Any] = junk | st.sampled_from(plausible)
places: st.SearchStrategy[Any] = st.integers(0, 2) | junk
kinds = st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "novel"])
fragments = st.sampled_from(
    ["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "novel"]
)
items = st.sampled_from(["message", "reasoning", "function_call", "novel"])
growing = st.sampled_from(
    ["output_text", "refusal", "reasoning_summary_text", "function_call_arguments", "novel"]
)


@st.composite
def chat_events(draw: st.DrawFn) -> Any:
    """Return what a chunk may be, more or less."""
    value = draw(anything)
    entry = call_delta(value, draw(anything), draw(anything), draw(anything))
    choices: list[Any] = [
        delta(value, content=draw(anything)),
        delta(reasoning=value, refusal=draw(anything)),
        delta("tool_calls", tool_calls=[entry, value]),
        delta(tool_calls=value),
        {"usage": value, "choices": [delta("stop")]},
        {"choices": [value], "error": draw(anything)},
        "[DONE]",
        value,
    ]
    return draw(st.sampled_from(choices))


@st.composite
def messages_events(draw: st.DrawFn) -> Any:
    """Return what an event may be, more or less."""
    value, place = draw(anything), draw(places)
    members = dict.fromkeys(["text", "thinking", "id", "name", "input", "data"], value)
    grown = dict.fromkeys(["text", "thinking", "signature", "partial_json"], value)
    choices: list[Any] = [
        {**message_start(), "message": value},
        block_start(place, draw(kinds), **members),
        block_start(place, draw(kinds), **members),
        block_delta(place, draw(fragments), **grown),
        block_delta(place, draw(fragments), **grown),
        message_delta(value, output_tokens=draw(anything)),
        MESSAGE_STOP,
        value,
    ]
    return draw(st.sampled_from(choices))


@st.composite
def responses_events(draw: st.DrawFn) -> Any:
    """Return what an event of Responses may be, more or less."""
    value, place, kind = draw(anything), draw(places), draw(items)
    members = dict.fromkeys(["id", "call_id", "name", "arguments", "content", "summary"], value)
    number = {"sequence_number": draw(anything)}
    parts = [{"type": "output_text", "text": value}, {"type": "refusal", "refusal": value}, value]
    choices: list[Any] = [
        added(place, kind),
        added(place, kind, **members),
        growth(place, draw(growing), value, content_index=draw(places)),
        growth(place, draw(growing), "x") | number,
        {"type": f"response.{draw(growing)}.done", "output_index": place, "text": value},
        done(place, kind, **members),
        done(place, kind, content=parts, summary=parts, id="x_1"),
        ended(draw(st.sampled_from(["completed", "incomplete", "failed"])), output=value),
        ended(output=[{"type": kind, **members}, value], usage=value, error=draw(anything)),
        value,
    ]
    return draw(st.sampled_from(choices))


@st.composite
def gemini_events(draw: st.DrawFn) -> Any:
    """Return what a chunk of Gemini's may be, more or less."""
    value, other = draw(anything), draw(anything)
    signed = {"thoughtSignature": draw(anything)}
    called = {"functionCall": {"name": value, "args": other, "id": draw(anything)}}
    choices: list[Any] = [
        candidate({"text": value, "thought": other}),
        candidate({"text": "x", **signed}, value),
        candidate({**called, **signed}, called),
        candidate({"functionCall": value}, finish="STOP"),
        candidate({"text": "x"}, finishReason=value, finishMessage=other),
        {"candidates": value, "usageMetadata": other},
        {"candidates": [value], "promptFeedback": {"blockReason": other}},
        {"error": value},
        value,
    ]
    return draw(st.sampled_from(choices))


EVENTS: dict[str, st.SearchStrategy[Any]] = {
    "openai-chat": chat_events(),
    "anthropic": messages_events(),
    "openai-responses": responses_events(),
    "gemini": gemini_events(),
}
_RICH: dict[str, list[Any]] = {
    "openai-chat": [
        delta(reasoning_content="I look."),
        delta(content="Let "),
        delta(content="me see 🦉"),
        delta(tool_calls=[call_delta(0, "c1", "read", '{"path"')]),
        delta(tool_calls=[call_delta(1, "c2", "list", "{}")]),
        delta(tool_calls=[call_delta(0, arguments=': "a"}')]),
        delta("tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        "[DONE]",
    ],
    "anthropic": [
        message_start(input_tokens=3),
        block_start(0, "thinking", thinking="", signature=""),
        block_delta(0, "thinking_delta", thinking="I look."),
        block_delta(0, "signature_delta", signature="c2ln"),
        {"type": "content_block_stop", "index": 0},
        block_start(1, "text", text=""),
        block_delta(1, "text_delta", text="Let me see 🦉"),
        {"type": "content_block_stop", "index": 1},
        block_start(2, "tool_use", id="c1", name="read", input={}),
        block_delta(2, "input_json_delta", partial_json='{"path"'),
        block_delta(2, "input_json_delta", partial_json=': "a"}'),
        {"type": "content_block_stop", "index": 2},
        {"type": "ping"},
        message_delta("tool_use", output_tokens=2),
        MESSAGE_STOP,
    ],
    "openai-responses": [
        RESPONSE_CREATED,
        added(0, "reasoning", id="rs_1", summary=[]),
        growth(0, "reasoning_summary_text", "I look.", summary_index=0),
        done(0, "reasoning", id="rs_1", summary=[], encrypted_content="c2ln"),
        added(1, "message", id="msg_1", content=[]),
        growth(1, "output_text", "Let me see 🦉", content_index=0),
        done(1, "message", id="msg_1", content=[{"type": "output_text", "text": "Let me see 🦉"}]),
        added(2, "function_call", id="fc_1", call_id="c1", name="read", arguments=""),
        added(3, "function_call", id="fc_2", call_id="c2", name="list", arguments=""),
        growth(2, "function_call_arguments", '{"path"'),
        growth(3, "function_call_arguments", "{}"),
        growth(2, "function_call_arguments", ': "a"}'),
        done(3, "function_call", id="fc_2", call_id="c2", name="list", arguments="{}"),
        done(2, "function_call", id="fc_1", arguments='{"path": "a"}'),
        ended(usage={"input_tokens": 3, "output_tokens": 2}),
    ],
    "gemini": [
        candidate({"text": "I look.", "thought": True}),
        candidate({"text": "Let "}),
        candidate({"text": "me see 🦉"}),
        candidate({"functionCall": {"name": "read", "args": {"path": "a"}, "id": "c1"}}),
        candidate({"functionCall": {"name": "list", "args": {}, "id": "c2"}}),
        candidate({"text": "", "thoughtSignature": "c2ln"}, finish="STOP"),
        {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}},
    ],
}
RICH = {protocol: [frames(each) for each in events] for protocol, events in _RICH.items()}
"""Streams with all that an answer can have, an event each."""


def answer_to(protocol: str, chunks: list[bytes]) -> Answer | str:
    """Decode chunks as the transport does; return the answer or the message of a typed error."""
    reader, decoder = EventReader(PEER), DECODERS[protocol](PEER)
    try:
        for chunk in chunks:
            for event in reader.feed(chunk):
                # Whoever shows or stores a piece must be able to encode it.
                msgspec.json.encode(decoder.feed(event))
        return decoder.finish()
    except ProviderError as error:
        return str(error)


def check(found: Answer | str) -> None:
    if isinstance(found, str):
        assert found.isprintable()
        return
    msgspec.json.encode(found)
    ids = [part.id for part in found.parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == len(ids)
    assert all(ids)


@ALL
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_events_give_an_answer_or_a_typed_error(protocol: str, data: st.DataObject) -> None:
    events: list[Any] = data.draw(st.lists(EVENTS[protocol], max_size=8))
    begun = [message_start()] if protocol == "anthropic" and data.draw(st.booleans()) else []
    check(answer_to(protocol, [frames(*begun, *events)]))


@ALL
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_damage_to_a_good_stream_is_a_typed_error_or_harmless(
    protocol: str, data: st.DataObject
) -> None:
    stream = bytearray(HELLO[protocol])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at : at + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
    check(answer_to(protocol, [bytes(stream)]))


@ALL
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_bytes_give_an_answer_or_a_typed_error(protocol: str, data: st.DataObject) -> None:
    line = st.binary(max_size=30)
    lines = data.draw(st.lists(line | line.map(lambda each: b"data: " + each), max_size=8))
    check(answer_to(protocol, [*lines, b"\n\n", *data.draw(st.lists(line, max_size=3))]))


@ALL
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_events_that_are_lost_or_doubled_or_out_of_order_are_a_typed_error_or_harmless(
    protocol: str, data: st.DataObject
) -> None:
    events = RICH[protocol]
    order = st.lists(st.integers(0, len(events) - 1), max_size=2 * len(events))
    check(answer_to(protocol, [events[at] for at in data.draw(order)]))


@ALL
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_where_chunks_end_makes_no_difference_to_damage_either(
    protocol: str, data: st.DataObject
) -> None:
    stream = bytearray(b"".join(RICH[protocol]))
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=5))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    chunks = [bytes(stream[begin:end]) for begin, end in pairwise([0, *cuts, len(stream)])]
    found = answer_to(protocol, chunks)
    check(found)
    assert found == answer_to(protocol, [bytes(stream)])


@ALL
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_document_in_place_of_a_stream_gives_an_answer_or_a_typed_error(
    protocol: str, data: st.DataObject
) -> None:
    value = data.draw(anything)
    block = dict.fromkeys(["type", "text", "id", "name", "input", "thinking"], value)
    message = {"role": value, "content": data.draw(anything), "tool_calls": [value, block]}
    body = data.draw(
        st.sampled_from(
            [
                {"content": [block, {**block, "type": data.draw(kinds)}], "stop_reason": value},
                {"choices": [{"message": message, "finish_reason": value}], "usage": value},
                {"choices": value, "content": value, "output": value, "usage": value},
                {"output": [{**block, "type": data.draw(items)}, value], "status": value},
            ]
        )
    )
    decoder = DECODERS[protocol](PEER)
    try:
        msgspec.json.encode(decoder.feed_whole(body))
        check(decoder.finish())
    except ProviderError as error:
        check(str(error))


@ALL
@settings(deadline=None)
@given(data=st.data())
def test_where_chunks_end_makes_no_difference(protocol: str, data: st.DataObject) -> None:
    stream = HELLO[protocol]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[begin:end] for begin, end in pairwise(edges)]
    assert answer_to(protocol, chunks) == answer_to(protocol, [stream])


@ALL
def test_a_good_stream_that_is_cut_anywhere_is_an_answer_or_cut(protocol: str) -> None:
    stream = HELLO[protocol]
    for length in range(len(stream)):
        found = answer_to(protocol, [stream[:length]])
        assert not isinstance(found, str) or "cut before the answer was whole" in found


@ALL
def test_a_whole_stream_with_everything_is_an_answer(protocol: str) -> None:
    answer = answer_to(protocol, RICH[protocol])
    assert isinstance(answer, Answer)
    assert [type(part).__name__ for part in answer.parts][:3] == ["Reasoning", "Text", "ToolCall"]
