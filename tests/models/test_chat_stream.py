"""What a stream of Chat Completions says, in the dialects of many servers."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import (
    BrokenStream,
    ContentRefused,
    ContextOverflow,
    EmptyAnswer,
    ProviderOverloaded,
    RateLimited,
)
from perdure.history.content import Reasoning, StopReason, Text, ToolCall, Usage
from perdure.models.openai_stream import ChatDecoder
from perdure.models.types import Answer, Piece
from tests.models.streams import PEER, call_delta, decoded, delta, event, said, thought


def decode(*events: Any) -> tuple[list[Piece], Answer]:
    return decoded(ChatDecoder(PEER), events)


def calls(*entries: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return delta(finish, tool_calls=list(entries))


def test_text_comes_in_pieces_and_then_whole() -> None:
    pieces, answer = decode(delta(content="Hel"), delta(content="lo"), delta("stop"), "[DONE]")
    assert said(pieces) == "Hello"
    assert answer == Answer((Text("Hello"),), "end", Usage())


@pytest.mark.parametrize("member", ["reasoning", "reasoning_content"])
def test_reasoning_remembers_its_member(member: str) -> None:
    pieces, answer = decode(
        delta(**{member: "h"}), delta(**{member: "mm"}), delta("stop", content="A")
    )
    assert thought(pieces) == "hmm"
    assert answer.parts == (Reasoning("hmm", {"member": member}), Text("A"))


def test_reasoning_that_comes_under_both_names_is_taken_once() -> None:
    pieces, _ = decode(delta("stop", reasoning="x", reasoning_content="x", content="A"))
    assert thought(pieces) == "x"


def test_details_of_reasoning_grow_whole_and_keep_their_seals() -> None:
    kind = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    sealed = {"type": "reasoning.encrypted", "data": "AA==", "id": "rs_1", "index": 1}
    pieces, answer = decode(
        delta(reasoning="h", reasoning_details=[{**kind, "text": "h", "signature": None}]),
        delta(reasoning="mm", reasoning_details=[{**kind, "text": "mm"}]),
        delta(reasoning_details=[{**kind, "signature": "sig"}, sealed]),
        delta(reasoning="!", reasoning_details=[{**kind, "text": "!"}]),
        delta("stop", content="A"),
    )
    details = [
        {**kind, "text": "hmm", "signature": "sig"},
        sealed,
        {**kind, "text": "!"},
    ]
    assert thought(pieces) == "hmm!"
    opaque = {"member": "reasoning", "details": details}
    assert answer.parts == (Reasoning("hmm!", opaque), Text("A"))


def test_details_that_stand_alone_are_read_and_two_summaries_stay_two() -> None:
    first = {"type": "reasoning.summary", "summary": "one", "id": "rs_1", "index": 0}
    second = {"type": "reasoning.summary", "summary": "two", "id": "rs_2", "index": 0}
    pieces, answer = decode(
        delta(reasoning_details=[first]),
        delta(reasoning_details=[second, 7, {"type": "odd", "index": 0}]),
        delta("stop", content="A"),
    )
    assert thought(pieces) == "onetwo"
    details = [first, second, {"type": "odd", "index": 0}]
    assert answer.parts == (Reasoning("onetwo", {"details": details}), Text("A"))


def test_sealed_details_without_a_word_are_reasoning_too() -> None:
    sealed = {"type": "reasoning.encrypted", "data": "AA=="}
    _, answer = decode(delta(reasoning_details=[sealed]), delta("stop", content="A"))
    assert answer.parts == (Reasoning("", {"details": [sealed]}), Text("A"))


def test_a_call_keeps_the_seal_beside_it() -> None:
    seal = {"google": {"thought_signature": "sig"}}
    first = {**call_delta(0, "a", "read", "{}"), "extra_content": seal}
    _, answer = decode(calls(first), calls(call_delta(1, "b", "read", "{}"), finish="tool_calls"))
    opaque = {"extra_content": seal}
    assert answer.parts == (ToolCall("a", "read", "{}", opaque), ToolCall("b", "read", "{}"))


def test_content_may_be_a_list_of_parts() -> None:
    content = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}, {"type": "odd"}]
    assert said(decode(delta("stop", content=content))[0]) == "Hello"


def test_deltas_of_several_calls_are_told_apart_by_index() -> None:
    _, answer = decode(
        calls(call_delta(0, "a", "read", "")),
        calls(call_delta(1, "b", "list", '{"p"')),
        calls(call_delta(0, arguments='{"x"')),
        calls(call_delta(1, arguments=":1}"), call_delta(0, arguments=":2}")),
        delta("tool_calls"),
    )
    assert answer.parts == (ToolCall("a", "read", '{"x":2}'), ToolCall("b", "list", '{"p":1}'))
    assert answer.stop == "tool_calls"


def test_whole_calls_in_one_delta_need_no_index() -> None:
    entries = [call_delta(None, "a", "read", "{}"), call_delta(None, "b", "read", "{}")]
    _, answer = decode(calls(*entries, finish="stop"))
    assert answer.parts == (ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}"))
    assert answer.stop == "tool_calls"


def test_without_an_index_a_delta_without_a_name_continues_the_last_call() -> None:
    _, answer = decode(
        calls(call_delta(None, "a", "read", "{")),
        calls(call_delta(None, arguments="}")),
        calls(call_delta(None, "b", "list", "{}"), finish="tool_calls"),
    )
    assert answer.parts == (ToolCall("a", "read", "{}"), ToolCall("b", "list", "{}"))


def test_several_calls_may_all_have_the_index_0() -> None:
    _, answer = decode(
        calls(call_delta(0, "a", "read", "{}")),
        calls(call_delta(0, "b", "read", "{}"), finish="stop"),
    )
    assert [part.id for part in answer.parts if isinstance(part, ToolCall)] == ["a", "b"]


def test_every_delta_of_one_call_may_have_another_id() -> None:
    _, answer = decode(
        calls(call_delta(0, "a", "read", "{")), calls(call_delta(0, "b", None, "}"), finish="stop")
    )
    assert answer.parts == (ToolCall("a", "read", "{}"),)


def test_a_repeated_name_is_the_same_name() -> None:
    _, answer = decode(
        calls(call_delta(0, "a", "read", "{")),
        calls(call_delta(0, "a", "read", "}"), finish="stop"),
    )
    assert answer.parts == (ToolCall("a", "read", "{}"),)


def test_arguments_may_be_an_object() -> None:
    _, answer = decode(calls(call_delta(0, "a", "read", {"path": "é"}), finish="stop"))
    assert answer.parts == (ToolCall("a", "read", '{"path":"é"}'),)


def test_broken_arguments_stay_as_they_came() -> None:
    _, answer = decode(calls(call_delta(0, "a", "read", '{"path'), finish="tool_calls"))
    assert answer.parts == (ToolCall("a", "read", '{"path'),)


def test_calls_without_an_id_or_with_the_same_one_get_one_from_their_position() -> None:
    entries = [call_delta(index, given, "read", "{}") for index, given in enumerate(["", "a", "a"])]
    _, answer = decode(calls(*entries, call_delta(3, "call_2", "read", "{}"), finish="stop"))
    ids = [part.id for part in answer.parts if isinstance(part, ToolCall)]
    assert ids == ["call_0", "a", "call_2", "call_3"]


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end"), ("length", "length"), ("eos", "end"), ("novel", "end")],
)
def test_the_finish_reason_is_the_stop(finish: str, stop: StopReason) -> None:
    answer = decode(delta(finish, content="A"))[1]
    assert (answer.stop, answer.stopped) == (stop, "novel" if finish == "novel" else "")


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource"])
def test_an_answer_that_the_server_gave_up_is_broken_and_no_answer(finish: str) -> None:
    with pytest.raises(BrokenStream, match=f"gave up the answer \\({finish}\\)"):
        decode(delta(content="Half an"), delta(finish), "[DONE]")


def test_a_refusal_is_text_with_its_own_stop() -> None:
    answer = decode(delta("stop", refusal="No."))[1]
    assert answer == Answer((Text("No."),), "refusal", Usage())


def test_a_refusal_that_was_cut_is_a_refusal() -> None:
    answer = decode(delta("length", refusal="No, for"))[1]
    assert answer == Answer((Text("No, for"),), "refusal", Usage())


def test_a_server_may_omit_done_or_the_finish_reason_but_not_both() -> None:
    assert decode(delta("stop", content="A"))[1].parts == (Text("A"),)
    assert decode(delta(content="A"), "[DONE]")[1].parts == (Text("A"),)
    with pytest.raises(BrokenStream, match="cut"):
        decode(delta(content="A"))


def test_usage_counts_what_was_cached_and_thought() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 9},
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    _, answer = decode(delta("stop", content="A"), {"choices": [], "usage": usage}, "[DONE]")
    assert answer.usage == Usage(100, 20, 64, 9, 7)


def test_reasoning_that_is_counted_beside_the_completion_is_output() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 200,
        "completion_tokens_details": {"reasoning_tokens": 80},
    }
    _, answer = decode({**delta("stop", content="A"), "usage": usage})
    assert answer.usage == Usage(input=100, output=100, reasoning=80)


@pytest.mark.parametrize("member", ["prompt_cache_hit_tokens", "cached_tokens"])
def test_cached_tokens_may_stand_beside_the_prompts(member: str) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20, member: 64}
    _, answer = decode({**delta("stop", content="A"), "usage": usage})
    assert answer.usage == Usage(input=100, output=20, cache_read=64)


@pytest.mark.parametrize("usage", [None, 7, {}, {"prompt_tokens": "9", "completion_tokens": -1}])
def test_usage_that_makes_no_sense_is_zero(usage: Any) -> None:
    _, answer = decode({**delta("stop", content="A"), "usage": usage})
    assert answer.usage == Usage()


def test_further_choices_and_unknown_members_are_left_alone() -> None:
    other = {"index": 1, "delta": {"content": "B"}, "finish_reason": "stop"}
    chunk = {**delta("stop", content="A"), "novel": 1}
    assert decode({"choices": [other]}, chunk)[1].parts == (Text("A"),)


def test_what_comes_after_done_is_not_read() -> None:
    assert decode(delta("stop", content="A"), "[DONE]", "{broken")[1].parts == (Text("A"),)


@pytest.mark.parametrize("data", ["{broken", "[1]", '"text"', "7", "[" * 100_000])
def test_an_event_that_is_no_object_breaks_the_stream(data: str) -> None:
    with pytest.raises(BrokenStream, match="not a JSON object"):
        decode(event(data))


def test_a_character_cut_between_two_deltas_is_put_together() -> None:
    first = '{"choices":[{"delta":{"content":"a\\ud83e"}}]}'
    second = '{"choices":[{"delta":{"content":"\\udd9c"},"finish_reason":"stop"}]}'
    pieces, answer = decode(event(first), event(second))
    assert answer.parts == (Text("a🦜"),)
    assert said(pieces) == "a\ufffd\ufffd"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "slow down", "type": "rate_limit_error"}}, RateLimited),
        ({"error": {"message": "oops", "code": 502}}, ProviderOverloaded),
        ({"error": {"message": "oops"}}, ProviderOverloaded),
        ({"error": "the server is shutting down"}, ProviderOverloaded),
        ({"object": "error", "message": "oops"}, ProviderOverloaded),
        ({"error": {"message": "x", "code": "context_length_exceeded"}}, ContextOverflow),
    ],
)
def test_an_error_inside_the_stream_has_its_type(body: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        decode(delta(content="A"), body)


def test_an_event_named_error_is_one() -> None:
    with pytest.raises(ProviderOverloaded, match="acme broke off the stream: too busy; try again"):
        decode(event({"message": "too busy."}, "error"))


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_a_whole_stream_that_says_nothing_is_an_empty_answer(content: str | None) -> None:
    with pytest.raises(EmptyAnswer, match="acme gave an empty answer; try again"):
        decode(delta("stop", content=content), "[DONE]")


def test_reasoning_alone_is_an_empty_answer_unless_a_limit_ended_it() -> None:
    with pytest.raises(EmptyAnswer, match="after reasoning"):
        decode(delta("stop", reasoning="hmm"))
    answer = decode(delta("length", reasoning="hmm"))[1]
    assert answer.stop == "length"
    assert answer.parts == (Reasoning("hmm", {"member": "reasoning"}),)


def test_an_answer_that_the_output_limit_left_empty_says_so() -> None:
    with pytest.raises(EmptyAnswer, match="raise max_output"):
        decode(delta("length"))


def test_a_filtered_answer_without_a_word_is_refused_content() -> None:
    with pytest.raises(ContentRefused, match="acme declined to answer"):
        decode(delta("content_filter"))
