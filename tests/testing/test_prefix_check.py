"""The second opinion on whether a request begins with the one before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.testing import ReceivedRequest, assert_prefix_kept, blocks, keeps_prefix
from tests.testing import anthropic_wire as anthropic
from tests.testing import chat_wire as chat

words = st.text(min_size=1, max_size=5)
chat_messages = st.lists(
    st.builds(chat.user, words)
    | st.builds(chat.user, words.map(anthropic.text).map(lambda part: [part]))
    | st.builds(chat.asks, words)
    | st.builds(chat.result, words),
    max_size=5,
)
anthropic_messages = st.lists(
    st.builds(anthropic.user, words)
    | st.builds(anthropic.assistant, words)
    | st.builds(anthropic.system, words),
    max_size=5,
)
messages = chat_messages | anthropic_messages


@given(messages, messages)
def test_a_request_keeps_the_prefix_when_it_only_adds_messages(
    first: list[Any], more: list[Any]
) -> None:
    base = {"model": "m", "system": "Base", "tools": [anthropic.TOOL]}
    assert keeps_prefix(base | {"messages": first}, base | {"messages": first + more})


@given(messages, messages)
def test_a_request_keeps_the_prefix_exactly_when_its_blocks_begin_with_it(
    first: list[Any], second: list[Any]
) -> None:
    one, two = {"messages": first}, {"messages": second}
    expected = blocks(two)[: len(blocks(one))] == blocks(one)
    assert keeps_prefix(one, two) is expected


BASE = anthropic.request(
    anthropic.user("Hello"), anthropic.assistant("Hi"), system="Base", tools=[anthropic.TOOL]
)
MARKED = anthropic.user(anthropic.cached(anthropic.text("Hello")))


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"tool_choice": {"type": "any"}},
        {"thinking": {"type": "adaptive"}},
        {"tools": [anthropic.TOOL | {"description": "Other."}]},
        {"system": "Other"},
        {"system": [anthropic.text("Base"), anthropic.text("More")]},
        {"messages": BASE["messages"][:1]},
        {"messages": [anthropic.user("Hello!"), *BASE["messages"][1:]]},
        {"messages": [anthropic.user("Hello", "again"), *BASE["messages"][1:]]},
        {"messages": [anthropic.user("Hello"), anthropic.user("Hi")]},
    ],
)
def test_a_change_anywhere_in_the_prefix_is_found(change: dict[str, Any]) -> None:
    assert not keeps_prefix(BASE, BASE | change)


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": 5},
        {"stream": True},
        {"cache_control": {"type": "ephemeral"}},
        {"system": [anthropic.cached(anthropic.text("Base"))]},
        {"tools": [anthropic.cached(anthropic.TOOL)]},
        {"messages": [MARKED, *BASE["messages"][1:]]},
    ],
)
def test_markers_and_what_no_cache_depends_on_may_change(change: dict[str, Any]) -> None:
    assert keeps_prefix(BASE, BASE | change)


def test_text_alone_is_the_same_as_one_block_of_text() -> None:
    assert blocks({"messages": [chat.user("Hi")]}) == blocks({"messages": [anthropic.user("Hi")]})


def test_where_a_message_begins_matters() -> None:
    joined = {"messages": [anthropic.user("a", "b")]}
    split = {"messages": [anthropic.user("a"), anthropic.user("b")]}
    assert not keeps_prefix(joined, split)


def test_a_marker_inside_a_tool_result_is_not_content() -> None:
    def answer(block: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [anthropic.user(anthropic.RESULT | {"content": [block]})]}

    plain = anthropic.text("done")
    assert keeps_prefix(answer(plain), answer(anthropic.cached(plain)))
    assert not keeps_prefix(answer(plain), answer(anthropic.text("other")))


def test_calls_and_their_ids_are_blocks_of_a_chat_request() -> None:
    body = {"messages": [chat.user("Go"), chat.asks("call_1", "call_2"), chat.result("call_1")]}
    found = [block for block in blocks(body) if block.part == "messages"]
    assert [(block.role, block.opens) for block in found] == [
        ("user", True),
        ("assistant", True),
        ("assistant", False),
        ("tool", True),
        ("tool", False),
    ]
    changed = {"messages": [chat.user("Go"), chat.asks("call_1", "call_3"), chat.result("call_1")]}
    assert not keeps_prefix(body, changed)


def test_the_first_break_is_named_with_both_blocks() -> None:
    first, second = chat.request(chat.user("one")), chat.request(chat.user("two"))
    with pytest.raises(AssertionError) as raised:
        assert_prefix_kept([first, first, second])
    assert str(raised.value) == (
        "request 2 does not begin with request 1: block 1 was messages user +"
        '{"text":"one","type":"text"} and is messages user +{"text":"two","type":"text"}'
    )


def test_a_missing_block_is_named() -> None:
    longer = chat.request(chat.user("one"), chat.user("two"))
    with pytest.raises(AssertionError, match="and is missing"):
        assert_prefix_kept([longer, chat.request(chat.user("one"))])


def test_recorded_requests_can_be_compared() -> None:
    def recorded(*messages: Any) -> ReceivedRequest:
        body = chat.request(*messages)
        return ReceivedRequest(0, "POST", "/", {}, b"", body)

    first = recorded(chat.user("one"))
    assert_prefix_kept([first, recorded(chat.user("one"), chat.user("two"))])
    assert not keeps_prefix(first, recorded(chat.user("two")))
