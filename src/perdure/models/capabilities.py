"""Facts about well-known models that change a request, as of the date in `AS_OF`.

Sources. Native System Messages at Anthropic: the documentation of mid-conversation system messages,
except for Sonnet 5, which other projects measured to accept and ignore them; older models answer
400. At OpenAI: the API reference, which takes `developer` and `system` anywhere, and the probes of
a router that kept them in place from GPT-4o on. Windows and output limits: the vendors' model
pages, as two public price tables agree on them. At Gemini: the documentation of thought signatures
and of the models; since Gemini 3 a call is refused that comes back without its signature.
"""

from __future__ import annotations

import re

import msgspec

AS_OF = "2026-12-02"
"""When these facts were looked up last."""


class Capability(msgspec.Struct, frozen=True):
    """What models of one pattern can do on their vendor's own API.

    `context_window` and `max_output` are tokens. `native` tells whether a System Message may go
    out in the provider's own role; `developer` whether that role is called so. `reasons` tells
    whether the model has reasoning to seal, `signatures` whether it refuses a call that comes back
    without its seal.
    """

    names: re.Pattern[str]
    context_window: int
    max_output: int
    native: bool = False
    developer: bool = False
    reasons: bool = True
    signatures: bool = True


def _names(pattern: str, suffix: str) -> re.Pattern[str]:
    return re.compile(f"(?:{pattern})(?:{suffix})?")


def _claude(pattern: str) -> re.Pattern[str]:
    return _names(f"claude-(?:{pattern})", r"-\d{8}|-latest")


def _openai(pattern: str) -> re.Pattern[str]:
    return _names(pattern, r"-\d{4}-\d{2}-\d{2}|-latest")


def _gemini(pattern: str) -> re.Pattern[str]:
    return _names(pattern, r"-\d{3}|-preview(-\d{2}-\d{2,4})?|-latest")


ANTHROPIC = (
    Capability(
        _claude(r"opus-4-8|opus-5(-5)?|sonnet-5-5|haiku-5-5|(fable|mythos)-5(-\d)?"),
        1_000_000,
        128_000,
        native=True,
    ),
    Capability(_claude(r"sonnet-5|sonnet-4-6|opus-4-[67]|mythos-preview"), 1_000_000, 128_000),
    Capability(_claude(r"(opus|sonnet|haiku)-4-5"), 200_000, 64_000),
)
"""Claude models. The first row that fits counts."""

OPENAI = (
    Capability(
        _openai(r"gpt-5(\.\d)?-chat"),
        128_000,
        16_384,
        native=True,
        developer=True,
        reasons=False,
    ),
    Capability(
        _openai(r"gpt-6(\.\d)?-[a-z]+|gpt-5\.[56](-[a-z]+)?|gpt-5\.4"),
        1_050_000,
        128_000,
        native=True,
        developer=True,
    ),
    Capability(
        _openai(r"gpt-5(\.\d)?(-mini|-nano)?"), 400_000, 128_000, native=True, developer=True
    ),
    Capability(_openai(r"o1|o3(-mini)?|o4-mini"), 200_000, 100_000, native=True, developer=True),
    Capability(_openai(r"gpt-4\.1(-mini|-nano)?"), 1_047_576, 32_768, native=True, reasons=False),
    Capability(_openai(r"gpt-4o(-mini)?"), 128_000, 16_384, native=True, reasons=False),
)
"""OpenAI models. The first row that fits counts."""

GEMINI = (
    Capability(_gemini(r"gemini-2\.5-(pro|flash|flash-lite)"), 1_048_576, 65_536, signatures=False),
    Capability(_gemini(r"gemini-2\.0-flash(-lite)?"), 1_048_576, 8_192, signatures=False),
    Capability(_gemini(r"gemini-3(\.\d)?-(pro|flash|flash-lite)"), 1_048_576, 65_536),
    Capability(_gemini(r"gemini-4(\.\d)?-[a-z]+"), 1_048_576, 65_536),
    Capability(re.compile(r"gemini-(pro|flash|flash-lite)-latest"), 1_048_576, 65_536),
    Capability(_gemini(r"gemini-1\.5-pro"), 2_097_152, 8_192, signatures=False),
    Capability(_gemini(r"gemini-1\.5-flash(-8b)?"), 1_048_576, 8_192, signatures=False),
    Capability(re.compile(r"gemini-[12][.-].*"), 32_768, 8_192, signatures=False),
)
"""Gemini models. The first row that fits counts; one response ends after 65,536 tokens at most."""

UNKNOWN_CLAUDE = Capability(re.compile(r"claude-.*"), 200_000, 32_000)
UNKNOWN_OPENAI = Capability(re.compile(r".*"), 128_000, 16_384)
UNKNOWN_GEMINI = Capability(re.compile(r".*"), 128_000, 8_192)
UNKNOWN = Capability(re.compile(r".*"), 32_768, 4_096)
"""What is assumed of a model behind a server that nobody has described."""


def find(table: tuple[Capability, ...], model: str) -> Capability | None:
    """Return the row for a model's name, or None where it is not known."""
    return next((row for row in table if row.names.fullmatch(model)), None)
