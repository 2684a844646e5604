"""How the scripted Anthropic says why its prompt cache was missed."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.testing.diagnostics import Diagnostics, check_diagnostics
from perdure.testing.wire import ReceivedRequest, Rejection

TOOL = {"name": "read", "input_schema": {"type": "object"}}


def request(previous: str | None = None, text: str = "Hi", **members: Any) -> ReceivedRequest:
    body: dict[str, Any] = {
        "model": "m",
        "system": "Facts.",
        "messages": [{"role": "user", "content": text}],
        "diagnostics": {"previous_message_id": previous},
        **members,
    }
    return ReceivedRequest(0, "POST", "/v1/messages", {}, b"", body)


def reason(**second: Any) -> Any:
    """Return what is said of a second request, after a plain first one."""
    diagnostics = Diagnostics()
    assert diagnostics.answer(request(), "msg_1") == {"diagnostics": None}
    return diagnostics.answer(request("msg_1", **second), "msg_2")["diagnostics"]


def test_who_does_not_ask_is_told_nothing() -> None:
    assert Diagnostics().answer(request(diagnostics=None), "msg_1") == {}


def test_a_request_that_goes_on_is_told_nothing() -> None:
    more = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    assert reason(messages=more) is None


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"model": "n"}, "model_changed"),
        ({"tools": [TOOL]}, "system_changed"),
        ({"system": "Other facts."}, "system_changed"),
        ({"text": "Ho"}, "messages_changed"),
    ],
)
def test_what_differs_is_named_with_the_tokens_behind_it(changed: Any, kind: str) -> None:
    found = reason(**changed)["cache_miss_reason"]
    assert found["type"] == kind
    assert found["cache_missed_input_tokens"] > 0


def test_other_parameters_are_no_reason_that_it_names() -> None:
    found = reason(thinking={"type": "adaptive"})
    assert found == {"cache_miss_reason": {"type": "unavailable"}}


def test_an_answer_that_it_never_gave_is_not_found() -> None:
    found = Diagnostics().answer(request("msg_9"), "msg_1")["diagnostics"]
    assert found == {"cache_miss_reason": {"type": "previous_message_not_found"}}


@pytest.mark.parametrize("wrong", ["msg_1", {"previous": None}, {"previous_message_id": 3}])
def test_a_question_in_another_shape_is_refused(wrong: Any) -> None:
    with pytest.raises(Rejection, match="diagnostics"):
        check_diagnostics({"diagnostics": wrong})
