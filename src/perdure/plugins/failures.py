"""Say in one line why a plugin's code failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perdure.config.location import shown
from perdure.errors import PerdureError

_OURS = str(Path(__file__).parents[1])


def reason(error: BaseException) -> str:
    """Name the class of an exception and the line of the plugin that led to it.

    Its words are left out, since they often quote a value that may be secret, except where they
    are Perdure's own or speak of code: of a module that is not there, of wrong syntax.
    """
    place = _place(error)
    if isinstance(error, PerdureError):
        return f"{shown(str(error))} ({place})" if place else shown(str(error))
    words = f": {shown(str(error))}" if isinstance(error, (ImportError, SyntaxError)) else ""
    return f"{type(error).__name__}{f' at {place}' if place else ''}{words}"


def _place(error: BaseException) -> str:
    """Return the last line in the file where the plugin's own code begins."""
    lines = list(_foreign(error))
    inside = [(file, line) for file, line in lines if file == lines[0][0]]
    if not inside:
        return ""
    file, line = inside[-1]
    return f"{shown(Path(file).name)}:{line}"


def _foreign(error: BaseException) -> Iterator[tuple[str, int]]:
    trace = error.__traceback__
    while trace:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_OURS) and "importlib" not in file:
            yield file, trace.tb_lineno
        trace = trace.tb_next
