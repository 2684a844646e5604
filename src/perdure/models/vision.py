"""Which models take images, by their names, as of the date of the table of capabilities.

Nearly all models that the vendors serve themselves do, by their pages of models. Another server
does not say so in a way that all share, and one that gets a picture for a model of text refuses the
request, and all that follow it. So only names are trusted there that are known for it.
"""

from __future__ import annotations

import re

_FAMILIES = (
    r"claude-",
    r"chatgpt-4o",
    r"deepseek-(vl|ocr)",
    r"gemini-",
    r"gemma-?3(?!n)(?!.*[:-](1b|270m))",
    r"gemma-?4",
    r"glm-?4(\.\d)?v",
    r"gpt-(4o|4\.1|4-turbo|[56])",
    r"granite.*vision",
    r"grok-(2-vision|[4-9])",
    r"internvl",
    r"kimi-(vl|k2\.[5-9])",
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
_TEXT = re.compile(r"gpt-3\.5.*|gpt-4(-32k)?(-\d{4})?|o1-(mini|preview).*|o3-mini.*")
_KNOWN = re.compile(rf"(?:.*[/:])?(?:{'|'.join(_FAMILIES)}).*", re.IGNORECASE)


def is_text_only(model: str) -> bool:
    """Tell whether a model is one of the few of OpenAI's own that take no images."""
    return _TEXT.fullmatch(model) is not None


def takes_images(model: str) -> bool:
    """Tell whether a model's name is of a family that is known to take images."""
    return _KNOWN.fullmatch(model) is not None
