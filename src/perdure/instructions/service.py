"""The instruction service: from the files of a Location to Context Sources."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from perdure.config.location import Location, span
from perdure.config.schema import InstructionOptions
from perdure.context import UNAVAILABLE, Diagnostic, Source, SystemContext, Unavailable
from perdure.files import Trouble, is_gone
from perdure.instructions import rendering
from perdure.instructions.discovery import Found, Place, examine
from perdure.instructions.files import InstructionFile, load_file
from perdure.instructions.keys import key_of, path_of

_log = logging.getLogger(__name__)

AGENTS = "AGENTS.md"
CLAUDE = "CLAUDE.md"


class Survey(msgspec.Struct, frozen=True):
    """One look at a Location.

    `files` are in the order in which they are told. `refused` are files that are not used,
    `blocked` places that could not be examined.
    """

    files: tuple[Found, ...]
    refused: tuple[Trouble, ...]
    blocked: tuple[Trouble, ...]


class InstructionService:
    """Finds, identifies and loads the instruction files that govern one Location.

    `config_dir` may hold the user's global file. `discovered` are the paths that `nested` returned
    before. The methods touch the file system and may block: call them in a thread. Keep a service
    as long as these stay the same, so that a file which hangs is not opened again and again.
    """

    __slots__ = (
        "_config_dir",
        "_directories",
        "_location",
        "_names",
        "_sources",
        "_troubles",
        "_unread",
    )

    def __init__(
        self,
        config_dir: Path,
        location: Location,
        *,
        discovered: Sequence[Path] = (),
        options: InstructionOptions | None = None,
    ) -> None:
        options = options or InstructionOptions()
        self._config_dir = config_dir
        self._location = location
        self._names = (AGENTS, CLAUDE) if options.claude_md else (AGENTS,)
        self._directories = self._governing(discovered) if options.project else ()
        self._sources: dict[Found, Source[InstructionFile]] = {}
        self._troubles: tuple[Trouble, ...] = ()
        self._unread: dict[Path, Trouble] = {}

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What the last `compose` could not use or its sources could not read, and why."""
        troubles = (*self._troubles, *self._unread.values())
        return [Diagnostic(key_of(each.path), "load", each.reason) for each in troubles]

    def survey(self) -> Survey:
        """Look at every directory once; the global file first, then the nearest last."""
        project = self._location.project
        looked: list[tuple[Path | None, Place]] = [(None, examine(self._config_dir, [AGENTS]))]
        looked += [(here, examine(here, self._names, project)) for here in self._directories]
        files: dict[Path, Found] = {}
        for governs, place in looked:
            if place.file is not None:  # the same file by a second way keeps its broader place
                files.setdefault(place.file, Found(place.file, governs))
        return Survey(
            files=tuple(files.values()),
            refused=tuple(trouble for _, place in looked for trouble in place.refused),
            blocked=tuple(place.blocked for _, place in looked if place.blocked is not None),
        )

    def compose(self, told: Collection[str] = ()) -> SystemContext:
        """Return one Context Source for each instruction file, in the order to tell them.

        `told` are the keys of the Context Snapshot. A told file that may still count, but in a
        place that cannot be examined now, becomes a source that is Unavailable; one that is gone
        is left out, so that its removal is told. Nothing is read before the sources load.
        """
        survey = self.survey()
        self._remember(survey)
        present = {source.key for source in self._sources.values()}
        hidden = [key for key in sorted(told) if key not in present and self._hides(survey, key)]
        sources = [*self._sources.values(), *map(Source.unavailable, hidden)]
        return SystemContext.combine(*map(SystemContext.make, sources))

    def nested(self, target: Path) -> list[Path]:
        """Return the instruction files on the way from the project root to a target.

        The target is a file or directory that was just read, listed or written. Left out are the
        directories that this service looks at already. The paths are canonical but for a link in
        the place of the file itself.
        """
        if not self._directories:
            return []
        project = self._location.project
        bottom = _directory_of(Path(os.path.realpath(target)))
        new = [here for here in span(project, bottom) if here not in self._directories]
        places = [examine(here, self._names, project) for here in new]
        return [place.found_at for place in places if place.found_at is not None]

    def _governing(self, discovered: Sequence[Path]) -> tuple[Path, ...]:
        own = self._location.between()
        project = self._location.project
        further = {path.parent for path in discovered if path.parent.is_relative_to(project)}
        return (*own, *sorted(further.difference(own), key=lambda path: (len(path.parts), path)))

    def _remember(self, survey: Survey) -> None:
        troubles = (*survey.refused, *survey.blocked)
        _log_new(troubles, self._troubles)
        self._troubles = troubles
        self._sources = {
            found: self._sources.get(found) or self._source(found) for found in survey.files
        }
        present = {found.path for found in survey.files}
        self._unread = {path: why for path, why in dict(self._unread).items() if path in present}

    def _source(self, found: Found) -> Source[InstructionFile]:
        return Source(
            key=key_of(found.path),
            type=InstructionFile,
            load=partial(self._load, found),
            baseline=rendering.baseline,
            update=rendering.update,
            removed=rendering.removed,
        )

    def _load(self, found: Found) -> InstructionFile | Unavailable:
        # The global file may lie, or be a link to, wherever the user likes.
        root = found.path.parent if found.governs is None else self._location.project
        try:
            value = load_file(found.path, root, found.governs)
        except OSError as error:
            trouble = Trouble(found.path, f"it cannot be read now: {error.strerror}")
            _log_new([trouble], self._unread.values())
            self._unread[found.path] = trouble
            return UNAVAILABLE
        self._unread.pop(found.path, None)
        return value

    def _hides(self, survey: Survey, key: str) -> bool:
        """Say whether a told file may still count in a place that could not be examined."""
        path = path_of(key) if survey.blocked else None
        if path is None or is_gone(path):
            return False
        inside = path.is_relative_to(self._location.project)
        return inside or any(place.path.parent == self._config_dir for place in survey.blocked)


def _log_new(troubles: Iterable[Trouble], known: Collection[Trouble]) -> None:
    for trouble in troubles:
        if trouble not in known:
            _log.warning("instruction file %s", trouble)


def _directory_of(path: Path) -> Path:
    try:
        return path if path.is_dir() else path.parent
    except OSError:
        return path.parent
