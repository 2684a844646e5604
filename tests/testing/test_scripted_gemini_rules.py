"""What the scripted provider refuses as Gemini does."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from perdure.testing import Reply, ScriptedProvider, call, calls, say, think
from tests.testing.gemini_wire import TOOL, asks, model, post, request, responds, user

pytestmark = pytest.mark.anyio

OLD = "gemini-2.5-flash"
NUMBER = "the number of function response parts is equal to the number of function call parts"


async def refusal(client: httpx2.AsyncClient, body: Any, name: str = "model-1") -> str:
    async with ScriptedProvider([]) as provider:
        response = await post(client, provider, body, name=name)
        assert [each.status for each in provider.refused] == [400]
    assert response.status_code == 400
    assert response.json()["error"]["status"] == "INVALID_ARGUMENT"
    return response.json()["error"]["message"]


async def accepted(client: httpx2.AsyncClient, body: Any, name: str = "model-1") -> tuple[str, ...]:
    """Post what must be accepted, and return the remarks about it."""
    async with ScriptedProvider([say("Fine.")]) as provider:
        assert (await post(client, provider, body, name=name)).status_code == 200
        return provider.requests[0].remarks


async def answer(
    client: httpx2.AsyncClient, reply: Reply, *contents: Any, name: str = "model-1"
) -> dict[str, Any]:
    """Return the content that a reply is put as, whole."""
    async with ScriptedProvider([reply]) as provider:
        response = await post(client, provider, request(*contents), name=name, stream=False)
    return response.json()["candidates"][0]["content"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "Invalid JSON payload received."),
        ({}, "contents is not specified"),
        ({"contents": []}, "contents is not specified"),
        (request(model="m"), 'Unknown name "model": Cannot find field.'),
        (request(generationConfig={"top": 1}), "Unknown name \"top\" at 'generation_config'"),
        (request(generationConfig={"maxOutputTokens": "9"}), "max_output_tokens' (TYPE_INT32)"),
        (request(generationConfig={"maxOutputTokens": 0}), "must be positive"),
        (request({"role": "system", "parts": [{"text": "x"}]}), "use a valid role: user, model."),
        (request({"role": "user", "parts": []}), "contents[0].parts: contents.parts must not be"),
        (request({"role": "user", "content": "x"}), "Unknown name \"content\" at 'contents[0]'"),
        (request(user({"text": 3})), "Invalid value at 'contents[0].parts[0].text' (TYPE_STRING)"),
        (request(user({"thought": True})), "required oneof field 'data'"),
        (request(user({"text": "x", **responds()})), "required oneof field 'data'"),
        (request(user("")), "empty text parameter"),
        (request(systemInstruction={"parts": []}), "system_instruction.parts"),
        (request(systemInstruction={"text": "x"}), "Unknown name"),
        (request(user("x"), model("y")), "multiturn requests end with a user role"),
        (request(model("x"), user("y")), "multiturn requests begin with a user role"),
        (request(user("x"), user("y")), "alternate between user and model"),
        (request(user("x"), model("y"), model("z"), user("w")), "alternate between"),
        (request(user(asks())), "function calls are in a turn of the model role"),
    ],
)
async def test_a_body_that_is_not_as_documented_is_refused(
    client: httpx2.AsyncClient, body: Any, words: str
) -> None:
    assert words in await refusal(client, body)


DECLARED: list[tuple[list[dict[str, Any]], str]] = [
    ([{"name": "3d"}], "Must start with a letter or an underscore"),
    ([{"name": "x" * 65}], "maximum length of 64"),
    ([{"name": "a"}, {"name": "a"}], "Duplicate function declaration found: a"),
    ([{"name": "a", "parametersJsonSchema": "x"}], "parametersJsonSchema' (message)"),
    ([{"name": "a", "parametersJsonSchema": {}, "parameters": {}}], "only one of parameters"),
    ([{"name": "a", "strict": True}], 'Unknown name "strict"'),
]


@pytest.mark.parametrize(("declared", "words"), DECLARED)
async def test_tools_that_no_function_can_be_are_refused(
    client: httpx2.AsyncClient, declared: Any, words: str
) -> None:
    tools = [{"functionDeclarations": declared}]
    assert words in await refusal(client, request(tools=tools))


def turn(*responses: Any, calls: Any = None) -> dict[str, Any]:
    asked = [asks("f1"), asks("f2", None, name="list")] if calls is None else calls
    return request(user("Go"), model(*asked), user(*responses), tools=[TOOL])


LIST = responds("f2", name="list")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (turn(responds("f1")), NUMBER),
        (turn(responds("f1"), LIST, LIST), NUMBER),
        (turn(responds("f1"), LIST, "And now?"), NUMBER),
        (turn("And now?"), NUMBER),
        (turn(LIST, responds("f1")), "name `list` matches the function call name `read`"),
        (turn(responds("f9"), LIST), "id `f9` matches the function call id `f1`"),
        (turn(responds("f1", name="")), "Name cannot be empty"),
        (turn(responds("f1", response="x")), "response' (message)"),
        (request(user(responds())), "comes immediately after a function call turn"),
        (request(user("Go"), model("x", responds()), user("y")), "in a turn of the user role"),
        (turn(responds("f1"), calls=[asks("f1", args="{}")]), "args' (message)"),
        (turn(responds("f1"), calls=[asks("f1", name="a b")]), "Invalid function name"),
    ],
)
async def test_responses_must_be_those_of_the_calls_before_them(
    client: httpx2.AsyncClient, body: Any, words: str
) -> None:
    assert words in await refusal(client, body)


async def test_after_responses_the_user_may_go_on(client: httpx2.AsyncClient) -> None:
    contents = [user("Go"), model(asks()), user(responds()), user("And now?")]
    assert await accepted(client, request(*contents)) == ()


async def test_a_call_under_way_without_its_signature_is_refused(
    client: httpx2.AsyncClient,
) -> None:
    contents = [user("Go"), model("So.", asks(signature=None)), user(responds())]
    words = await refusal(client, request(*contents))
    assert words.startswith("Function call is missing a thought_signature in functionCall parts.")
    assert "`default_api:read` , position 3." in words
    assert await accepted(client, request(*contents), OLD) == ()


async def test_a_call_of_an_earlier_turn_without_its_signature_is_remarked(
    client: httpx2.AsyncClient,
) -> None:
    contents = [user("Go"), model(asks(signature=None)), user(responds()), user("And now?")]
    (remark,) = await accepted(client, request(*contents))
    assert remark == "contents[1]: the call of read has no thought_signature"


async def test_the_second_of_several_calls_needs_no_signature(client: httpx2.AsyncClient) -> None:
    assert await accepted(client, turn(responds("f1"), LIST)) == ()


async def test_its_own_signatures_are_accepted_where_they_stood(
    client: httpx2.AsyncClient,
) -> None:
    contents: list[Any] = [user("Go")]
    content = await answer(client, think("Hm.") + say("So.") + call("read", id="f1"), *contents)
    contents += [content, user(responds())]
    content = await answer(client, think("Hm.") + say("Done."), *contents)
    contents += [content, user("Thanks.")]
    assert await accepted(client, request(*contents)) == ()


@pytest.mark.parametrize("foreign", ["c29tZXRoaW5n", "no base64!", "skip"])
async def test_a_signature_that_it_never_gave_is_refused(
    client: httpx2.AsyncClient, foreign: str
) -> None:
    body = turn(responds("f1"), calls=[asks("f1", foreign)])
    assert await refusal(client, body) == "Corrupted thought signature."


async def test_a_signature_holds_for_its_part_and_model_only(client: httpx2.AsyncClient) -> None:
    content = await answer(client, call("read", {"path": "a"}, id="f1"), user("Go"))
    altered = msgspec.json.decode(msgspec.json.encode(content))
    altered["parts"][0]["functionCall"]["args"] = {"path": "b"}
    corrupted = "Corrupted thought signature."
    body = request(user("Go"), altered, user(responds()))
    assert await refusal(client, body) == corrupted
    body = request(user("Go"), content, user(responds()))
    assert await refusal(client, body, "model-2") == corrupted
    assert await accepted(client, body) == ()


@pytest.mark.parametrize(
    ("changes", "first", "what"),
    [
        ({"systemInstruction": {"parts": [{"text": "New."}]}}, "Go", "system"),
        ({"tools": [TOOL]}, "Go", "tools"),
        ({}, "Gone", "messages"),
    ],
)
async def test_a_signature_made_in_another_prefix_is_accepted_with_a_remark(
    client: httpx2.AsyncClient, changes: Any, first: str, what: str
) -> None:
    content = await answer(client, call("read", id="f1"), user("Go"))
    body = request(user(first), content, user(responds()), **changes)
    assert await accepted(client, body) == (
        f"contents[1].parts[0]: signed before the {what} changed",
    )


async def test_models_before_gemini_3_know_no_foreign_signature(
    client: httpx2.AsyncClient,
) -> None:
    body = turn(responds("f1"), calls=[asks("f1")])
    assert await refusal(client, body, OLD) == "Corrupted thought signature."
    assert await accepted(client, body) == ()


async def test_calls_and_their_answers_may_be_many(client: httpx2.AsyncClient) -> None:
    content = await answer(client, calls(("read", {}), ("read", {"path": "b"})), user("Go"))
    ids = [part["functionCall"]["id"] for part in content["parts"]]
    assert len(set(ids)) == 2
    body = request(user("Go"), content, user(*map(responds, ids)))
    assert await accepted(client, body) == ()


async def test_an_input_beyond_the_window_is_refused(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([], window=10) as provider:
        response = await post(client, provider, request(user("long " * 20)))
    words = response.json()["error"]["message"]
    assert words.startswith("The input token count (")
    assert words.endswith("exceeds the maximum number of tokens allowed (10).")


async def test_a_model_that_is_not_there_is_not_found(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([say("Hi.")], models=["a"]) as provider:
        missing = await post(client, provider, request(), name="b")
        assert (await post(client, provider, request(), name="a")).status_code == 200
    assert (missing.status_code, missing.json()["error"]["status"]) == (404, "NOT_FOUND")
    assert "models/b is not found for API version v1beta" in missing.json()["error"]["message"]


async def test_without_the_right_key_nobody_is_served(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([], api_key="right") as provider:
        none = await post(client, provider, request(), headers={})
        wrong = await post(client, provider, request(), headers={"x-goog-api-key": "wrong"})
    assert (none.status_code, none.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert wrong.status_code == 400
    assert wrong.json()["error"]["details"][0]["reason"] == "API_KEY_INVALID"
