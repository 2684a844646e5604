"""Requests in Gemini's form, for the tests of the scripted provider."""

from __future__ import annotations

from typing import Any

import httpx2

from perdure.testing import ScriptedProvider

HEADERS = {"x-goog-api-key": "any"}
TOOL = {"functionDeclarations": [{"name": "read", "parametersJsonSchema": {"type": "object"}}]}
FOREIGN = "skip_thought_signature_validator"


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [_part(part) for part in parts]}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": [_part(part) for part in parts]}


def _part(part: Any) -> Any:
    return {"text": part} if isinstance(part, str) else part


def asks(call_id: Any = "f1", signature: Any = FOREIGN, **members: Any) -> dict[str, Any]:
    call: dict[str, Any] = {"id": call_id, "name": "read", "args": {}, **members}
    return {"functionCall": call, **({"thoughtSignature": signature} if signature else {})}


def responds(call_id: Any = "f1", **members: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"id": call_id, "name": "read", "response": {"output": "done"}}
    response |= members
    return {"functionResponse": response}


def request(*contents: Any, **members: Any) -> dict[str, Any]:
    return {"contents": list(contents) or [user("Hello")], **members}


async def post(
    client: httpx2.AsyncClient,
    provider: ScriptedProvider,
    body: Any,
    *,
    name: str = "model-1",
    stream: bool = True,
    headers: dict[str, str] = HEADERS,
) -> httpx2.Response:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    url = f"{provider.gemini_url}/models/{name}:{method}"
    return await client.post(url, json=body, headers=headers)
