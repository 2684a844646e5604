"""What is known of providers' prompt caches, and how they count."""

from __future__ import annotations

import pytest

from perdure.models.caches import cache_facts


@pytest.mark.parametrize(
    ("protocol", "model", "minimum", "minutes", "unit", "stated"),
    [
        ("anthropic", "claude-opus-5", 512, 5, 1, True),
        ("anthropic", "claude-opus-4-8", 1024, 5, 1, True),
        ("anthropic", "claude-sonnet-4-5-20250929", 1024, 5, 1, True),
        ("anthropic", "claude-opus-5-5", 4096, 5, 1, True),
        ("anthropic", "claude-haiku-4-5", 4096, 5, 1, True),
        ("anthropic", "glm-5", 1024, 5, 128, False),
        ("openai-chat", "gpt-4o", 1024, 5, 128, True),
        ("openai-chat", "o3", 1024, 5, 128, True),
        ("openai-responses", "gpt-5.6-sol", 1024, 30, 128, True),
        ("openai-responses", "gpt-6.1-sol", 1024, 30, 128, True),
        ("openai-chat", "qwen3", 1024, 5, 128, False),
        ("gemini", "gemini-2.5-pro", 2048, 5, 1, False),
        ("gemini", "gemini-4-argon", 4096, 5, 1, False),
        ("a protocol of tomorrow", "m", 1024, 5, 128, False),
    ],
)
def test_the_table_knows(
    protocol: str, model: str, minimum: int, minutes: int, unit: int, stated: bool
) -> None:
    facts = cache_facts(protocol, model)
    assert (facts.minimum, facts.lifetime, facts.unit) == (minimum, 60 * minutes, unit)
    assert facts.stated is stated


def test_tokens_are_rounded_down_and_nothing_is_cached_below_the_minimum() -> None:
    facts = cache_facts("openai-chat", "gpt-4o")
    counted = {tokens: facts.cached(tokens) for tokens in (0, 1023, 1024, 1151, 1152)}
    assert counted == {0: 0, 1023: 0, 1024: 1024, 1151: 1024, 1152: 1152}
