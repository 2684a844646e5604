"""The stored outputs of a session's tools, given to another session."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from perdure.errors import StoreError


def copy_outputs(source: Path, target: Path, names: Iterable[str]) -> None:
    """Copy the files of these names from one directory to another; what is gone is left out.

    Blocks. Raises StoreError where one cannot be copied.
    """
    there = [name for name in sorted(names) if os.path.lexists(source / name)]
    try:
        if there:
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in there:
            _link_or_copy(source / name, target / name)
    except OSError as error:
        raise StoreError(
            f"the stored outputs in {source} cannot be copied to {target} ({error.strerror}); "
            "make room or allow writing there"
        ) from error


def _link_or_copy(source: Path, target: Path) -> None:
    # An output is never written again, so both sessions can share one file; not every file system
    # can do that.
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
