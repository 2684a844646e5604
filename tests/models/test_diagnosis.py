"""What a provider says of a missed cache, in whatever shape, and how Anthropic is asked for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.config.load import from_mapping
from perdure.config.schema import Config, ModelConfig, ProviderConfig
from perdure.errors import ConfigurationError
from perdure.history.events import AssistantMessage, decode
from perdure.history.items import AssistantItem, Item
from perdure.models.anthropic_stream import MessagesDecoder
from perdure.models.catalog import profile
from perdure.models.diagnosis import answer_id, anthropic_reason, openai_reason
from perdure.models.openai_responses_stream import ResponsesDecoder
from perdure.models.resolve import Models
from perdure.models.types import Answer
from tests.models.lowered import answer, body, lowering, prompt, told
from tests.models.streams import (
    MESSAGE_STOP,
    PEER,
    RESPONSE_CREATED,
    added,
    block_delta,
    block_start,
    decoded,
    done,
    ended,
    message_delta,
)

ASKING = {"wire": {"cache_diagnostics": True}}


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner)


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20), _larger, max_leaves=6
)


def anthropic(diagnostics: Any, **members: Any) -> Answer:
    """Return the answer of a stream whose message carries these diagnostics."""
    message: dict[str, Any] = {"id": "msg_1", "usage": {}, "diagnostics": diagnostics, **members}
    events: list[Any] = [
        {"type": "message_start", "message": message},
        block_start(0, "text", text=""),
        block_delta(0, "text_delta", text="Hi"),
        message_delta("end_turn"),
        MESSAGE_STOP,
    ]
    return decoded(MessagesDecoder(PEER), events)[1]


def responses(**members: Any) -> Answer:
    """Return the answer of a stream whose response carries these members."""
    item = {"id": "m1", "content": [{"type": "output_text", "text": "Hi"}]}
    stream = [
        RESPONSE_CREATED,
        added(0, "message", id="m1"),
        done(0, "message", **item),
        ended("completed", **members),
    ]
    return decoded(ResponsesDecoder(PEER), stream)[1]


def missed(kind: str, tokens: Any = None) -> dict[str, Any]:
    return {"cache_miss_reason": {"type": kind, "cache_missed_input_tokens": tokens}}


@pytest.mark.parametrize(
    ("diagnostics", "words"),
    [
        (missed("tools_changed", 1234), "tools_changed (1234 input tokens)"),
        (missed("previous_message_not_found"), "previous_message_not_found"),
        ({"cache_miss_reason": None}, ""),
        (None, ""),
        ("soon", ""),
        ({"cache_miss_reason": {"type": 3}}, ""),
        (missed("system_changed", -5), "system_changed"),
        (missed("system_changed", "many"), "system_changed"),
    ],
)
def test_the_reason_of_anthropic_becomes_one_line(diagnostics: Any, words: str) -> None:
    assert anthropic(diagnostics).cache_miss == words


def test_an_answer_that_came_in_one_piece_has_its_reason_too() -> None:
    decoder = MessagesDecoder(PEER)
    content = [{"type": "text", "text": "Hi"}]
    decoder.feed_whole({"type": "message", "content": content, "diagnostics": missed("x", 1)})
    assert decoder.finish().cache_miss == "x (1 input tokens)"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (
            {
                "prompt_cache_diagnostics": {
                    "type": "cache_miss",
                    "reason": "input_changed",
                    "cache_missed_tokens": 2048,
                }
            },
            "input_changed (2048 input tokens)",
        ),
        ({"prompt_cache_diagnostics": {"type": "cache_hit"}}, ""),
        ({"prompt_cache_diagnostics": {"type": "unavailable"}}, "unavailable"),
        (
            {
                "input_transformations": [
                    {"type": "reasoning", "id": "rs_1", "reason": "prefix_mismatch"},
                    {"type": "reasoning", "id": "rs_2", "reason": "prefix_mismatch"},
                    {"type": "reasoning", "id": "rs_3", "reason": "model_mismatch"},
                ]
            },
            "reasoning left out: prefix_mismatch (2 items), model_mismatch",
        ),
        ({"input_transformations": [3, None, {"reason": 7}, {}]}, ""),
        ({"input_transformations": "all"}, ""),
        ({}, ""),
    ],
)
def test_what_openai_says_of_its_cache_becomes_one_line(members: Any, words: str) -> None:
    assert responses(**members).cache_miss == words


def cache_of_responses(diagnostics: Any) -> Answer:
    return responses(prompt_cache_diagnostics=diagnostics)


@pytest.mark.parametrize("say", [anthropic, cache_of_responses])
def test_a_reason_is_shortened_and_holds_neither_keys_nor_line_ends(say: Any) -> None:
    hostile = "secret-key\n\x1b[2J" + "x" * 100_000
    diagnostics = {"type": hostile, **missed(hostile)}
    said = say(diagnostics).cache_miss
    assert 0 < len(said) < 1000
    assert said.isprintable()
    assert "secret-key" not in said


@given(ANYTHING)
@settings(max_examples=60, deadline=None)
def test_no_shape_of_a_reason_raises(value: Any) -> None:
    for found in (value, {"cache_miss_reason": value}, missed("x", value)):
        assert isinstance(anthropic_reason(found), str)
    for name in ("prompt_cache_diagnostics", "input_transformations"):
        for found in (value, [value], {"type": "cache_miss", "reason": value}):
            assert isinstance(openai_reason({name: found}), str)


def test_an_answer_keeps_an_id_that_can_be_named_and_no_other() -> None:
    assert anthropic(None).response == "msg_1"
    assert answer_id("msg_1") == "msg_1"
    for wrong in (7, None, "x" * 129, "a\nb", "ä"):
        assert answer_id(wrong) == ""


def named(item: AssistantItem, response: str) -> AssistantItem:
    return replace(item, response=response)


def asked(*items: Item) -> Any:
    conversation = lowering("anthropic", parameters=ASKING)
    return body(conversation.request(items))["diagnostics"]


def test_the_first_request_that_asks_names_no_answer() -> None:
    assert asked(prompt("Hi")) == {"previous_message_id": None}


def test_a_request_names_the_newest_answer_that_has_an_id() -> None:
    items = [prompt("Hi"), named(answer("A"), "msg_1"), prompt("Go"), answer("B", seq=5)]
    assert asked(*items, prompt("And?")) == {"previous_message_id": "msg_1"}


def test_an_answer_of_another_epoch_or_model_is_not_named() -> None:
    items = [
        prompt("Hi"),
        named(answer("A", epoch=2), "msg_1"),
        prompt("Go"),
        named(answer("B", model="there/m"), "msg_2"),
        prompt("And?"),
    ]
    assert asked(*items) == {"previous_message_id": None}


def test_asking_changes_neither_the_chain_nor_anything_before_the_end() -> None:
    items: list[Item] = [prompt("Hi"), told("Noon."), named(answer("A"), "msg_1"), prompt("Go")]
    plain = lowering("anthropic").request(items)
    asking = lowering("anthropic", parameters=ASKING).request(items)
    assert (asking.blocks, asking.digest) == (plain.blocks, plain.digest)
    assert asking.body.startswith(plain.body.removesuffix(b"}"))
    assert body(asking).keys() - body(plain).keys() == {"diagnostics"}


def test_every_request_that_asks_begins_with_the_one_before_up_to_what_it_asks() -> None:
    conversation = lowering("anthropic", parameters=ASKING)
    items: list[Item] = [prompt("Hi")]
    first = conversation.request(items)
    items += [named(answer("A"), "msg_1"), prompt("Go")]
    second = conversation.request(items, previous=(first.blocks, first.digest))
    assert second.prefix is True
    assert body(second)["messages"][:1] == body(first)["messages"]


def test_a_provider_that_is_configured_so_is_asked() -> None:
    given = ProviderConfig("anthropic", "http://127.0.0.1:1", cache_diagnostics=True)
    selected = Models(Config(providers={"here": given}), {}).select("here/m")
    assert selected.profile.parameters == ASKING


def test_whoever_writes_the_question_into_the_parameters_is_told_not_to() -> None:
    given = ModelConfig(parameters={"diagnostics": {"previous_message_id": None}})
    with pytest.raises(ConfigurationError, match="diagnostics is set by Perdure itself"):
        profile("here", "m", "http://127.0.0.1:1", "anthropic", given)


def test_only_a_provider_that_speaks_anthropic_can_be_asked() -> None:
    local = {"protocol": "openai-chat", "base_url": "http://127.0.0.1:1"}
    content = {"providers": {"local": {**local, "cache_diagnostics": True}}}
    with pytest.raises(ConfigurationError, match=r"local\.cache_diagnostics .*anthropic"):
        from_mapping(content, env={})


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "gemini"])
def test_no_other_protocol_is_asked(protocol: str) -> None:
    request = lowering(protocol, parameters={}).request([prompt("Hi"), named(answer("A"), "r")])
    assert b"diagnostics" not in request.body
    assert b'"r"' not in request.body


def test_events_that_know_nothing_of_it_are_read_and_written_as_before() -> None:
    old = b'{"step":1,"parts":[],"stop":"end"}'
    event = decode("assistant.message", old)
    assert isinstance(event, AssistantMessage)
    assert (event.cache_miss, event.response) == ("", "")
    assert msgspec.json.encode(event) == old
    assert b"response" not in msgspec.json.encode(answer("A"))
