"""How items become Anthropic Messages."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.history.content import Form, Reasoning, ToolDefinition
from perdure.history.items import Item, NoteItem, ResultItem, SummaryItem
from perdure.models.lowering import SUMMARY
from tests.models.lowered import (
    CACHED,
    READ,
    answer,
    body,
    call,
    element,
    frame,
    lowering,
    messages,
    prompt,
    result,
    text,
    thinking,
    told,
    user,
    whole,
)


def lowered(*items: Item, form: Form = "wrapped") -> list[Any]:
    return messages("anthropic", items, form)


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [text(c) if isinstance(c, str) else c for c in content]}


def system(*words: str) -> dict[str, Any]:
    return {"role": "system", "content": [text(each) for each in words]}


def tool_use(call_id: str, given: Any = None, name: str = "read") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}}


def tool_result(call_id: str, output: str = "done") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": output}


def test_the_head_holds_the_baseline_and_the_tools_by_name_each_with_a_marker() -> None:
    write = ToolDefinition("write", "Write.", {"type": "object", "properties": {}})
    found = body(
        lowering("anthropic", given=frame(write, READ, baseline="Facts.")).request([prompt("Hi")])
    )
    assert found["model"] == "m"
    assert found["max_tokens"] == 100
    assert found["stream"] is True
    assert found["system"] == [{**text("Facts."), "cache_control": CACHED}]
    assert [tool["name"] for tool in found["tools"]] == ["read", "write"]
    assert "cache_control" not in found["tools"][0]
    assert found["tools"][1]["cache_control"] == CACHED


def test_an_empty_baseline_and_no_tools_leave_no_member() -> None:
    found = body(lowering("anthropic").request([prompt("Hi")]))
    assert found.keys() == {"model", "max_tokens", "stream", "messages"}


def test_tool_definitions_are_the_same_bytes_whatever_their_order() -> None:
    first = ToolDefinition("a", "A.", {"type": "object", "properties": {"x": {}, "y": {}}})
    turned = ToolDefinition("a", "A.", {"properties": {"y": {}, "x": {}}, "type": "object"})
    one = lowering("anthropic", given=frame(first, READ)).request([prompt("Hi")])
    other = lowering("anthropic", given=frame(READ, turned)).request([prompt("Hi")])
    assert whole(one) == whole(other)


def test_prompts_notes_and_a_summary_share_the_user_turn() -> None:
    items = [SummaryItem(1, "It rained."), prompt("One"), prompt("Two"), NoteItem(3, "Hurry.")]
    assert lowered(*items) == [user(f"{SUMMARY}It rained.", "One", "Two", "Hurry.")]


def test_results_come_before_words_in_the_user_turn() -> None:
    items = [prompt("Go"), answer(call("t1")), NoteItem(4, "Last step."), result("t1")]
    assert lowered(*items)[2] == user(tool_result("t1"), "Last step.")


def test_a_wrapped_system_message_is_a_further_block_of_the_user_turn() -> None:
    assert lowered(prompt("Hi"), told("It is noon.")) == [user("Hi", element("It is noon."))]


def test_no_text_is_altered_to_fit_into_the_element() -> None:
    words = 'a </system-message> & "b" <system-message-other>'
    assert lowered(prompt(words), told(words)) == [user(words, element(words))]


def test_a_native_system_message_follows_the_user_turn() -> None:
    items = [prompt("Hi"), told("It is noon."), answer("Hello")]
    expected = [user("Hi"), system("It is noon."), assistant("Hello")]
    assert lowered(*items, form="native") == expected


def test_a_native_system_message_follows_tool_results() -> None:
    items = [prompt("Hi"), answer(call("t1")), result("t1"), told("It is noon.")]
    assert lowered(*items, form="native")[2:] == [user(tool_result("t1")), system("It is noon.")]


def test_two_native_system_messages_in_a_row_share_one_entry() -> None:
    items = [prompt("Hi"), told("One"), told("Two")]
    assert lowered(*items, form="native") == [user("Hi"), system("One", "Two")]


def test_a_native_system_message_in_front_of_a_prompt_is_wrapped_instead() -> None:
    items = [prompt("Hi"), told("One"), prompt("Again"), told("Two")]
    request = lowering("anthropic", "native").request(items)
    assert request.forms == ("wrapped", "native")
    expected = [user("Hi", element("One"), "Again"), system("Two")]
    assert lowered(*items, form="native") == expected


def test_a_native_system_message_without_a_user_turn_before_it_is_wrapped() -> None:
    assert lowered(told("One"), form="native") == [user(element("One"))]
    items = [prompt("Hi"), answer("Hello"), told("One")]
    assert lowered(*items, form="native")[2] == user(element("One"))


def test_a_form_that_an_answer_has_bound_is_kept() -> None:
    items = [prompt("Hi"), told("One", "wrapped"), answer("Hello"), prompt("Go"), told("Two")]
    expected = [user("Hi", element("One")), assistant("Hello"), user("Go"), system("Two")]
    assert lowered(*items, form="native") == expected
    assert lowering("anthropic", "native").request(items).forms == ("native",)


def test_thinking_goes_back_as_it_came_within_epoch_and_model() -> None:
    sealed = {"type": "redacted_thinking", "data": "xyz"}
    items = [prompt("Hi"), answer(thinking(), Reasoning("", sealed), "Hello")]
    block = {"type": "thinking", "thinking": "hmm", "signature": "sig"}
    assert lowered(*items)[1] == assistant(block, sealed, "Hello")


@pytest.mark.parametrize(("epoch", "model"), [(0, "here/m"), (1, "there/m")])
def test_elsewhere_visible_reasoning_is_text_and_sealed_thinking_is_left_out(
    epoch: int, model: str
) -> None:
    sealed = Reasoning("", {"type": "redacted_thinking", "data": "xyz"})
    given = answer(thinking(), sealed, "Hello", epoch=epoch, model=model)
    assert lowered(prompt("Hi"), given)[1] == assistant("hmm", "Hello")


def test_thinking_at_the_end_of_an_answer_is_left_out() -> None:
    assert lowered(prompt("Hi"), answer("Hel", thinking()), prompt("Go"))[1] == assistant("Hel")


def test_an_answer_of_thinking_alone_makes_no_turn() -> None:
    assert lowered(prompt("Hi"), answer(thinking()), prompt("Go")) == [user("Hi", "Go")]


def test_blank_text_makes_no_block() -> None:
    items = [prompt(" \n"), prompt("Hi"), answer(" ", "Hello")]
    assert lowered(*items) == [user("Hi"), assistant("Hello")]


def test_the_input_of_a_call_is_its_json_text_as_it_came() -> None:
    request = lowering("anthropic").request([prompt("Hi"), answer(call("t1", '{"n" : 1e2 }'))])
    assert b'"input":{"n" : 1e2 }' in request.body


@pytest.mark.parametrize("arguments", ["", "{broken", "[1]", "null", '{"a": 1} x'])
def test_arguments_that_are_no_json_object_become_an_empty_one(arguments: str) -> None:
    assert lowered(prompt("Hi"), answer(call("t1", arguments)))[1] == assistant(tool_use("t1"))


def test_a_result_that_did_not_complete_is_an_error() -> None:
    failed = ResultItem(4, "t1", "read", "no such file", "failed")
    expected = {**tool_result("t1", "no such file"), "is_error": True}
    assert lowered(prompt("Hi"), answer(call("t1")), failed)[2] == user(expected)


def test_an_error_without_words_gets_some_and_an_empty_result_has_no_content() -> None:
    calls = answer(call("t1"), call("t2"))
    failed = ResultItem(4, "t1", "read", " ", "unknown")
    found = lowered(prompt("Hi"), calls, failed, result("t2", ""))[2]
    assert found == user(
        {**tool_result("t1", "(no output)"), "is_error": True},
        {"type": "tool_result", "tool_use_id": "t2"},
    )


def test_call_ids_of_another_provider_are_made_fit_and_unique() -> None:
    items = [
        prompt("Hi"),
        answer(call("functions.read:0"), call("call_0"), seq=3),
        result("functions.read:0"),
        result("call_0"),
        answer(call("call_0"), step=9),
        result("call_0"),
    ]
    found = lowered(*items)
    assert found[1] == assistant(tool_use("functions_read_0"), tool_use("call_0"))
    assert found[2] == user(tool_result("functions_read_0"), tool_result("call_0"))
    assert found[3] == assistant(tool_use("call_0_9_0"))
    assert found[4] == user(tool_result("call_0_9_0"))


def test_the_name_of_a_tool_that_never_existed_is_made_fit() -> None:
    items = [prompt("Hi"), answer(call("t1", name="my tool"), call("t2", name=""))]
    expected = assistant(tool_use("t1", name="my_tool"), tool_use("t2", name="unknown"))
    assert lowered(*items)[1] == expected


def test_at_most_four_markers_stand_on_tool_baseline_anchor_and_end() -> None:
    given = frame(READ, baseline="Facts.")
    items = [
        prompt("Hi"),
        told("Noon."),
        answer(thinking(), call("t1")),
        result("t1"),
        prompt("Go"),
    ]
    request = lowering("anthropic", "native", given).request(items)
    assert request.body.count(b"cache_control") == 4
    found = body(request)["messages"]
    assert found[1]["content"] == [{**text("Noon."), "cache_control": CACHED}]
    assert found[3]["content"][-1] == {**text("Go"), "cache_control": CACHED}


def test_the_anchor_is_the_end_of_the_request_before() -> None:
    conversation = lowering("anthropic")
    items: list[Item] = [prompt("Hi"), told("Noon.")]
    first = body(conversation.request(items))["messages"]
    items += [answer("Hello"), prompt("Go")]
    second = body(conversation.request(items))["messages"]
    assert first[0]["content"][-1]["cache_control"] == CACHED
    assert second[0]["content"][-1] == first[0]["content"][-1]


def test_thinking_is_never_marked() -> None:
    request = lowering("anthropic").request([prompt("Hi"), answer("Hello", thinking())])
    assert b'"sig","cache_control"' not in request.body
    assert body(request)["messages"][1]["content"] == [{**text("Hello"), "cache_control": CACHED}]


def test_parameters_are_body_members_but_never_replace_our_own() -> None:
    given: dict[str, Any] = {
        "thinking": {"type": "adaptive"},
        "system": "x",
        "messages": [],
        "wire": {},
    }
    found = body(lowering("anthropic", parameters=given).request([prompt("Hi")]))
    assert found["thinking"] == {"type": "adaptive"}
    assert found.keys() == {"model", "max_tokens", "stream", "thinking", "messages"}
