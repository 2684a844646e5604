"""How items become OpenAI Responses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.errors import ConfigurationError
from perdure.history.content import Form, Part, Reasoning, Text, ToolCall
from perdure.history.items import Item, NoteItem, SummaryItem
from perdure.models.lowering import HEAD_CHANGED, SUMMARY
from tests.models.histories import Player, Story, as_received, stories
from tests.models.lowered import (
    READ,
    answer,
    body,
    call,
    frame,
    lowering,
    prompt,
    result,
    told,
)
from tests.models.openai_types import check_request

PROTOCOL = "openai-responses"
SEALED: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "c2VhbA==",
}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
}
FUNCTION = {"type": "function_call", "id": "fc_1", "status": "completed"}


def lowered(*items: Item, form: Form = "native", **parameters: Any) -> list[Any]:
    request = lowering(PROTOCOL, form, parameters=parameters).request(items)
    found = body(request)
    check_request(found)
    return found["input"]


def user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


def element(words: str) -> str:
    return f"<system-message-k7q>\n{words}\n</system-message-k7q>"


def assistant(text: str, **members: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **members}


def message(text: str) -> dict[str, Any]:
    return MESSAGE | {"content": [{"type": "output_text", "text": text, "annotations": []}]}


def function_call(call_id: str, arguments: str = "{}", **members: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": "read",
        "arguments": arguments,
        **members,
    }


def output(call_id: str, text: str = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def sealed(text: str = "hmm", **members: Any) -> Reasoning:
    return Reasoning(text, SEALED | members)


def own(part: ToolCall, item: str = "fc_1") -> ToolCall:
    return replace(part, opaque=FUNCTION | {"id": item})


def test_the_head_leaves_no_state_with_the_provider() -> None:
    given = frame(READ, baseline="Facts.", session="s9")
    found = body(lowering(PROTOCOL, given=given).request([prompt("Hi")]))
    check_request(found)
    assert found == {
        "model": "m",
        "stream": True,
        "store": False,
        "max_output_tokens": 100,
        "prompt_cache_key": "s9",
        "include": ["reasoning.encrypted_content"],
        "parallel_tool_calls": True,
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Read a file.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "input": [{"role": "developer", "content": "Facts."}, user("Hi")],
    }


def test_without_baseline_and_tools_neither_is_sent() -> None:
    found = body(lowering(PROTOCOL).request([prompt("Hi")]))
    assert found.keys().isdisjoint({"tools", "parallel_tool_calls", "instructions"})
    assert found["input"] == [user("Hi")]


def test_parameters_of_the_model_go_along() -> None:
    given: dict[str, Any] = {"reasoning": {"effort": "low"}, "parallel_tool_calls": False}
    found = body(lowering(PROTOCOL, given=frame(READ), parameters=given).request([prompt("Hi")]))
    check_request(found)
    assert found["reasoning"] == {"effort": "low"}
    assert found["parallel_tool_calls"] is False


def test_prompts_in_a_row_share_a_user_message() -> None:
    items = [SummaryItem(1, "It rained."), prompt("One"), NoteItem(2, "Two")]
    assert lowered(*items) == [user(f"{SUMMARY}It rained.", "One", "Two")]


def test_a_system_message_is_a_developer_item_anywhere() -> None:
    items = [prompt("Hi"), told("One"), told("Two"), prompt("Again"), answer("Hello")]
    told_items = [{"role": "developer", "content": words} for words in ("One", "Two")]
    assert lowered(*items) == [user("Hi"), *told_items, user("Again"), assistant("Hello")]


def test_a_wrapped_system_message_is_a_further_part_of_the_user_message() -> None:
    found = lowered(prompt("Hi"), told("Noon."), form="wrapped")
    assert found == [user("Hi", element("Noon."))]


def test_after_outputs_a_wrapped_system_message_is_a_user_message() -> None:
    items = [prompt("Hi"), answer(call("t1")), result("t1"), told("Noon.")]
    assert lowered(*items, form="wrapped")[2:] == [output("t1"), user(element("Noon."))]


def test_a_server_that_knows_no_developer_gets_system_items() -> None:
    given = frame(baseline="Facts.")
    wire = {"wire": {"system_role": "system", "encrypted_reasoning": False}}
    request = lowering(PROTOCOL, "native", given, wire).request([prompt("Hi"), told("Noon.")])
    found = body(request)
    assert [item["role"] for item in found["input"]] == ["system", "user", "system"]
    assert "include" not in found
    other = lowering(PROTOCOL, "native", given).request(
        [prompt("Hi")], previous=(request.blocks, request.digest)
    )
    assert other.cause == HEAD_CHANGED


def test_conventions_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"parameters\.wire is not valid"):
        lowering(PROTOCOL, parameters={"wire": {"system_role": "boss"}})


def test_an_answer_goes_back_as_it_came() -> None:
    parts = [sealed(), Text("Look:", MESSAGE), sealed(id="rs_2"), own(call("t1", '{"a": 1}'))]
    found = lowered(prompt("Hi"), answer(*parts), result("t1"))
    assert found[1:] == [
        SEALED,
        message("Look:"),
        SEALED | {"id": "rs_2"},
        function_call("t1", '{"a": 1}', **FUNCTION),
        output("t1"),
    ]


def test_a_message_of_several_parts_goes_back_whole() -> None:
    content = [{"type": "refusal", "refusal": "No."}]
    item = MESSAGE | {"content": content}
    assert lowered(prompt("Hi"), answer(Text("No.", item)))[1] == item


def test_a_blank_message_behind_reasoning_goes_back_too() -> None:
    parts = [sealed(), Text("", MESSAGE), own(call("t1"))]
    found = lowered(prompt("Hi"), answer(*parts), result("t1"))
    assert found[1:3] == [SEALED, message("")]


@pytest.mark.parametrize(("epoch", "model"), [(0, "here/m"), (2, "here/m"), (1, "there/m")])
def test_elsewhere_nothing_sealed_and_no_id_goes_along(epoch: int, model: str) -> None:
    parts = [sealed("I see."), Text("Look:", MESSAGE), own(call("t1")), sealed("")]
    found = lowered(prompt("Hi"), answer(*parts, epoch=epoch, model=model), result("t1"))
    said = assistant("Look:", phase="commentary") if model == "here/m" else assistant("Look:")
    assert found[1:] == [assistant("I see."), said, function_call("t1"), output("t1")]


def test_reasoning_of_another_protocol_becomes_text() -> None:
    thinking = Reasoning("hmm", {"type": "thinking", "thinking": "hmm", "signature": "s"})
    found = lowered(prompt("Hi"), answer(thinking, "Hello"))
    assert found[1:] == [assistant("hmm"), assistant("Hello")]


def test_without_a_seal_no_id_goes_along_either() -> None:
    shown = sealed("hmm", encrypted_content=None)
    found = lowered(prompt("Hi"), answer(shown, Text("Hello", MESSAGE)))
    assert found[1:] == [assistant("hmm"), assistant("Hello", phase="commentary")]


def test_open_reasoning_goes_back_without_a_seal() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hmm"}],
    }
    assert lowered(prompt("Hi"), answer(Reasoning("hmm", item), "Hello"))[1] == item


@pytest.mark.parametrize("last", [sealed(id="rs_2"), Reasoning("cut"), Text(" \n")])
def test_reasoning_with_nothing_behind_it_is_left_out(last: Part) -> None:
    parts = [sealed(), Text("Hello", MESSAGE), sealed(id="rs_3"), last]
    assert lowered(prompt("Hi"), answer(*parts))[1:] == [SEALED, message("Hello")]


def test_an_answer_of_reasoning_alone_makes_no_item() -> None:
    assert lowered(prompt("Hi"), answer(sealed()), prompt("Go")) == [user("Hi", "Go")]


@pytest.mark.parametrize("arguments", ["", "{broken", "[1]"])
def test_arguments_that_are_no_json_object_become_an_empty_one(arguments: str) -> None:
    found = lowered(prompt("Hi"), answer(call("t1", arguments)), result("t1"))
    assert found[1] == function_call("t1", "{}")


def test_long_and_repeated_call_ids_are_made_fit() -> None:
    long = "call_" + "a" * 80
    items = [prompt("Hi"), answer(call(long)), result(long), answer(call(long), seq=9)]
    found = lowered(*items)
    assert [found[1]["call_id"], found[2]["call_id"]] == [long[:64], long[:64]]
    assert found[3]["call_id"] == f"{long[:60]}_1_0"


@given(stories())
def test_every_request_has_the_types_of_openais_own_library(story: Story) -> None:
    for sent in Player(replace(story, protocol=PROTOCOL)).play():
        check_request(as_received(sent.request.body).json)


@given(stories())
def test_every_request_begins_with_the_bytes_of_the_last_one(story: Story) -> None:
    sent = [each.request.body for each in Player(replace(story, protocol=PROTOCOL)).play()]
    for earlier, later in pairwise(sent):
        assert later.startswith(earlier.removesuffix(b"]}").removesuffix(b"]}"))


@given(st.sampled_from(["native", "wrapped"]), st.text(max_size=5))
def test_equal_histories_give_equal_bytes(form: Form, text: str) -> None:
    items = [prompt("Hi" + text), answer(sealed(), Text("A", MESSAGE)), told("Now")]
    first, second = (lowering(PROTOCOL, form).request(items).body for _ in range(2))
    assert first == second
