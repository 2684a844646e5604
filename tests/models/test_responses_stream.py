"""What a stream of OpenAI Responses says, and what becomes of one that is not as documented."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import (
    BrokenStream,
    ContentRefused,
    ContextOverflow,
    EmptyAnswer,
    InvalidRequest,
    ProviderError,
    ProviderOverloaded,
    QuotaExceeded,
    RateLimited,
)
from perdure.history.content import Reasoning, StopReason, Text, ToolCall, Usage
from perdure.models.openai_responses_stream import ResponsesDecoder
from perdure.models.types import Answer, Piece
from tests.models.streams import (
    PEER,
    RESPONSE_CREATED,
    added,
    decoded,
    done,
    ended,
    event,
    growth,
    said,
    thought,
)

MESSAGE = {"id": "msg_1", "status": "completed", "role": "assistant", "phase": "final_answer"}
REASONING = {"id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
CALL = {"id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{}"}


def decode(*events: Any) -> tuple[list[Piece], Answer]:
    return decoded(ResponsesDecoder(PEER), [RESPONSE_CREATED, *events])


def failing(kind: type[ProviderError], *events: Any) -> str:
    with pytest.raises(kind) as caught:
        decode(*events)
    return str(caught.value)


def words(text: str) -> list[dict[str, Any]]:
    return [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]


def text_of(answer: Answer) -> list[str]:
    return [part.text for part in answer.parts if isinstance(part, Text)]


def calls_of(answer: Answer) -> list[tuple[str, str, str]]:
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    return [(part.id, part.name, part.arguments) for part in calls]


def test_text_comes_in_pieces_and_then_whole() -> None:
    pieces, answer = decode(
        added(0, "message", **MESSAGE, content=[]),
        growth(0, "output_text", "Hel", content_index=0),
        growth(0, "output_text", "lo", content_index=0),
        done(0, "message", **MESSAGE, content=words("Hello")),
        ended(),
    )
    assert said(pieces) == "Hello"
    assert answer == Answer((Text("Hello", {"type": "message", **MESSAGE}),), "end", Usage())


def test_reasoning_keeps_its_item_as_it_was_when_it_was_whole() -> None:
    whole = {**REASONING, "encrypted_content": "c2VhbGVk"}
    pieces, answer = decode(
        added(0, "reasoning", id="rs_1", summary=[], encrypted_content="cGFydA=="),
        growth(0, "reasoning_summary_text", "H", summary_index=0),
        growth(0, "reasoning_summary_text", "m.", summary_index=0),
        done(0, "reasoning", **whole),
        added(1, "message", **MESSAGE),
        done(1, "message", **MESSAGE, content=words("A")),
        ended(),
    )
    assert thought(pieces) == "Hm."
    assert answer.parts[0] == Reasoning("Hm.", {"type": "reasoning", **whole})


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": " "},
        {"status": "novel"},
        {"content": [None, *words("A")]},
        {"content": [*words("A"), {"type": "output_text", "text": None}]},
    ],
)
def test_a_malformed_message_keeps_only_its_words(wrong: dict[str, Any]) -> None:
    item = {**MESSAGE, "content": words("A"), **wrong}
    _, answer = decode(added(0, "message", **MESSAGE), done(0, "message", **item), ended())
    assert answer.parts == (Text("A"),)


@pytest.mark.parametrize(
    "wrong",
    [
        {"summary": {}},
        {"summary": [{"type": "summary_text", "text": 7}]},
        {"encrypted_content": 5},
        {"content": "x"},
        {"status": 7},
    ],
)
def test_malformed_reasoning_is_not_sealed(wrong: dict[str, Any]) -> None:
    item: dict[str, Any] = {"id": "rs_1", "summary": [], "encrypted_content": "AA==", **wrong}
    _, answer = decode(
        added(0, "reasoning", id="rs_1"),
        done(0, "reasoning", **item),
        added(1, "message", **MESSAGE),
        done(1, "message", **MESSAGE, content=words("A")),
        ended(),
    )
    (reasoning, _) = answer.parts
    assert isinstance(reasoning, Reasoning)
    assert reasoning.opaque is None


def test_members_that_are_null_are_none() -> None:
    sealed: dict[str, Any] = {"id": "rs_1", "summary": [], "encrypted_content": "AA=="}
    _, answer = decode(
        added(0, "reasoning", id="rs_1", status="in_progress"),
        done(0, "reasoning", **sealed, status=None, content=None),
        added(1, "message", **MESSAGE),
        done(1, "message", **MESSAGE, content=words("A")),
        ended(),
    )
    assert answer.parts[0] == Reasoning("", {"type": "reasoning", **sealed})


def test_reasoning_that_never_ended_is_not_sealed() -> None:
    _, answer = decode(
        added(0, "reasoning", id="rs_1", encrypted_content="cGFydA=="),
        growth(0, "reasoning_summary_text", "Hm", summary_index=0),
        ended("incomplete", incomplete_details={"reason": "max_output_tokens"}),
    )
    assert answer.parts == (Reasoning("Hm"),)
    assert answer.stop == "length"


def test_what_was_sealed_until_then_is_never_taken_for_the_whole() -> None:
    _, answer = decode(
        added(0, "reasoning", id="rs_1", encrypted_content="cGFydA=="),
        done(0, "reasoning", id="rs_1", summary=[]),
        added(1, "message", **MESSAGE),
        done(1, "message", content=words("A")),
        ended(),
    )
    assert answer.parts[0] == Reasoning("", {"type": "reasoning", "id": "rs_1", "summary": []})


def test_parts_of_a_summary_are_paragraphs() -> None:
    parts = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
    pieces, answer = decode(
        added(0, "reasoning", id="rs_1"),
        {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0},
        growth(0, "reasoning_summary_text", "One.", summary_index=0),
        {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1},
        growth(0, "reasoning_summary_text", "Two.", summary_index=1),
        done(0, "reasoning", id="rs_1", summary=parts),
        added(1, "message", **MESSAGE),
        done(1, "message", content=words("A")),
        ended(),
    )
    assert thought(pieces) == "One.\n\nTwo."
    assert isinstance(answer.parts[0], Reasoning)
    assert answer.parts[0].text == "One.\n\nTwo."


def test_open_models_show_their_reasoning_itself() -> None:
    content = [{"type": "reasoning_text", "text": "Because."}]
    pieces, answer = decode(
        added(0, "reasoning", id="rs_1"),
        growth(0, "reasoning_text", "Because.", content_index=0),
        done(0, "reasoning", id="rs_1", summary=[], content=content),
        added(1, "message", **MESSAGE),
        done(1, "message", content=words("A")),
        ended(),
    )
    assert thought(pieces) == "Because."
    assert isinstance(answer.parts[0], Reasoning)
    assert answer.parts[0].text == "Because."


def test_interleaved_calls_are_told_apart_by_index() -> None:
    _, answer = decode(
        added(0, "function_call", id="fc_1", call_id="a", name="read", arguments=""),
        added(1, "function_call", id="fc_2", call_id="b", name="list", arguments=""),
        growth(0, "function_call_arguments", '{"x"'),
        growth(1, "function_call_arguments", '{"p":'),
        growth(0, "function_call_arguments", ":2}"),
        growth(1, "function_call_arguments", "1}"),
        done(1, "function_call", id="fc_2", call_id="b", name="list", arguments='{"p":1}'),
        done(0, "function_call", id="fc_1", call_id="a", name="read", arguments='{"x":2}'),
        ended(),
    )
    assert answer.parts == (
        ToolCall("a", "read", '{"x":2}', {"type": "function_call", "id": "fc_1"}),
        ToolCall("b", "list", '{"p":1}', {"type": "function_call", "id": "fc_2"}),
    )
    assert answer.stop == "tool_calls"


def test_arguments_whose_fragments_never_close_stay_as_they_came() -> None:
    _, answer = decode(
        added(0, "function_call", id="fc_1", call_id="a", name="read", arguments=""),
        growth(0, "function_call_arguments", '{"path'),
        ended(),
    )
    assert answer.parts == (ToolCall("a", "read", '{"path'),)


def test_the_whole_arguments_count_more_than_their_fragments() -> None:
    _, answer = decode(
        added(0, "function_call", id="fc_1", call_id="a", name="read", arguments=""),
        growth(0, "function_call_arguments", '{"a"'),
        {
            "type": "response.function_call_arguments.done",
            "output_index": 0,
            "arguments": '{"a":1}',
        },
        ended(),
    )
    assert calls_of(answer) == [("a", "read", '{"a":1}')]


def test_calls_without_an_id_or_with_the_same_one_get_one_from_their_position() -> None:
    given: list[dict[str, Any]] = [{}, {"call_id": "a"}, {"call_id": "a"}]
    events = [
        made
        for index, ids in enumerate(given)
        for made in (
            added(index, "function_call", name="read", arguments="", **ids),
            done(index, "function_call", name="read", arguments="{}", **ids),
        )
    ]
    _, answer = decode(*events, ended())
    assert [call for call, _, _ in calls_of(answer)] == ["call_0", "a", "call_2"]


def test_items_that_all_have_the_index_0_are_told_apart_by_their_ends() -> None:
    _, answer = decode(
        added(0, "message", **MESSAGE),
        growth(0, "output_text", "Hi"),
        done(0, "message", **MESSAGE, content=words("Hi")),
        added(0, "function_call", **CALL),
        done(0, "function_call", **CALL),
        ended(),
    )
    assert text_of(answer) == ["Hi"]
    assert calls_of(answer) == [("call_1", "read", "{}")]


def test_a_server_that_sends_no_fragments_is_read_too() -> None:
    pieces, answer = decode(
        added(0, "message"), done(0, "message", content=words("Hello")), ended()
    )
    assert said(pieces) == "Hello"
    assert answer.parts == (Text("Hello"),)


def test_a_text_that_is_whole_at_once_is_shown_once() -> None:
    whole = {"type": "response.output_text.done", "output_index": 0, "text": "Hello"}
    pieces, answer = decode(
        added(0, "message"), whole, done(0, "message", content=words("Hello")), ended()
    )
    assert said(pieces) == "Hello"
    assert text_of(answer) == ["Hello"]


def test_what_only_the_whole_response_says_is_taken_from_it() -> None:
    message = {"type": "message", **MESSAGE, "content": words("Hello")}
    call = {"type": "function_call", **CALL}
    pieces, answer = decode(
        added(0, "message", **MESSAGE),
        growth(0, "output_text", "Hel"),
        ended(output=[message, call]),
    )
    assert said(pieces) == "Hel"
    assert text_of(answer) == ["Hello"]
    assert calls_of(answer) == [("call_1", "read", "{}")]


def test_the_whole_response_says_nothing_twice() -> None:
    message = {"type": "message", **MESSAGE, "content": words("Hello")}
    _, answer = decode(
        added(3, "message", **MESSAGE), done(3, "message", **message), ended(output=[message])
    )
    assert text_of(answer) == ["Hello"]


def test_a_message_of_several_parts_keeps_them() -> None:
    content = [*words("A"), {"type": "refusal", "refusal": "B"}]
    _, answer = decode(
        added(0, "message", **MESSAGE), done(0, "message", **MESSAGE, content=content), ended()
    )
    assert answer.parts == (Text("AB", {"type": "message", **MESSAGE, "content": content}),)


def test_a_refusal_is_text_with_its_own_stop() -> None:
    pieces, answer = decode(
        added(0, "message", **MESSAGE),
        growth(0, "refusal", "N"),
        growth(0, "refusal", "o."),
        ended(),
    )
    assert said(pieces) == "No."
    assert text_of(answer) == ["No."]
    assert answer.stop == "refusal"


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("max_output_tokens", "length"),
        ("novel", "length"),
        (None, "length"),
    ],
)
def test_the_reason_of_an_incomplete_response_is_the_stop(
    reason: str | None, stop: StopReason
) -> None:
    details = {"reason": reason}
    message = [added(0, "message"), growth(0, "output_text", "A")]
    _, answer = decode(*message, ended("incomplete", incomplete_details=details))
    assert (answer.stop, answer.stopped) == (stop, "novel" if reason == "novel" else "")


def test_a_filtered_answer_without_a_word_is_refused_content() -> None:
    details = {"reason": "content_filter"}
    message = failing(ContentRefused, ended("incomplete", incomplete_details=details))
    assert message == "acme declined to answer; change the prompt"


def test_usage_counts_what_was_cached_written_and_thought() -> None:
    usage = {
        "input_tokens": 100,
        "output_tokens": 20,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 9},
        "output_tokens_details": {"reasoning_tokens": 7},
    }
    message = [added(0, "message"), growth(0, "output_text", "A")]
    assert decode(*message, ended(usage=usage))[1].usage == Usage(100, 20, 64, 9, 7)


@pytest.mark.parametrize("usage", [None, 7, {}, {"input_tokens": "9", "output_tokens": -1}])
def test_usage_that_makes_no_sense_is_zero(usage: Any) -> None:
    message = [added(0, "message"), growth(0, "output_text", "A")]
    assert decode(*message, ended(usage=usage))[1].usage == Usage()


def test_events_and_items_of_tomorrow_are_left_alone() -> None:
    _, answer = decode(
        {"type": "response.novel.delta", "output_index": 9, "delta": "x"},
        {"type": "keepalive", "sequence_number": 1},
        added(0, "novel_call", id="nc_1"),
        done(0, "novel_call", id="nc_1"),
        added(1, "message"),
        growth(1, "output_text", "A"),
        ended(novel=True),
    )
    assert answer.parts == (Text("A"),)


def test_a_signal_of_life_is_no_progress() -> None:
    decoder = ResponsesDecoder(PEER)
    decoder.feed(event({"type": "keepalive", "sequence_number": 0}))
    assert decoder.progress == 0


def test_what_comes_after_the_end_is_not_read() -> None:
    message = [added(0, "message"), growth(0, "output_text", "A")]
    assert text_of(decode(*message, ended(), "{broken")[1]) == ["A"]


def test_the_closing_word_of_chat_completions_is_forgiven() -> None:
    message = [added(0, "message"), growth(0, "output_text", "A")]
    assert text_of(decode(*message, "[DONE]", ended())[1]) == ["A"]
    assert "cut before the answer was whole" in failing(BrokenStream, *message, "[DONE]")


@pytest.mark.parametrize("numbers", [(0, 2, 1), (0, 1, 1), (5, 6, 0)])
def test_events_that_come_twice_or_too_late_break_the_stream(numbers: tuple[int, ...]) -> None:
    events = [growth(0, "output_text", "A") | {"sequence_number": each} for each in numbers]
    message = failing(BrokenStream, added(0, "message"), *events, ended())
    assert f"event {numbers[-1]} came after event {numbers[-2]}" in message


@pytest.mark.parametrize("numbers", [(0, 0, 0), (1, 4, 9), (None, "x", True)])
def test_numbers_that_say_nothing_about_the_order_are_left_alone(numbers: Any) -> None:
    events = [growth(0, "output_text", "A") | {"sequence_number": each} for each in numbers]
    assert text_of(decode(added(0, "message"), *events, ended())[1]) == ["AAA"]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([RESPONSE_CREATED], "it began a second response"),
        ([added(0, "message"), added(0, "message")], "it began an output item out of order"),
        ([added("0", "message")], "it began an output item out of order"),
        ([growth(0, "output_text", "A")], "it continued an output item that never began"),
        ([done(0, "message")], "it ended an output item that never began"),
        ([added(0, "message"), done(0, "reasoning")], "it ended an output item that never began"),
        (
            [added(0, "function_call"), growth(0, "output_text", "A")],
            "a fragment does not fit its output item",
        ),
        (
            [added(0, "message"), done(0, "message"), growth(0, "output_text", "A")],
            "it continued an output item that was whole",
        ),
    ],
)
def test_events_that_contradict_each_other_break_the_stream(events: list[Any], words: str) -> None:
    assert words in failing(BrokenStream, *events, ended())


@pytest.mark.parametrize("data", ["{broken", "[1]", '"text"', "7", "[" * 100_000])
def test_an_event_that_is_no_object_breaks_the_stream(data: str) -> None:
    assert "not a JSON object" in failing(BrokenStream, event(data))


def test_a_stream_without_its_end_is_cut() -> None:
    message = [added(0, "message"), growth(0, "output_text", "A"), done(0, "message")]
    assert "cut before the answer was whole" in failing(BrokenStream, *message)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "rate_limit_exceeded", "message": "slow down"}, RateLimited),
        ({"code": "server_error", "message": "oops"}, ProviderOverloaded),
        ({"code": None, "message": "oops"}, ProviderOverloaded),
        ({"code": "insufficient_quota", "message": "pay"}, QuotaExceeded),
        ({"code": "context_length_exceeded", "message": "x"}, ContextOverflow),
        ({"code": "invalid_prompt", "message": "it may violate our usage policy"}, ContentRefused),
        ({"code": "invalid_prompt", "message": "x"}, InvalidRequest),
        ({"code": "bio_policy", "message": "no"}, ContentRefused),
        ({"code": "invalid_encrypted_content", "message": "x"}, InvalidRequest),
    ],
)
def test_an_error_inside_the_stream_has_its_type(error: Any, kind: type[ProviderError]) -> None:
    begun = [added(0, "message"), growth(0, "output_text", "A")]
    failing(kind, *begun, {"type": "error", **error})
    failing(kind, *begun, {"type": "error", "error": error})
    failing(kind, *begun, ended("failed", error=error))


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_response_that_failed_without_a_word_says_so(status: str) -> None:
    message = failing(ProviderOverloaded, ended(status))
    assert message == (f"acme broke off the stream: the response was {status}; try again later")


def test_a_whole_stream_that_says_nothing_is_an_empty_answer() -> None:
    assert failing(EmptyAnswer, ended()) == "acme gave an empty answer; try again"


def test_reasoning_alone_is_an_empty_answer_unless_a_limit_ended_it() -> None:
    reasoning = [added(0, "reasoning"), done(0, "reasoning", **REASONING)]
    assert "after reasoning" in failing(EmptyAnswer, *reasoning, ended())
    _, answer = decode(*reasoning, ended("incomplete"))
    assert answer.stop == "length"


def test_a_character_cut_between_two_fragments_is_put_together() -> None:
    def half(text: str) -> Any:
        kind = "response.output_text.delta"
        return event(f'{{"type":"{kind}","output_index":0,"delta":"{text}"}}')

    _, answer = decode(added(0, "message"), half("a\\ud83e"), half("\\udd9c"), ended())
    assert answer.parts == (Text("a🦜"),)


def test_an_answer_in_one_piece_is_the_same_answer() -> None:
    decoder = ResponsesDecoder(PEER)
    output = [
        {"type": "reasoning", **REASONING, "encrypted_content": "c2ln"},
        {"type": "message", **MESSAGE, "content": words("Hi")},
        {"type": "function_call", **CALL},
    ]
    body = {"object": "response", "status": "completed", "output": output, "error": None}
    pieces = decoder.feed_whole(body)
    answer = decoder.finish()
    assert (thought(pieces), said(pieces)) == ("Hm.", "Hi")
    assert [type(part).__name__ for part in answer.parts] == ["Reasoning", "Text", "ToolCall"]
    assert answer.stop == "tool_calls"


def test_a_failed_answer_in_one_piece_has_its_type() -> None:
    body: dict[str, Any] = {
        "status": "failed",
        "output": [],
        "error": {"code": "server_error", "message": "x"},
    }
    with pytest.raises(ProviderOverloaded):
        ResponsesDecoder(PEER).feed_whole(body)
