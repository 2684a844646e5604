"""What requests to both of OpenAI's protocols share, for the tests of the scripted provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2

from perdure.testing import ScriptedProvider, say

Post = Callable[[httpx2.AsyncClient, ScriptedProvider, Any], Awaitable[httpx2.Response]]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


async def post_to(
    path: str,
    client: httpx2.AsyncClient,
    provider: ScriptedProvider,
    body: Any,
    headers: dict[str, str] | None = None,
) -> httpx2.Response:
    return await client.post(f"{provider.openai_url}/{path}", json=body, headers=headers)


async def refused(
    post: Post, client: httpx2.AsyncClient, body: Any, status: int = 400, **options: Any
) -> dict[str, Any]:
    """Post what must be refused, and return the error."""
    async with ScriptedProvider([say("Never said.")], **options) as provider:
        response = await post(client, provider, body)
        assert response.status_code == status, response.text
        assert provider.refused[0].status == status
        assert provider.remaining == 1
        return response.json()["error"]


async def accepted(post: Post, client: httpx2.AsyncClient, body: Any, **options: Any) -> None:
    """Post what must be accepted."""
    async with ScriptedProvider([say("Yes.")], **options) as provider:
        response = await post(client, provider, body)
        assert response.status_code == 200, response.text
        assert provider.refused == []
