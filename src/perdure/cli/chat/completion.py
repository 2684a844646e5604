"""Completions of what is being typed: commands, their arguments, and paths behind an `@`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

_PATH = re.compile(r"(?:^|\s)@(\S*)$")
_DIRECTORY = re.compile(r"/move\s+(.*)$")
_MODEL = re.compile(r"/model\s+(\S*)$")
_COMMAND = re.compile(r"/([\w-]*)$")


class Completions(Completer):
    """Completes at the cursor; `commands` are names with one line each.

    `directory` and `models` are asked each time, since both change while a chat runs.
    """

    def __init__(
        self,
        commands: Mapping[str, str],
        directory: Callable[[], Path],
        models: Callable[[], Iterable[str]],
    ) -> None:
        self._commands = commands
        self._models = models

        def here() -> list[str]:
            return [str(directory())]

        self._paths = PathCompleter(get_paths=here, expanduser=True)
        self._directories = PathCompleter(True, here, expanduser=True)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield what could stand at the cursor."""
        before = document.text_before_cursor
        if found := _COMMAND.fullmatch(before):
            for name, help_ in self._commands.items():
                if name.startswith(found[1]):
                    yield Completion(name, -len(found[1]), f"/{name}", help_)
        elif found := _MODEL.fullmatch(before):
            for model in self._models():
                if model.startswith(found[1]):
                    yield Completion(model, -len(found[1]))
        elif found := _DIRECTORY.fullmatch(before):
            yield from self._directories.get_completions(Document(found[1]), complete_event)
        elif found := _PATH.search(before):
            yield from self._paths.get_completions(Document(found[1]), complete_event)


def completes_by_itself(text: str) -> bool:
    """Say whether completions are shown while this is typed, and not only at a Tab."""
    return bool(_COMMAND.fullmatch(text) or _PATH.search(text))
