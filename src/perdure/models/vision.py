"""Which models behind other servers take images, by their names, as of the table's date.

A server does not say so in a way that all share, and one that gets a picture for a model of text
refuses the request, and all that follow it. So only names are trusted that are known for it.
"""

from __future__ import annotations

import re

_FAMILIES = (
    r"claude-",
    r"chatgpt-4o",
    r"gemini-",
    r"gemma-?3(?!n)",
    r"gemma-?4",
    r"glm-?4(\.\d)?v",
    r"gpt-(4o|4\.1|4-turbo|[56])",
    r"granite.*vision",
    r"internvl",
    r"kimi-vl",
    r"llama-?3\.2-(vision|11b|90b)",
    r"llama-?4",
    r"llava",
    r"minicpm-?v",
    r"mistral-(small-?3\.[12]|medium-?3)",
    r"moondream",
    r"molmo",
    r"o[134](?!-mini)(?![\w.])",
    r"o4-mini",
    r"phi-?[34](\.5)?-(vision|multimodal)",
    r"pixtral",
    r"qwen[\d.]*-?(vl|omni)",
    r"qwen3\.[5-9]",
    r"smolvlm",
)
_KNOWN = re.compile(rf"(?:.*[/:])?(?:{'|'.join(_FAMILIES)}).*", re.IGNORECASE)


def takes_images(model: str) -> bool:
    """Tell whether a model's name is of a family that is known to take images."""
    return _KNOWN.fullmatch(model) is not None
