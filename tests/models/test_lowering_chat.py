"""How items become OpenAI Chat Completions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from perdure.errors import ConfigurationError
from perdure.history.content import Form, Reasoning, ToolCall
from perdure.history.items import Item, SummaryItem
from perdure.history.state import Epoch, SessionState
from perdure.models.lowering import SUMMARY
from tests.models.histories import OWN_CHAT
from tests.models.lowered import (
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
    told,
    user,
)


def lowered(*items: Item, form: Form = "wrapped") -> list[Any]:
    return messages("openai-chat", items, form)


def assistant(content: str | None, **members: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **members}


def tool_call(call_id: str, arguments: str = "{}", name: str = "read") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def tool(call_id: str, output: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": output}


def seen(words: str, member: str = "reasoning_content") -> Reasoning:
    return Reasoning(words, {"member": member})


def test_the_head_is_that_of_a_compatible_server() -> None:
    found = body(lowering("openai-chat", given=frame(READ, baseline="Facts.")).request([]))
    function = {"name": "read", "description": "Read a file.", "parameters": {"type": "object"}}
    assert found == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 100,
        "tools": [{"type": "function", "function": function}],
        "messages": [{"role": "system", "content": "Facts."}],
    }


def test_openais_own_endpoint_gets_its_own_members() -> None:
    given = frame(session="s9")
    request = lowering("openai-chat", "native", given, OWN_CHAT).request(
        [prompt("Hi"), told("Now")]
    )
    found = body(request)
    assert found["max_completion_tokens"] == 100
    assert found["prompt_cache_key"] == "s9"
    assert found.keys().isdisjoint({"max_tokens", "wire", "tools"})
    assert found["messages"] == [user("Hi"), {"role": "developer", "content": "Now"}]


@pytest.mark.parametrize(("version", "role"), [(1, "system"), (2, "developer")])
def test_the_baseline_has_the_role_of_system_messages_but_in_epochs_that_began_before(
    version: int, role: str
) -> None:
    given = replace(frame(baseline="Facts."), lowering=version)
    request = lowering("openai-chat", "native", given, OWN_CHAT).request(
        [prompt("Hi"), told("Now")]
    )
    messages = body(request)["messages"]
    assert messages[0] == {"role": role, "content": "Facts."}
    assert messages[-1] == {"role": "developer", "content": "Now"}


def test_an_epoch_stays_with_the_version_of_its_lowering() -> None:
    state = SessionState("s1")
    state.epoch = Epoch(1, 4, "here/m", "Facts.", (), 7, ("session started",))
    assert state.frame("here/m").lowering == 7


def test_an_empty_baseline_makes_no_message() -> None:
    assert lowered(prompt("Hi")) == [user("Hi")]


def test_a_configured_parameter_wins_over_a_default() -> None:
    given: dict[str, Any] = {"stream_options": {}, "temperature": 0.5}
    found = body(lowering("openai-chat", parameters=given).request([prompt("Hi")]))
    assert found["stream_options"] == {}
    assert found["temperature"] == 0.5


def test_conventions_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"parameters\.wire is not valid"):
        lowering("openai-chat", parameters={"wire": {"output_limit": "tokens"}})


def test_prompts_in_a_row_share_a_user_message() -> None:
    items = [SummaryItem(1, "It rained."), prompt("One"), prompt("Two")]
    assert lowered(*items) == [user(f"{SUMMARY}It rained.", "One", "Two")]


def test_a_wrapped_system_message_is_a_further_part_of_the_user_message() -> None:
    assert lowered(prompt("Hi"), told("Noon.")) == [user("Hi", element("Noon."))]


def test_after_tool_messages_a_wrapped_system_message_is_a_user_message() -> None:
    items = [prompt("Hi"), answer(call("t1")), result("t1"), told("Noon.")]
    assert lowered(*items)[2:] == [tool("t1"), user(element("Noon."))]


def test_a_native_system_message_stands_anywhere() -> None:
    items = [prompt("Hi"), told("One"), told("Two"), prompt("Again"), answer("Hello")]
    system = [{"role": "system", "content": words} for words in ("One", "Two")]
    expected = [user("Hi"), *system, user("Again"), assistant("Hello")]
    assert lowered(*items, form="native") == expected


def test_an_answer_of_calls_alone_has_no_content() -> None:
    items = [prompt("Hi"), answer(call("t1", '{"path": "a"}')), result("t1", "")]
    expected = [user("Hi"), assistant(None, tool_calls=[tool_call("t1", '{"path": "a"}')])]
    assert lowered(*items) == [*expected, tool("t1", "")]


@pytest.mark.parametrize("arguments", ["", "{broken", "[1]"])
def test_arguments_that_are_no_json_object_become_an_empty_one(arguments: str) -> None:
    found = lowered(prompt("Hi"), answer(call("t1", arguments)))
    assert found[1] == assistant(None, tool_calls=[tool_call("t1", "{}")])


@pytest.mark.parametrize("member", ["reasoning", "reasoning_content"])
def test_reasoning_goes_back_under_its_member_within_epoch_and_model(member: str) -> None:
    found = lowered(prompt("Hi"), answer(seen("hmm", member), "Hello"))
    assert found[1] == assistant("Hello", **{member: "hmm"})


@pytest.mark.parametrize(("epoch", "model"), [(0, "here/m"), (1, "there/m")])
def test_elsewhere_reasoning_becomes_text(epoch: int, model: str) -> None:
    found = lowered(prompt("Hi"), answer(seen("hmm"), "Hello", epoch=epoch, model=model))
    assert found[1] == assistant("hmm\n\nHello")


DETAILS = [{"type": "reasoning.text", "text": "hmm", "signature": "sig", "index": 0}]


@pytest.mark.parametrize("member", ["reasoning", ""])
def test_details_of_reasoning_go_back_as_they_came_within_epoch_and_model(member: str) -> None:
    opaque = {"details": DETAILS} | ({"member": member} if member else {})
    found = lowered(prompt("Hi"), answer(Reasoning("hmm", opaque), "Hello"))
    words = {member: "hmm"} if member else {}
    assert found[1] == assistant("Hello", **words, reasoning_details=DETAILS)


@pytest.mark.parametrize(("epoch", "model"), [(0, "here/m"), (1, "there/m")])
def test_elsewhere_the_seals_of_details_are_left_out(epoch: int, model: str) -> None:
    sealed = Reasoning("hmm", {"details": DETAILS})
    found = lowered(prompt("Hi"), answer(sealed, "Hello", epoch=epoch, model=model))
    assert found[1] == assistant("hmm\n\nHello")


@pytest.mark.parametrize(
    ("epoch", "model", "stays"), [(1, "here/m", True), (0, "here/m", True), (1, "there/m", False)]
)
def test_the_seal_of_a_call_stays_on_it_with_its_model(epoch: int, model: str, stays: bool) -> None:
    seal = {"extra_content": {"google": {"thought_signature": "sig"}}}
    sealed = ToolCall("t1", "read", "{}", seal)
    found = lowered(prompt("Hi"), answer(sealed, epoch=epoch, model=model), result("t1"))
    assert found[1] == assistant(None, tool_calls=[tool_call("t1") | (seal if stays else {})])


def test_reasoning_from_another_protocol_becomes_text() -> None:
    sealed = Reasoning("hmm", {"type": "thinking", "thinking": "hmm", "signature": "s"})
    assert lowered(prompt("Hi"), answer(sealed, "Hello"))[1] == assistant("hmm\n\nHello")


def test_an_answer_of_reasoning_alone_makes_no_message() -> None:
    assert lowered(prompt("Hi"), answer(seen("hmm")), prompt("Go")) == [user("Hi", "Go")]


def test_long_and_repeated_call_ids_are_made_fit() -> None:
    long = "chatcmpl-tool-" + "a" * 40
    items = [
        prompt("Hi"),
        answer(call(long), call("functions.read:0")),
        result(long),
        result("functions.read:0"),
        answer(call("functions.read:0"), step=9),
    ]
    found = lowered(*items)
    calls = [each["id"] for each in found[1]["tool_calls"]]
    assert calls == [long[:40], "functions.read:0"]
    assert [found[2]["tool_call_id"], found[3]["tool_call_id"]] == calls
    assert found[4]["tool_calls"][0]["id"] == "functions.read:0_9_0"
