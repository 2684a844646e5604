"""Requests in the form of Responses, for the tests of the scripted provider."""

from __future__ import annotations

from typing import Any

import httpx2

from perdure.testing import ScriptedProvider

TOOL = {"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}
SEALED = "reasoning.encrypted_content"


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def developer(content: Any, role: str = "developer") -> dict[str, Any]:
    return {"role": role, "content": content}


def assistant(content: Any, **members: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **members}


def asks(call_id: Any = "call_1", **members: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}"}
    return call | members


def output(call_id: Any = "call_1", **members: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "done"} | members


def request(*items: Any, **members: Any) -> dict[str, Any]:
    stateless = {"store": False, "include": [SEALED]}
    return {"model": "model-1", "input": list(items) or [user("Hello")], **stateless, **members}


async def post(
    client: httpx2.AsyncClient,
    provider: ScriptedProvider,
    body: Any,
    headers: dict[str, str] | None = None,
) -> httpx2.Response:
    return await client.post(f"{provider.openai_url}/responses", json=body, headers=headers)
