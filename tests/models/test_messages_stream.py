"""What a stream of Anthropic Messages says."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import (
    BrokenStream,
    ContentRefused,
    ContextOverflow,
    EmptyAnswer,
    InvalidRequest,
    ProviderOverloaded,
    RateLimited,
)
from perdure.history.content import Reasoning, StopReason, Text, ToolCall, Usage
from perdure.models.anthropic_stream import MessagesDecoder
from perdure.models.types import Answer, Piece
from tests.models.streams import (
    MESSAGE_STOP,
    PEER,
    block_delta,
    block_start,
    decoded,
    event,
    message_delta,
    message_start,
    said,
    thought,
)

START = message_start(input_tokens=1, output_tokens=1)


def decode(*events: Any) -> tuple[list[Piece], Answer]:
    return decoded(MessagesDecoder(PEER), events)


def block(index: int, kind: str, fragment: str, **members: Any) -> list[dict[str, Any]]:
    """Return the events of one block that grows by one fragment."""
    member = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}[kind]
    name = "input_json_delta" if kind == "tool_use" else f"{kind}_delta"
    return [block_start(index, kind, **members), block_delta(index, name, **{member: fragment})]


def end(stop: str = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    return [message_delta(stop, **usage), MESSAGE_STOP]


def test_text_comes_in_pieces_and_then_whole() -> None:
    more = block_delta(0, "text_delta", text="lo")
    pieces, answer = decode(START, *block(0, "text", "Hel", text=""), more, *end())
    assert said(pieces) == "Hello"
    assert answer.parts == (Text("Hello"),)
    assert answer.stop == "end"


def test_thinking_keeps_the_whole_block_with_its_signature() -> None:
    pieces, answer = decode(
        START,
        *block(0, "thinking", "hmm", thinking="", signature=""),
        block_delta(0, "signature_delta", signature="ab"),
        block_delta(0, "signature_delta", signature="cd"),
        *block(1, "text", "A", text=""),
        *end(),
    )
    assert thought(pieces) == "hmm"
    raw = {"type": "thinking", "thinking": "hmm", "signature": "abcd"}
    assert answer.parts == (Reasoning("hmm", raw), Text("A"))


def test_thinking_may_be_empty_or_redacted_and_is_kept() -> None:
    sealed = {"type": "redacted_thinking", "data": "xyz"}
    _, answer = decode(
        START,
        block_start(0, "thinking", thinking="", signature="s"),
        {"type": "content_block_start", "index": 1, "content_block": sealed},
        *block(2, "text", "A", text=""),
        *end(),
    )
    raw = {"type": "thinking", "thinking": "", "signature": "s"}
    assert answer.parts == (Reasoning("", raw), Reasoning("", sealed), Text("A"))


@pytest.mark.parametrize(
    "malformed",
    [
        {"type": "thinking", "thinking": "hmm", "signature": 5},
        {"type": "thinking", "thinking": "hmm", "signature": {}},
        {"type": "redacted_thinking", "thinking": "hmm", "data": None},
        {"type": "redacted_thinking", "thinking": "hmm", "data": 5},
    ],
)
def test_thinking_with_a_malformed_seal_is_only_read(malformed: dict[str, Any]) -> None:
    begun = {"type": "content_block_start", "index": 0, "content_block": malformed}
    _, answer = decode(START, begun, *block(1, "text", "A", text=""), *end())
    assert answer.parts == (Reasoning("hmm"), Text("A"))


def test_thinking_without_a_signature_is_kept_without_one() -> None:
    begun = block_start(0, "thinking", thinking="hmm", signature=None)
    _, answer = decode(START, begun, *block(1, "text", "A", text=""), *end())
    assert answer.parts == (Reasoning("hmm", {"type": "thinking", "thinking": "hmm"}), Text("A"))


def test_a_call_has_its_arguments_as_the_text_that_came() -> None:
    more = block_delta(0, "input_json_delta", partial_json=" 1e2 }")
    events = block(0, "tool_use", '{"n":', id="t1", name="read", input={})
    _, answer = decode(START, *events, more, *end("tool_use"))
    assert answer.parts == (ToolCall("t1", "read", '{"n": 1e2 }'),)
    assert answer.stop == "tool_calls"


def test_a_call_without_fragments_has_the_input_it_began_with() -> None:
    whole = block_start(0, "tool_use", id="t1", name="read", input={"path": "a"})
    bare = block_start(1, "tool_use", id="t2", name="list", input={})
    _, answer = decode(START, whole, bare, *end("tool_use"))
    expected = (ToolCall("t1", "read", '{"path":"a"}'), ToolCall("t2", "list", "{}"))
    assert answer.parts == expected


def test_blocks_may_grow_interleaved() -> None:
    _, answer = decode(
        START,
        block_start(0, "text", text="a"),
        block_start(1, "text", text="c"),
        block_delta(0, "text_delta", text="b"),
        block_delta(1, "text_delta", text="d"),
        *end(),
    )
    assert answer.parts == (Text("ab"), Text("cd"))


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "pause"),
        ("novel", "end"),
    ],
)
def test_the_stop_reason_is_the_stop(reason: str, stop: StopReason) -> None:
    answer = decode(START, *block(0, "text", "A", text=""), *end(reason))[1]
    assert (answer.stop, answer.stopped) == (stop, "novel" if reason == "novel" else "")


def test_usage_adds_cached_input_and_takes_the_last_counts() -> None:
    first = message_start(
        input_tokens=10,
        cache_read_input_tokens=200,
        cache_creation_input_tokens=30,
        output_tokens=1,
    )
    last: dict[str, Any] = {
        "output_tokens": 9,
        "input_tokens": None,
        "output_tokens_details": {"thinking_tokens": 4},
    }
    _, answer = decode(first, *block(0, "text", "A", text=""), *end(**last))
    assert answer.usage == Usage(240, 9, 200, 30, 4)


def test_pings_unknown_events_and_unknown_blocks_are_left_alone() -> None:
    _, answer = decode(
        {"type": "ping"},
        START,
        {"type": "novel", "index": 9},
        block_start(0, "server_tool_use", id="s"),
        block_delta(0, "input_json_delta", partial_json="{"),
        *block(1, "text", "A", text=""),
        block_delta(1, "citations_delta", citation={}),
        *end(),
    )
    assert answer.parts == (Text("A"),)


def test_an_event_may_have_its_type_in_its_name_alone() -> None:
    _, answer = decode(
        event({"message": {}}, "message_start"),
        *block(0, "text", "A", text=""),
        event({}, "message_stop"),
    )
    assert answer.parts == (Text("A"),)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([START, *block(0, "text", "A", text="")], "cut before the answer was whole"),
        ([START, *block(0, "text", "A", text=""), message_delta("end_turn")], "cut"),
        ([], "cut"),
        ([START, START], "a second message"),
        ([block_start(0, "text", text="")], "out of order"),
        ([START, block_start(0, "text"), block_start(0, "text")], "out of order"),
        ([START, block_start(0, "text"), block_start("1", "text")], "out of order"),
        ([START, block_delta(0, "text_delta", text="A")], "never began"),
        ([START, block_start(0, "text"), block_delta(0, "thinking_delta")], "does not fit"),
        ([MESSAGE_STOP], "ended before it began"),
        ([event("{broken")], "not a JSON object"),
    ],
)
def test_a_stream_cut_or_out_of_order_is_broken(events: list[Any], words: str) -> None:
    with pytest.raises(BrokenStream, match=words):
        decode(*events)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("overloaded_error", ProviderOverloaded),
        ("api_error", ProviderOverloaded),
        ("rate_limit_error", RateLimited),
        ("invalid_request_error", InvalidRequest),
        ("request_too_large", ContextOverflow),
        ("novel_error", ProviderOverloaded),
    ],
)
def test_an_error_inside_the_stream_has_its_type(code: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="acme broke off the stream: Overloaded"):
        decode(START, {"type": "error", "error": {"type": code, "message": "Overloaded"}})


def test_a_whole_stream_that_says_nothing_is_an_empty_answer() -> None:
    with pytest.raises(EmptyAnswer):
        decode(START, *end())
    with pytest.raises(EmptyAnswer):
        decode(START, *block(0, "text", " \n", text=""), *end())


def test_a_window_that_was_full_at_once_is_an_overflow() -> None:
    with pytest.raises(ContextOverflow, match="context window was full"):
        decode(START, *end("model_context_window_exceeded"))


def test_a_refusal_without_a_word_quotes_the_explanation() -> None:
    details = {"type": "refusal", "explanation": "It is about secret-key."}
    delta = {"stop_reason": "refusal", "stop_details": details}
    with pytest.raises(ContentRefused, match=r"declined to answer: It is about \*\*\*\."):
        decode(START, {"type": "message_delta", "delta": delta}, MESSAGE_STOP)
