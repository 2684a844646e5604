"""Requests in the form of Responses, for the tests of the scripted provider."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.testing.openai_wire import post_to, user

TOOL = {"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}
SEALED = "reasoning.encrypted_content"


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


post = partial(post_to, "responses")
