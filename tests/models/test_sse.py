"""Server-sent events out of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import BrokenStream
from perdure.models.sse import EventReader, ServerEvent
from tests.models.streams import PEER, read


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_end_in_any_of_three_ways(end: str) -> None:
    data = f"event: ping{end}data: a{end}{end}data: b{end}{end}"
    assert read(data.encode()) == [ServerEvent("ping", "a"), ServerEvent("", "b")]


def test_several_data_lines_are_one_text() -> None:
    assert read(b"data: a\ndata:b\ndata\ndata:  c\n\n") == [ServerEvent("", "a\nb\n\n c")]


def test_comments_and_unknown_fields_say_nothing() -> None:
    assert read(b": hi\nid: 7\nretry: 5\nwhat\ndata: a\n\n: bye\n\n") == [ServerEvent("", "a")]


def test_an_event_without_data_is_none() -> None:
    assert read(b"event: ping\n\ndata: a\n\n") == [ServerEvent("", "a")]


def test_a_byte_order_mark_is_skipped_once() -> None:
    mark = b"\xef\xbb\xbf"
    assert read(mark + b"data: a\n\n" + mark + b"data: b\n\n") == [ServerEvent("", "a")]


def test_the_end_of_the_stream_ends_the_last_event() -> None:
    assert read(b"data: a\n\ndata: [DONE]") == [ServerEvent("", "a"), ServerEvent("", "[DONE]")]


def test_only_line_feeds_and_returns_end_a_line() -> None:
    words = "a\x0bb\x0cc\x1cd\x85e\u2028f"
    assert read(f"data: {words}\n\n".encode()) == [ServerEvent("", words)]


def test_broken_utf_8_is_replaced() -> None:
    assert read(b"data: a\xff\xe2\x82\n\n") == [ServerEvent("", "a\ufffd\ufffd")]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_character_may_be_split_between_chunks(size: int) -> None:
    assert read("data: 🦜é\r\n\r\n".encode(), size) == [ServerEvent("", "🦜é")]


def test_an_event_beyond_the_limit_is_a_broken_stream() -> None:
    with pytest.raises(BrokenStream, match=r"acme .* more than 100 bytes"):
        read(b"data: " + b"x" * 100, limit=100)
    with pytest.raises(BrokenStream):
        read(b"data: x\n" * 20, limit=100)


def test_many_small_events_and_comments_stay_below_the_limit() -> None:
    assert len(read(b"data: x\n\n" * 100, limit=20)) == 100
    assert read(b": still here\n" * 100, limit=20) == []


lines = st.lists(
    st.sampled_from([b"data: a", b"data", b":c", b"event: e", b"", b"\xef\xbb\xbf", b"\xf0\x9f"])
    | st.binary(max_size=4),
    max_size=12,
)
ends = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(lines, ends, st.integers(1, 5))
def test_where_chunks_end_makes_no_difference(parts: list[bytes], end: bytes, size: int) -> None:
    data = end.join(parts)
    assert read(data, size) == read(data)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_give_events_or_nothing(first: bytes, second: bytes) -> None:
    reader = EventReader(PEER)
    events = [*reader.feed(first), *reader.feed(second), *reader.close()]
    assert all(isinstance(event.data, str) for event in events)
