"""Model servers found on this machine."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from perdure.config.known import KNOWN
from perdure.models.discovery import SERVERS, Found, Server, discover
from perdure.testing import nobody_listens
from tests.models.loopback import Act, head, serving

pytestmark = pytest.mark.anyio


def listing(*names: str) -> bytes:
    data = [{"id": name, "object": "model"} for name in names]
    return msgspec.json.encode({"object": "list", "data": data})


JSON = head(content_type="application/json")


async def look(acts: Sequence[Act], timeout: float = 5.0) -> list[Found]:
    async with serving(acts) as server:
        return await discover([Server("acme", server.url)], timeout)


async def test_a_server_that_answers_is_found_with_its_models() -> None:
    async with serving([JSON, listing("qwen3", "gemma3")]) as server:
        found = await discover([Server("acme", server.url)], 5.0)
    assert found == [Found("acme", f"{server.url}/v1", ("qwen3", "gemma3"))]
    assert server.requests[0].startswith(b"GET /v1/models ")


async def test_models_that_only_embed_come_last() -> None:
    (found,) = await look([JSON, listing("text-embedding-nomic", "qwen3")])
    assert found.models == ("qwen3", "text-embedding-nomic")


async def test_an_old_ollama_is_asked_for_its_tags() -> None:
    tags = msgspec.json.encode({"models": [{"name": "llama3:8b"}]})

    def answer(request: bytes) -> Sequence[Act]:
        return [JSON, tags] if b"/api/tags" in request else [head(404), b"404 page not found"]

    async with serving(answer) as server:
        found = await discover([Server("ollama", server.url)], 5.0)
    assert [each.models for each in found] == [("llama3:8b",)]


async def test_a_server_without_a_model_is_found_all_the_same() -> None:
    (found,) = await look([JSON, listing()])
    assert found.models == ()


@pytest.mark.parametrize(
    "acts",
    [
        [head(content_type="text/html"), b"<html>a development server</html>"],
        [JSON, b"{broken"],
        [JSON, b'{"data": "x"}'],
        [JSON, b"[]"],
        [head(500), listing("qwen3")],
        [JSON, b'{"data": [' + b" " * 2_000_000 + b"]}"],
        [b"SSH-2.0-whatever\r\n"],
        ["leave"],
    ],
    ids=["page", "broken", "no-list", "no-object", "error", "endless", "no-http", "reset"],
)
async def test_anything_else_is_not_there(acts: Sequence[Act]) -> None:
    assert await look(acts) == []


async def test_entries_without_a_name_are_left_out() -> None:
    (found,) = await look([JSON, b'{"data": [{"id": "a"}, {"id": 7}, 3, {}, {"id": "b"}]}'])
    assert found.models == ("a", "b")


async def test_a_silent_server_does_not_hold_up_the_others() -> None:
    async with serving(["hold"]) as silent, serving([JSON, listing("qwen3")]) as server:
        with nobody_listens() as nobody:
            servers = [
                Server("silent", silent.url),
                Server("nobody", nobody),
                Server("acme", server.url),
            ]
            found = await discover(servers, 1.0)
        await silent.left.wait()
    assert [each.name for each in found] == ["acme"]


def test_the_servers_are_those_that_the_configuration_knows_by_name() -> None:
    assert {each.name: f"{each.base_url}/v1" for each in SERVERS} == {
        name: KNOWN[name].base_url for name in KNOWN if KNOWN[name].api_key_env is None
    }
