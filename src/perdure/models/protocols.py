"""The wire protocols by the names that the configuration gives them."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.models.anthropic import Anthropic
from perdure.models.gemini import Gemini
from perdure.models.openai_chat import OpenAIChat
from perdure.models.openai_responses import OpenAIResponses
from perdure.models.transport import Transport
from perdure.models.types import WireProtocol


def wire_protocols(transport: Transport) -> Mapping[str, WireProtocol]:
    """Return every protocol, speaking over one transport."""
    return {
        "openai-chat": OpenAIChat(transport),
        "openai-responses": OpenAIResponses(transport),
        "anthropic": Anthropic(transport),
        "gemini": Gemini(transport),
    }
