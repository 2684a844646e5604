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
    CHAT_HELLO,
    DECODERS,
    MESSAGE_STOP,
    MESSAGES_HELLO,
    PEER,
    block_delta,
    block_start,
    call_delta,
    delta,
    frames,
    message_delta,
    message_start,
)

BOTH = pytest.mark.parametrize("protocol", ["anthropic", "openai-chat"])

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


EVENTS: dict[str, st.SearchStrategy[Any]] = {
    "openai-chat": chat_events(),
    "anthropic": messages_events(),
}
HELLO = {"openai-chat": CHAT_HELLO, "anthropic": MESSAGES_HELLO}


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


@BOTH
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_events_give_an_answer_or_a_typed_error(protocol: str, data: st.DataObject) -> None:
    events: list[Any] = data.draw(st.lists(EVENTS[protocol], max_size=8))
    begun = [message_start()] if protocol == "anthropic" and data.draw(st.booleans()) else []
    check(answer_to(protocol, [frames(*begun, *events)]))


@BOTH
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


@BOTH
@settings(deadline=None)
@given(data=st.data())
def test_where_chunks_end_makes_no_difference(protocol: str, data: st.DataObject) -> None:
    stream = HELLO[protocol]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[begin:end] for begin, end in pairwise(edges)]
    assert answer_to(protocol, chunks) == answer_to(protocol, [stream])


@BOTH
def test_a_good_stream_that_is_cut_anywhere_is_an_answer_or_cut(protocol: str) -> None:
    stream = HELLO[protocol]
    for length in range(len(stream)):
        found = answer_to(protocol, [stream[:length]])
        assert not isinstance(found, str) or "cut before the answer was whole" in found
