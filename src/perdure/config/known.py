"""Providers whose address need not be configured."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.config.schema import ProviderConfig

KNOWN: Mapping[str, ProviderConfig] = {
    "anthropic": ProviderConfig("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "openai": ProviderConfig("openai-chat", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "gemini": ProviderConfig(
        "gemini", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY"
    ),
    "ollama": ProviderConfig("openai-chat", "http://127.0.0.1:11434/v1"),
    "lmstudio": ProviderConfig("openai-chat", "http://127.0.0.1:1234/v1"),
    "llamacpp": ProviderConfig("openai-chat", "http://127.0.0.1:8080/v1"),
    "vllm": ProviderConfig("openai-chat", "http://127.0.0.1:8000/v1"),
}
"""By provider name: what holds for it where the configuration says nothing else."""
