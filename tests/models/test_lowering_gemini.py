"""How items become Gemini's contents."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.config.schema import ModelConfig
from perdure.errors import ConfigurationError
from perdure.history.content import Reasoning, Text, ToolCall, ToolDefinition
from perdure.history.items import AssistantItem, Item, NoteItem, ResultItem, SummaryItem
from perdure.models.catalog import profile
from perdure.models.gemini import FOREIGN
from perdure.models.lowering import HEAD_CHANGED, SUMMARY
from perdure.testing import gemini_rules
from perdure.testing.wire import ReceivedRequest, Rules
from tests.models.lowered import READ, answer, body, call, frame, lowering, prompt, result, told
from tests.models.sdk_types import check_request

PROTOCOL = "gemini"
OPTIONAL = {"wire": {"signatures": "optional"}}
HOME = "https://generativelanguage.googleapis.com/v1beta"


def lowered(*items: Item, given: Any = None, **parameters: Any) -> list[Any]:
    found = body(lowering(PROTOCOL, given=given, parameters=parameters).request(items))
    check_request(PROTOCOL, found)
    return found["contents"]


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [_part(part) for part in parts]}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": [_part(part) for part in parts]}


def _part(part: Any) -> dict[str, Any]:
    return {"text": part} if isinstance(part, str) else part


def called(call_id: str, signature: str | None = FOREIGN, **args: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"id": call_id, "name": "read", "args": args}}
    return {**part, "thoughtSignature": signature} if signature else part


def responded(call_id: str, text: str = "done", member: str = "output") -> dict[str, Any]:
    response = {"id": call_id, "name": "read", "response": {member: text}}
    return {"functionResponse": response}


def element(words: str) -> str:
    return f"<system-message-k7q>\n{words}\n</system-message-k7q>"


def signed(part: ToolCall | Text, signature: str = "c2lnbg==") -> Any:
    return replace(part, opaque={"thoughtSignature": signature})


def test_the_head_holds_the_baseline_the_tools_and_the_output_limit() -> None:
    given = frame(ToolDefinition("z", "Last.", {"type": "object"}), READ, baseline="Facts.")
    found = body(lowering(PROTOCOL, given=given).request([prompt("Hi")]))
    check_request(PROTOCOL, found)
    declared = [
        {"name": "read", "description": "Read a file.", "parametersJsonSchema": {"type": "object"}},
        {"name": "z", "description": "Last.", "parametersJsonSchema": {"type": "object"}},
    ]
    assert found == {
        "generationConfig": {"maxOutputTokens": 100},
        "tools": [{"functionDeclarations": declared}],
        "systemInstruction": {"parts": [{"text": "Facts."}]},
        "contents": [user("Hi")],
    }


def test_without_baseline_and_tools_neither_is_sent() -> None:
    found = body(lowering(PROTOCOL).request([prompt("Hi")]))
    assert found.keys() == {"generationConfig", "contents"}


def test_parameters_go_along_beside_the_output_limit() -> None:
    generation = {"thinkingConfig": {"includeThoughts": True}, "temperature": 0.5}
    given: dict[str, Any] = {"generationConfig": generation, "safetySettings": []}
    found = body(lowering(PROTOCOL, parameters=given).request([prompt("Hi")]))
    check_request(PROTOCOL, found)
    assert found["generationConfig"] == {**generation, "maxOutputTokens": 100}
    assert found["safetySettings"] == []


@pytest.mark.parametrize(
    ("generation", "prefix"),
    [({"temperature": 1}, True), ({"thinkingConfig": {"thinkingLevel": "LOW"}}, False)],
)
def test_only_what_changes_the_prompt_breaks_the_prefix(generation: Any, prefix: bool) -> None:
    first = lowering(PROTOCOL).request([prompt("Hi")])
    other = lowering(PROTOCOL, parameters={"generationConfig": generation})
    request = other.request([prompt("Hi")], previous=(first.blocks, first.digest))
    assert (request.prefix, request.cause) == (prefix, "" if prefix else HEAD_CHANGED)


def test_what_the_user_role_says_in_a_row_shares_a_content() -> None:
    items = [SummaryItem(1, "It rained."), prompt("One"), NoteItem(2, "Two"), told("Noon.")]
    assert lowered(*items) == [user(f"{SUMMARY}It rained.", "One", "Two", element("Noon."))]


def test_a_system_message_is_wrapped_whatever_form_it_is_given() -> None:
    found = body(lowering(PROTOCOL, "native").request([prompt("Hi"), told("Noon.", "native")]))
    assert found["contents"] == [user("Hi", element("Noon."))]


def test_responses_share_a_content_of_their_own() -> None:
    items = [prompt("Hi"), answer(call("a"), call("b")), result("b", "2"), result("a", "1")]
    assert lowered(*items, told("Noon."), prompt("And?")) == [
        user("Hi"),
        model(called("a"), called("b", None)),
        user(responded("b", "2"), responded("a", "1")),
        user(element("Noon."), "And?"),
    ]


def test_a_result_that_did_not_complete_is_an_error() -> None:
    failed = ResultItem(4, "a", "read", "No such file.", "failed")
    found = lowered(prompt("Hi"), answer(call("a")), failed)
    assert found[-1] == user(responded("a", "No such file.", "error"))


def test_signatures_go_back_where_they_stood() -> None:
    parts = (
        Reasoning("Hm.", {"thought": True}),
        Text("Let me see."),
        signed(call("a", '{"path": "x"}')),
        call("b"),
        signed(Text("")),
    )
    found = lowered(prompt("Hi"), answer(*parts), result("a"), result("b"))
    assert found[1] == model(
        {"text": "Hm.", "thought": True},
        "Let me see.",
        called("a", "c2lnbg==", path="x"),
        called("b", None),
        {"text": "", "thoughtSignature": "c2lnbg=="},
    )


def test_in_another_epoch_signatures_stay_on_their_calls_only() -> None:
    parts = (Reasoning("Hm.", {"thought": True}), signed(Text("So.")), signed(call("a")))
    found = lowered(prompt("Hi"), answer(*parts, signed(Text("")), epoch=0), result("a"))
    assert found[1] == model("Hm.", "So.", called("a", "c2lnbg=="))


def test_calls_of_another_model_get_the_signature_for_foreign_ones() -> None:
    parts = (signed(Text("So.")), signed(call("a")), signed(call("b")))
    elsewhere = answer(*parts, model="here/other")
    assert lowered(prompt("Hi"), elsewhere, result("a"), result("b"))[1] == model(
        "So.", called("a"), called("b", None)
    )


def test_a_call_that_came_without_its_signature_gets_one_too() -> None:
    assert lowered(prompt("Hi"), answer(call("a")), result("a"))[1] == model(called("a"))


def test_models_that_need_no_signature_get_only_their_own() -> None:
    found = lowered(
        prompt("Hi"), answer(call("a"), signed(call("b"))), result("a"), result("b"), **OPTIONAL
    )
    assert found[1] == model(called("a", None), called("b", "c2lnbg=="))


def test_the_foreign_signature_is_base64_as_the_member_wants_it() -> None:
    assert base64.urlsafe_b64decode(FOREIGN)
    assert FOREIGN in gemini_rules.FOREIGN


@pytest.mark.parametrize(
    "opaque",
    [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "s"},
        {"member": "reasoning_content"},
        {"thought": "yes", "thoughtSignature": 3},
        "text",
    ],
)
def test_what_another_protocol_sealed_is_plain_text(opaque: Any) -> None:
    found = lowered(prompt("Hi"), answer(Reasoning("Hm.", opaque), "So."), prompt("Go"))
    assert found[1] == model("Hm.", "So.")


@pytest.mark.parametrize("arguments", ["", "{broken", '["list"]', "null"])
def test_arguments_that_are_no_object_become_an_empty_one(arguments: str) -> None:
    found = lowered(prompt("Hi"), answer(call("a", arguments)), result("a"))
    assert found[1] == model(called("a"))


@pytest.mark.parametrize(
    ("name", "sent"), [("made up", "made_up"), ("", "unknown"), ("3d", "_3d"), ("-x", "_-x")]
)
def test_a_name_that_no_function_can_have_is_made_to_fit(name: str, sent: str) -> None:
    outcome = ResultItem(4, "a", name, "There is no such tool.", "failed")
    found = lowered(prompt("Hi"), answer(call("a", name=name)), outcome)
    assert found[1]["parts"][0]["functionCall"]["name"] == sent
    assert found[2]["parts"][0]["functionResponse"]["name"] == sent


def test_ids_that_repeat_are_told_apart_on_call_and_response() -> None:
    first = [prompt("Hi"), answer(call("call_0")), result("call_0")]
    found = lowered(*first, answer(call("call_0"), step=2), result("call_0"))
    second = found[3]["parts"][0]["functionCall"]["id"]
    assert second != "call_0"
    assert found[4]["parts"][0]["functionResponse"]["id"] == second


def test_what_the_lowering_writes_is_what_the_strict_provider_accepts() -> None:
    elsewhere = answer(signed(call("a")), call("b"), model="here/other", epoch=0)
    items = [prompt("Hi"), elsewhere, result("a"), result("b"), told("Noon.")]
    items += [answer("So."), prompt("Go"), answer(call("c"), step=2), result("c")]
    request = lowering(PROTOCOL, given=frame(READ, baseline="Facts.")).request(items)
    path = "/v1beta/models/m:streamGenerateContent?alt=sse"
    received = ReceivedRequest(0, "POST", path, {}, request.body, body(request))
    assert gemini_rules.check_body(received, Rules()) == []


def test_native_system_messages_are_refused_in_the_configuration() -> None:
    given = ModelConfig(system_messages="native")
    with pytest.raises(ConfigurationError, match=r"models\.m\.system_messages: gemini has no role"):
        profile("g", "m", HOME, PROTOCOL, given)


@pytest.mark.parametrize("name", ["contents", "systemInstruction", "cachedContent", "tools"])
def test_members_that_the_lowering_writes_are_refused_in_the_configuration(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name} is set by Perdure itself"):
        profile("g", "m", HOME, PROTOCOL, ModelConfig(parameters={name: []}))


def test_generation_settings_that_are_no_table_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="generationConfig is no table"):
        profile("g", "m", HOME, PROTOCOL, ModelConfig(parameters={"generationConfig": 3}))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gemini-2.5-flash", OPTIONAL),
        ("gemini-1.5-pro", OPTIONAL),
        ("gemini-3.1-pro-preview", {}),
        ("gemini-4-argon", {}),
        ("tomorrow", {}),
    ],
)
@pytest.mark.parametrize("url", [HOME, "http://127.0.0.1:1/v1beta"])
def test_models_need_signatures_since_gemini_3_whoever_serves_them(
    name: str, parameters: dict[str, Any], url: str
) -> None:
    found = profile("g", name, url, PROTOCOL)
    assert found.parameters == parameters
    assert gemini_rules.needs_signatures(name) == (parameters == {})
    assert found.system_messages == "wrapped"


def test_an_answer_without_words_or_calls_is_no_content() -> None:
    silent = AssistantItem(3, 1, (Reasoning("Hm.", {"thought": True}),), 1, "here/m")
    assert lowered(prompt("Hi"), silent, prompt("Go")) == [user("Hi", "Go")]
