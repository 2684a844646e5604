"""Where skills may lie, the places that count most first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from perdure.config.location import Location
from perdure.config.paths import config_dir, home_dir
from perdure.errors import ConfigurationError

_IN_PROJECTS = (".perdure/skills", ".agents/skills", ".claude/skills")


class Place(msgspec.Struct, frozen=True):
    """A directory that may hold folders of skills. What is in it must not lead out of `root`, which
    is None for the user's own places."""

    directory: Path
    root: Path | None = None


def user_skills(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the places of the user's own skills, the one that counts more first; none need exist.

    `skills` in the configuration directory, and `~/.agents/skills` where a home is known. Raise
    ConfigurationError where the configuration directory cannot be told.
    """
    own = config_dir(env) / "skills"
    try:
        return own, home_dir(env) / ".agents" / "skills"
    except ConfigurationError:
        return (own,)


def places(location: Location, user: Sequence[Path]) -> list[Place]:
    """Return the places of a Location, from the nearest to the root of its project, then the
    user's own."""
    project = [
        Place(directory / name, location.project)
        for directory in reversed(location.between())
        for name in _IN_PROJECTS
    ]
    # A project that holds the user's home does not make the user's own skills its own.
    return [place for place in project if place.directory not in user] + [*map(Place, user)]
