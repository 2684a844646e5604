"""Small files in the user's data directory that several processes change."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from perdure.config.location import shown
from perdure.errors import ConfigurationError

Content = TypeVar("Content")


class KeptFile(Generic[Content]):
    """A JSON file of one Struct; a file that is not there holds `Content()`.

    `lost` says in the message of a damaged file what is to be done again once it is deleted.
    Every method raises ConfigurationError where the file cannot be read or written.
    """

    def __init__(self, path: Path, kind: type[Content], lost: str) -> None:
        self._path = path
        self._kind = kind
        self._lost = lost

    def read(self) -> Content:
        """Return what the file holds."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=self._kind)
        except (FileNotFoundError, NotADirectoryError):
            return self._kind()
        except OSError as error:
            raise self._error(f"cannot be read: {error.strerror}") from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._error(f"is damaged; delete it and {self._lost} again") from error

    def change(self, change: Callable[[Content], Content]) -> None:
        """Put what `change` makes of the content in its place; durable when it returns."""
        # Only who changes the file pays for the import.
        from perdure.durable import write_whole

        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _alone(self._path):
                write_whole(self._path, [msgspec.json.encode(change(self.read())), b"\n"])
        except OSError as error:
            raise self._error(f"cannot be written: {error.strerror}") from error

    def _error(self, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{shown(self._path)} {problem}")


@contextmanager
def _alone(file: Path) -> Generator[None]:
    # As above.
    import fcntl

    with file.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
