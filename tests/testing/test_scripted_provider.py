"""The scripted provider as a whole: what it records, how a script is followed, where it runs."""

from __future__ import annotations

import socket
import subprocess
import sys
import tomllib

import anyio
import httpx2
import pytest

from perdure.testing import (
    ReceivedRequest,
    Reply,
    ScriptedProvider,
    call,
    say,
    serve_in_thread,
    stall,
    to_toml,
)
from tests.testing import anthropic_wire, chat_wire

pytestmark = pytest.mark.anyio


async def test_a_request_is_recorded_exactly(client: httpx2.AsyncClient) -> None:
    body = b'{ "model":"m",\n"messages":[{"role":"user","content":"\\u00e9"}] }'
    async with ScriptedProvider([say("Hi")]) as provider:
        url = f"{provider.openai_url}/chat/completions?a=1"
        await client.post(url, content=body, headers={"X-Odd": "Yes"})
        (request,) = provider.requests
    assert request.body == body
    assert request.json == {"model": "m", "messages": [{"role": "user", "content": "é"}]}
    assert request.headers["x-odd"] == "Yes"
    assert (request.method, request.target) == ("POST", "/v1/chat/completions?a=1")


async def test_a_recorded_request_shows_no_key() -> None:
    request = ReceivedRequest(0, "POST", "/v1/messages", {"x-api-key": "secret"}, b"secret")
    assert "secret" not in repr(request)


async def test_replies_are_given_in_order_to_both_protocols(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider(
        [call("read", {"path": "a.txt"}), say("It says hello.")]
    ) as provider:
        first = await anthropic_wire.post(client, provider, anthropic_wire.request())
        assert provider.remaining == 1
        second = await chat_wire.post(client, provider, chat_wire.request())
        assert provider.remaining == 0
    assert first.json()["content"][0]["input"] == {"path": "a.txt"}
    assert second.json()["choices"][0]["message"]["content"] == "It says hello."


async def test_a_script_at_its_end_says_so(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([say("Hi")]) as provider:
        await chat_wire.post(client, provider, chat_wire.request())
        response = await chat_wire.post(client, provider, chat_wire.request())
        assert response.status_code == 500
        assert response.headers["x-should-retry"] == "false"
        assert response.json()["error"]["message"] == (
            "The script is exhausted: it has 1 replies, and request 1 asks for one more."
        )
        assert provider.unexpected == provider.requests[1:]
        assert provider.refused == []


async def test_a_function_can_be_the_script(client: httpx2.AsyncClient) -> None:
    def script(request: ReceivedRequest, number: int) -> Reply:
        return say(f"{number}: {request.json['messages'][-1]['content']}")

    said: list[str] = []
    async with ScriptedProvider(script) as provider:
        for words in ("one", "two"):
            body = chat_wire.request(chat_wire.user(words))
            answer = (await chat_wire.post(client, provider, body)).json()
            said.append(answer["choices"][0]["message"]["content"])
    assert said == ["0: one", "1: two"]


@pytest.mark.parametrize("kind", [AssertionError, OSError])
async def test_a_script_that_raises_fails_the_test(
    kind: type[Exception], client: httpx2.AsyncClient
) -> None:
    def script(request: ReceivedRequest, number: int) -> Reply:
        raise kind(f"request {number} is wrong")

    with pytest.raises(BaseExceptionGroup) as raised:
        async with ScriptedProvider(script) as provider:
            await chat_wire.post(client, provider, chat_wire.request())
    assert raised.group_contains(kind, match="request 0 is wrong")


async def test_what_fails_beside_it_is_raised_as_it_is() -> None:
    async def fail() -> None:
        async with ScriptedProvider([]):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fail()
    with pytest.raises(KeyError, match="mine"), serve_in_thread([]):
        raise KeyError("mine")


async def test_it_can_be_cancelled() -> None:
    with anyio.move_on_after(0.01) as scope:
        async with ScriptedProvider([]):
            await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_refused_request_takes_no_reply(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([say("Hi")]) as provider:
        await chat_wire.post(client, provider, {"model": "m"})
        assert provider.remaining == 1
        assert provider.refused[0].index == 0
        assert (await chat_wire.post(client, provider, chat_wire.request())).status_code == 200


async def test_the_same_request_gets_the_same_bytes(client: httpx2.AsyncClient) -> None:
    answers: list[bytes] = []
    for _ in range(2):
        async with ScriptedProvider([call("read")]) as provider:
            body = anthropic_wire.request(stream=True)
            answers.append((await anthropic_wire.post(client, provider, body)).content)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("path", ["/api/tags", "/v1/responses", "/"])
async def test_another_address_is_not_found_and_recorded(
    path: str, client: httpx2.AsyncClient
) -> None:
    async with ScriptedProvider([]) as provider:
        assert (await client.get(provider.anthropic_url + path)).status_code == 404
        assert (await client.head(provider.anthropic_url + path)).status_code == 404
        assert [other.method for other in provider.others] == ["GET", "HEAD"]
        assert provider.requests == []


async def test_connections_are_kept_alive(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([say("Hi")] * 3) as provider:
        ports: set[object] = set()
        for _ in range(3):
            response = await chat_wire.post(client, provider, chat_wire.request())
            ports.add(response.extensions["network_stream"].get_extra_info("client_addr"))
    assert len(ports) == 1


async def test_many_clients_are_served_at_once(client: httpx2.AsyncClient) -> None:
    async with ScriptedProvider([stall(say("Hi"), seconds=0.01)] * 20) as provider:
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(chat_wire.post, client, provider, chat_wire.request())
        assert len(provider.requests) == 20
        assert sorted(request.index for request in provider.requests) == list(range(20))


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02", b"POST /v1/messages HTTP/1.1\r\n"])
async def test_a_client_that_vanishes_or_speaks_no_http_does_no_harm(
    sent: bytes, client: httpx2.AsyncClient
) -> None:
    async with ScriptedProvider([say("Hi")]) as provider:
        port = httpx2.URL(provider.openai_url).port
        assert port is not None
        with socket.create_connection(("127.0.0.1", port)) as vanishing:
            vanishing.sendall(sent)
        response = await chat_wire.post(client, provider, chat_wire.request())
        assert response.status_code == 200


async def test_it_listens_on_loopback_only() -> None:
    async with ScriptedProvider([]) as provider:
        assert provider.openai_url == f"{provider.anthropic_url}/v1"
        assert httpx2.URL(provider.openai_url).host == "127.0.0.1"


async def test_its_configuration_has_the_shape_of_the_file() -> None:
    async with ScriptedProvider([]) as provider:
        assert provider.config(context_window=1000) == {
            "model": "scripted/model-1",
            "providers": {
                "scripted": {
                    "protocol": "openai-chat",
                    "base_url": provider.openai_url,
                    "models": {"model-1": {"context_window": 1000}},
                }
            },
        }
        responses = provider.config("openai-responses")["providers"]["scripted"]
        assert responses["protocol"] == "openai-responses"
        assert responses["base_url"] == provider.openai_url
        config = provider.config("anthropic", name="mine", model="claude-opus-5")
        assert config == tomllib.loads(to_toml(config))
        assert config["model"] == "mine/claude-opus-5"
        assert config["providers"]["mine"]["base_url"] == provider.anthropic_url


async def test_its_configuration_brings_a_key_or_names_where_it_is() -> None:
    async with ScriptedProvider([], api_key="k") as provider:
        by_header = provider.config("anthropic")["providers"]["scripted"]
        by_name = provider.config("anthropic", api_key_env="SCRIPTED_API_KEY")
    assert by_header["headers"] == {"x-api-key": "k"}
    assert by_name["providers"]["scripted"]["api_key_env"] == "SCRIPTED_API_KEY"
    assert "headers" not in by_name["providers"]["scripted"]


async def test_waiting_for_a_request_that_does_not_come_ends() -> None:
    async with ScriptedProvider([]) as provider:
        with pytest.raises(TimeoutError):
            await provider.received(1, timeout=0.01)


def test_a_thread_can_serve_while_the_test_blocks() -> None:
    with serve_in_thread([say("Hi"), say("Ho")]) as provider:
        for _ in range(2):
            url = f"{provider.openai_url}/chat/completions"
            httpx2.post(url, json=chat_wire.request(), trust_env=False).raise_for_status()
        provider.wait_until_received(2)
        assert provider.remaining == 0


def test_waiting_in_a_thread_for_a_request_that_does_not_come_ends() -> None:
    with serve_in_thread([]) as provider, pytest.raises(TimeoutError, match="0 of 1"):
        provider.wait_until_received(1, timeout=0.01)


CLIENT = """
import sys, httpx2
body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
url = sys.argv[1] + "/chat/completions"
with httpx2.stream("POST", url, json=body, timeout=30, trust_env=False):
    print("connected", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_is_noticed_and_the_next_one_is_served() -> None:
    with serve_in_thread([stall(after=0), say("Hi")]) as provider:
        with subprocess.Popen(
            [sys.executable, "-c", CLIENT, provider.openai_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"connected\n"
            process.kill()
        url = f"{provider.openai_url}/chat/completions"
        response = httpx2.post(url, json=chat_wire.request(), trust_env=False)
    assert response.status_code == 200
    assert provider.abandoned == [0]


def test_leaving_the_thread_stops_the_server() -> None:
    with serve_in_thread([]) as provider:
        url = f"{provider.openai_url}/models"
        assert httpx2.get(url, trust_env=False).status_code == 200
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(url, trust_env=False)
