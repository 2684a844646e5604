"""Whole text files, taken apart so that a change leaves the rest of their bytes as it was."""

from __future__ import annotations

import codecs

import msgspec

from perdure.errors import ToolError
from perdure.tools.confine import Place, explained
from perdure.tools.files import open_file, text_encoding

_LARGEST = 16 * 1024 * 1024
_BYTE_ORDER = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class TextFile(msgspec.Struct, frozen=True):
    """What a text file holds: its byte order mark, if any, its encoding, its text."""

    mark: bytes
    encoding: str
    content: str

    def with_content(self, content: str) -> bytes:
        """Return the bytes of the file with another text."""
        return self.mark + content.encode(self.encoding, _bad_bytes(self.encoding))


def load_text(place: Place) -> TextFile:
    """Read a text file of at most 16 MiB. Raise ToolError for anything else."""
    with explained(place.shown), open_file(place) as file:
        encoding = text_encoding(file, place)
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ToolError(f"{place.shown} is too large to edit here (over 16 MiB); use the shell")
    mark = b""
    if encoding == "utf-8-sig":
        mark, encoding = codecs.BOM_UTF8, "utf-8"
    elif encoding == "utf-16":
        mark, encoding = data[:2], _BYTE_ORDER[data[:2]]
    return TextFile(mark, encoding, _decoded(data[len(mark) :], encoding, place))


def _decoded(data: bytes, encoding: str, place: Place) -> str:
    try:
        return data.decode(encoding, _bad_bytes(encoding))
    except UnicodeDecodeError as error:
        raise ToolError(f"{place.shown} is damaged: it is no whole UTF-16 text") from error


def _bad_bytes(encoding: str) -> str:
    # Bytes that are no UTF-8 survive an edit elsewhere in the file unchanged.
    return "surrogateescape" if encoding == "utf-8" else "strict"
