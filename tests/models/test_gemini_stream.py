"""What a stream of Gemini's generateContent says, and what becomes of one that says it wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from google.genai import types

from perdure.errors import (
    AuthenticationFailed,
    BrokenStream,
    ContentRefused,
    ContextOverflow,
    EmptyAnswer,
    InvalidRequest,
    ProviderError,
    ProviderOverloaded,
    RateLimited,
)
from perdure.history.content import Reasoning, StopReason, Text, ToolCall, Usage
from perdure.models.gemini_stream import GeminiDecoder
from perdure.models.types import Answer, Piece
from tests.models.streams import PEER, candidate, decoded, event, said, thought

SIGNED = {"thoughtSignature": "c2lnbg=="}
THOUGHT = {"thought": True}


def decode(*chunks: Any) -> tuple[list[Piece], Answer]:
    """Decode chunks that are as the provider's own library knows them."""
    for chunk in chunks:
        types.GenerateContentResponse.model_validate_json(msgspec.json.encode(chunk))
    return decoded(GeminiDecoder(PEER), chunks)


def answer_to(*chunks: Any) -> Answer:
    return decode(*chunks)[1]


def failing(kind: type[ProviderError], *chunks: Any) -> str:
    with pytest.raises(kind) as caught:
        decoded(GeminiDecoder(PEER), chunks)
    return str(caught.value)


def text(words: str, **members: Any) -> dict[str, Any]:
    return {"text": words, **members}


def called(call_id: str | None = "f1", name: str = "read", **members: Any) -> dict[str, Any]:
    call: dict[str, Any] = {"name": name, "args": {"path": "a"}}
    return {"functionCall": {**call, "id": call_id} if call_id else call, **members}


def error(code: int, status: str, message: str, *details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "status": status, "message": message, "details": details}}


END = candidate(finish="STOP")


def test_text_comes_in_fragments_that_are_one_part() -> None:
    pieces, answer = decode(candidate(text("Hel")), candidate(text("lo")), END)
    assert said(pieces) == "Hello"
    assert answer == Answer((Text("Hello"),), "end", Usage())


def test_thoughts_are_reasoning_that_can_be_read() -> None:
    pieces, answer = decode(
        candidate(text("Which ", **THOUGHT)),
        candidate(text("file?", **THOUGHT)),
        candidate(text("That one."), finish="STOP"),
    )
    assert thought(pieces) == "Which file?"
    assert answer.parts == (Reasoning("Which file?", THOUGHT), Text("That one."))


def test_a_call_comes_whole_with_its_signature() -> None:
    answer = answer_to(candidate(called(**SIGNED), called("f2", "list")), END)
    assert answer.parts == (
        ToolCall("f1", "read", '{"path":"a"}', SIGNED),
        ToolCall("f2", "list", '{"path":"a"}'),
    )
    assert answer.stop == "tool_calls"


def test_a_signature_in_an_empty_text_is_a_part_of_its_own() -> None:
    pieces, answer = decode(candidate(text("So.")), candidate(text("", **SIGNED), finish="STOP"))
    assert said(pieces) == "So."
    assert answer.parts == (Text("So."), Text("", SIGNED))


def test_a_signature_without_any_text_is_kept_too() -> None:
    assert answer_to(candidate(text("So."), SIGNED), END).parts == (Text("So."), Text("", SIGNED))


def test_a_signed_part_is_never_joined_with_another() -> None:
    fragments = [text("One."), text("Two.", **SIGNED), text("Three."), text("Four.")]
    answer = answer_to(*map(candidate, fragments), END)
    assert answer.parts == (Text("One."), Text("Two.", SIGNED), Text("Three.Four."))


def test_a_signature_behind_the_reason_for_the_end_is_not_lost() -> None:
    answer = answer_to(candidate(text("So."), finish="STOP"), candidate(text("", **SIGNED)))
    assert answer.parts == (Text("So."), Text("", SIGNED))


def test_tokens_are_counted_as_the_last_chunks_have_them() -> None:
    first = {"promptTokenCount": 90, "totalTokenCount": 90}
    last = {
        "promptTokenCount": 90,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5,
        "toolUsePromptTokenCount": 10,
        "totalTokenCount": 112,
    }
    answer = answer_to(
        {**candidate(text("So.")), "usageMetadata": first}, {**END, "usageMetadata": last}
    )
    assert answer.usage == Usage(input=100, output=12, cache_read=60, reasoning=5)


def test_without_tokens_the_answer_stands() -> None:
    assert answer_to(candidate(text("So.")), END).usage == Usage()


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("STOP", "end"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        ("OTHER", "end"),
        ("INVENTED_TOMORROW", "end"),
    ],
)
def test_the_reason_for_the_end_becomes_one_of_ours(finish: str, stop: StopReason) -> None:
    _, answer = decoded(GeminiDecoder(PEER), [candidate(text("So."), finish=finish)])
    assert (answer.parts, answer.stop) == ((Text("So."),), stop)
    assert answer.stopped == (finish if finish in ("OTHER", "INVENTED_TOMORROW") else "")


@pytest.mark.parametrize("finish", ["SAFETY", "RECITATION", "PROHIBITED_CONTENT"])
def test_what_stood_before_a_refusal_is_no_answer(finish: str) -> None:
    assert finish in failing(ContentRefused, candidate(text("So."), finish=finish))


def test_an_answer_that_is_refused_at_once_says_why() -> None:
    refused = {**candidate(finish="SAFETY"), "usageMetadata": {"promptTokenCount": 3}}
    assert failing(ContentRefused, refused) == "acme declined to answer: SAFETY; change the prompt"
    explained = candidate(finish="RECITATION", finishMessage="Too close to a source.")
    assert "Too close to a source." in failing(ContentRefused, explained)


def test_a_prompt_that_is_refused_says_why() -> None:
    chunk = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    assert "declined to answer: PROHIBITED_CONTENT" in failing(ContentRefused, chunk)
    chunk["promptFeedback"]["blockReasonMessage"] = "Not this."
    assert "declined to answer: Not this.;" in failing(ContentRefused, chunk)


@pytest.mark.parametrize(
    "finish", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"]
)
def test_a_call_that_the_model_got_wrong_is_tried_again(finish: str) -> None:
    chunk = candidate(text("Let me see."), finish=finish, finishMessage="print(read('a'))")
    message = failing(BrokenStream, chunk)
    assert "the model's call was malformed (print(read('a'))); try again" in message
    assert finish in failing(BrokenStream, candidate(finish=finish))


def test_a_missing_signature_is_no_reason_to_try_again() -> None:
    failing(InvalidRequest, candidate(finish="MISSING_THOUGHT_SIGNATURE"))


def test_a_stream_that_is_cut_has_no_reason_for_its_end() -> None:
    assert "cut before the answer was whole" in failing(BrokenStream, candidate(text("Hel")))
    unspecified = candidate(text("Hel"), finish="FINISH_REASON_UNSPECIFIED")
    failing(BrokenStream, unspecified)


def test_an_answer_without_words_or_calls_is_empty() -> None:
    assert "gave an empty answer" in failing(EmptyAnswer, END)
    assert "empty answer after reasoning" in failing(
        EmptyAnswer, candidate(text("Hm.", **THOUGHT)), END
    )
    limit = failing(EmptyAnswer, candidate(finish="MAX_TOKENS"))
    assert "raise max_output of the model" in limit


def test_calls_without_ids_get_stable_ones() -> None:
    chunks = [candidate(called(None), called(None, "list")), END]
    ids = [part.id for part in answer_to(*chunks).parts if isinstance(part, ToolCall)]
    assert ids == ["call_0", "call_1"]
    assert answer_to(*chunks) == answer_to(*chunks)


def test_ids_that_repeat_are_told_apart() -> None:
    answer = answer_to(candidate(called("f1")), candidate(called("f1", "list")), END)
    assert [part.id for part in answer.parts if isinstance(part, ToolCall)] == ["f1", "call_1"]


def test_a_call_that_comes_twice_is_one() -> None:
    assert len(answer_to(candidate(called("f1")), candidate(called("f1")), END).parts) == 1
    assert len(answer_to(candidate(called(None)), candidate(called(None)), END).parts) == 2


def test_a_call_without_arguments_has_none() -> None:
    answer = answer_to(candidate({"functionCall": {"name": "list", "id": "f1"}}), END)
    assert answer.parts == (ToolCall("f1", "list", "{}"),)


def test_kinds_of_parts_that_nobody_asked_for_are_left_out() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}, **SIGNED}
    novel = {"hologram": {"size": 3}}
    _, answer = decoded(GeminiDecoder(PEER), [candidate(code, text("So."), novel), END])
    assert answer.parts == (Text("So."),)


def test_only_the_first_candidate_counts() -> None:
    other = {"candidates": [{"index": 1, "content": {"parts": [text("No.")]}}]}
    assert answer_to(candidate(text("So.")), other, END).parts == (Text("So."),)


def test_chunks_without_news_and_a_foreign_end_are_passed_over() -> None:
    chunks: list[Any] = [{}, {"candidates": [{"content": {"role": "model"}}]}, "  "]
    chunks += [candidate(text("So."), finish="STOP"), {"modelVersion": "m"}, "[DONE]"]
    assert decoded(GeminiDecoder(PEER), chunks)[1].parts == (Text("So."),)


def test_half_an_emoji_is_joined_with_its_other_half() -> None:
    fragments = [event('{"candidates": [{"content": {"parts": [{"text": "\\ud83e"}]}}]}')]
    fragments += [event('{"candidates": [{"content": {"parts": [{"text": "\\udd89"}]}}]}')]
    _, answer = decoded(GeminiDecoder(PEER), [*fragments, END])
    assert answer.parts == (Text("🦉"),)


@pytest.mark.parametrize("data", ["{", "[]", "hello", "3"])
def test_an_event_that_is_no_object_is_a_broken_stream(data: str) -> None:
    assert "an event is not a JSON object" in failing(BrokenStream, event(data))


@pytest.mark.parametrize(
    ("code", "status", "message", "kind"),
    [
        (503, "UNAVAILABLE", "The model is overloaded.", ProviderOverloaded),
        (500, "INTERNAL", "An internal error has occurred.", ProviderOverloaded),
        (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.", RateLimited),
        (401, "UNAUTHENTICATED", "No credentials.", AuthenticationFailed),
        (400, "INVALID_ARGUMENT", "The input token count (9) exceeds it.", ContextOverflow),
    ],
)
def test_an_error_inside_the_stream_is_typed(
    code: int, status: str, message: str, kind: type[ProviderError]
) -> None:
    broken = failing(kind, candidate(text("Hel")), error(code, status, message))
    assert message.rstrip(".") in broken


def test_an_answer_in_one_piece_reads_like_its_stream() -> None:
    parts = [text("Hm.", **THOUGHT), text("So."), called(**SIGNED)]
    whole = candidate(*parts, finish="STOP")
    decoder = GeminiDecoder(PEER)
    decoder.feed_whole(whole)
    assert decoder.finish() == answer_to(*map(candidate, parts), END)


def test_thinking_that_a_limit_cut_off_is_an_answer() -> None:
    answer = answer_to(candidate(text("Hm.", **THOUGHT)), candidate(finish="MAX_TOKENS"))
    assert (answer.parts, answer.stop) == ((Reasoning("Hm.", THOUGHT),), "length")
