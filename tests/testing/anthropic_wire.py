"""Requests in Anthropic's form, for the tests of the scripted provider."""

from __future__ import annotations

from typing import Any

import httpx2

from perdure.testing import ScriptedProvider

HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
CACHED = {"type": "ephemeral"}
TOOL = {"name": "read", "description": "Read.", "input_schema": {"type": "object"}}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text(c) if isinstance(c, str) else c for c in content]}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [text(c) if isinstance(c, str) else c for c in content]}


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(given: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": given, "name": "read", "input": {}}


def cached(block: dict[str, Any], ttl: str = "5m") -> dict[str, Any]:
    return block | {"cache_control": CACHED | {"ttl": ttl}}


def request(*messages: Any, model: str = "claude-opus-5", **members: Any) -> dict[str, Any]:
    given = list(messages) or [user("Hello")]
    return {"model": model, "max_tokens": 1000, "messages": given, **members}


async def post(
    client: httpx2.AsyncClient,
    provider: ScriptedProvider,
    body: Any,
    headers: dict[str, str] = HEADERS,
) -> httpx2.Response:
    return await client.post(f"{provider.anthropic_url}/v1/messages", json=body, headers=headers)
