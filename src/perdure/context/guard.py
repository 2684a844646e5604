"""Call code that is not ours and turn its exceptions into a reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
T = TypeVar("T")


class Failed(msgspec.Struct, frozen=True):
    """A call gave no result. `reason` is one line that contains no value: "raised KeyError"."""

    reason: str


def attempt(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | Failed:
    """Return what the call returns, or Failed when it raises an Exception."""
    try:
        return call(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - loaders, codecs and renderers may raise anything
        return failure(error)


def failure(error: Exception) -> Failed:
    """Name the class of an exception and the line that raised it.

    The exception's own words are left out: they often quote the value, which may be secret.
    """
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    file = Path(trace.tb_frame.f_code.co_filename if trace else __file__)
    if trace is None or file.parent == Path(__file__).parent:
        return Failed(f"raised {type(error).__name__}")
    return Failed(f"raised {type(error).__name__} at {file.name}:{trace.tb_lineno}")
