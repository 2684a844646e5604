"""The text of what a web server sent."""

from __future__ import annotations

import codecs
from typing import Any

_HTML = {"text/html", "application/xhtml+xml"}
_TEXTS = ("text/", "application/json", "application/xml", "application/javascript")
_LARGEST_HTML = 2 * 1024 * 1024
_WITHOUT_TEXT = ("script", "style", "noscript", "template", "svg", "iframe", "head")


def page_text(kind: str, charset: str, body: bytes) -> str | None:
    """Return the text of a body, HTML as Markdown; None for what is no text."""
    text = _decoded(charset, body)
    if kind in _HTML:
        return _markdown(text[:_LARGEST_HTML])
    if kind.startswith(_TEXTS) or kind.endswith(("+json", "+xml")):
        return text
    return text if not kind and "\0" not in text else None


def _decoded(charset: str, body: bytes) -> str:
    try:
        codecs.lookup(charset)
        return body.decode(charset, "replace")
    except (LookupError, ValueError):
        return body.decode("utf-8", "replace")


def _markdown(html: str) -> str:
    # Only who fetches a page pays for the import.
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for element in soup(_WITHOUT_TEXT):
        element.decompose()
    converter: Any = MarkdownConverter(heading_style="ATX", strip=["img"])
    try:
        text: str = converter.convert_soup(soup)
    except RecursionError:  # elements within elements within elements
        text = "\n".join(soup.stripped_strings)
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    while "\n\n\n" in lines:
        lines = lines.replace("\n\n\n", "\n\n")
    return f"# {title}\n\n{lines.strip()}" if title else lines.strip()
