"""Requests in the form of Chat Completions, for the tests of the scripted provider."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.testing.openai_wire import post_to, user

TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}


def system(content: Any, role: str = "system") -> dict[str, Any]:
    return {"role": role, "content": content}


def asks(*ids: str, **function: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": each,
                "type": "function",
                "function": {"name": "read", "arguments": "{}", **function},
            }
            for each in ids
        ],
    }


def result(given: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": given, "content": "done"}


def request(*messages: Any, **members: Any) -> dict[str, Any]:
    return {"model": "model-1", "messages": list(messages) or [user("Hello")], **members}


post = partial(post_to, "chat/completions")
