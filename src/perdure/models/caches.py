"""How long providers keep a cached prefix and how they count it, as of 2026-12-02.

Sources. Anthropic: the documentation of prompt caching (five minutes, counted from the start of the
request that used the prefix last; the smallest prefix differs by model). OpenAI: its guide and the
types of its own library (from GPT-5.6 on at least 30 minutes; before, five to ten minutes without
use; 1,024 tokens or more, in steps of 128). Gemini: the documentation of implicit caching, which
names the smallest prompts and no lifetime. Where sources differ or say nothing, the shorter life
and the larger minimum stand here: then less is expected of the cache than it may hold.
"""

from __future__ import annotations

import re

import msgspec

MINUTE = 60.0


class CacheFacts(msgspec.Struct, frozen=True):
    """What is known of a provider's prompt cache for models of one pattern.

    A prefix is kept for `lifetime` seconds after its last use; `stated` tells whether the provider
    says so or that is assumed. Fewer than `minimum` tokens are not cached, and cached tokens are
    counted in steps of `unit`.
    """

    names: re.Pattern[str]
    minimum: int
    lifetime: float = 5 * MINUTE
    unit: int = 1
    stated: bool = True

    def cached(self, tokens: int) -> int:
        """Return how many tokens of a prefix of so many the provider counts as cached."""
        whole = tokens - tokens % self.unit
        return whole if whole >= self.minimum else 0


_ANTHROPIC = (
    CacheFacts(re.compile(r"claude-(opus|fable|mythos)-5(-\d{8})?"), 512),
    CacheFacts(re.compile(r"claude-(opus-4(-[18])?|sonnet-(5|4(-[56])?))(-\d{8})?"), 1024),
    CacheFacts(re.compile(r"claude-.*"), 4096),
)

_OPENAI = (
    CacheFacts(re.compile(r"gpt-(5\.[6-9]|[6-9]).*"), 1024, 30 * MINUTE, 128),
    CacheFacts(re.compile(r"(gpt|o\d|chatgpt)-.*|o\d"), 1024, unit=128),
)

_GEMINI = (
    CacheFacts(re.compile(r"gemini-2\.5-.*"), 2048, stated=False),
    CacheFacts(re.compile(r"gemini-.*"), 4096, stated=False),
)

_TABLES = {
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
}

_UNKNOWN = CacheFacts(re.compile(r".*"), 1024, unit=128, stated=False)
"""What is assumed of a server that nobody has described."""


def cache_facts(protocol: str, model: str) -> CacheFacts:
    """Return what is known of the prompt cache of a model, without its provider's name."""
    rows = _TABLES.get(protocol, ())
    return next((row for row in rows if row.names.fullmatch(model)), _UNKNOWN)
