"""The world of the demo: a small project, a clock, and what happens to both."""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from perdure.demo.clock import FileClock
from perdure.errors import PerdureError
from perdure.testing import isolated_environment

FIRST_DAY = datetime.date(2026, 3, 6)
KEY_NAME = "SCRIPTED_API_KEY"
"""The variable with the key of the scripted provider, which takes any."""

RELEASE = "kettle 1.1 is out"

_INSTRUCTIONS = "Answer in one sentence.\n"
_CODE = '''\
"""Water at sea level."""


def boils(celsius):
    return celsius > 100
'''
_CHANGES = "# Changes\n\n## 2026-02-27\n\n- The first release.\n"
_RELEASE_SCRIPT = f"""\
echo '{RELEASE}' >> releases.txt
echo 'uploading ...'
sleep 60
echo 'the upload is done' >> releases.txt
"""


class World:
    """A project below `root`, the clock that its session lives by, and a home for the session.

    Whatever changes here is only written to files: nobody tells the runtime that it changed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "kettle"
        self.clock_file = root / "clock.txt"
        self.clock = FileClock(self.clock_file)
        self.instructions = self.project / "AGENTS.md"
        self.releases = self.project / "releases.txt"
        self.kept = False

    def build(self) -> None:
        """Write the project as it is in the beginning."""
        git = self.project / ".git"
        git.mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        (self.project / "kettle.py").write_text(_CODE)
        (self.project / "CHANGES.md").write_text(_CHANGES)
        (self.project / "release.sh").write_text(_RELEASE_SCRIPT)
        self.instructions.write_text(_INSTRUCTIONS)
        self.clock.turn_to(FIRST_DAY)

    def add_instruction(self, text: str) -> None:
        """Add a line to AGENTS.md."""
        self.instructions.write_text(f"{self.instructions.read_text()}{text}\n")

    def releases_made(self) -> int:
        """Return how often the release command had its effect."""
        try:
            return self.releases.read_text().splitlines().count(RELEASE)
        except FileNotFoundError:
            return 0

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the processes that work here: nothing of the user's own."""
        return isolated_environment(self.project) | {KEY_NAME: "any-key-will-do"}

    @property
    def configuration(self) -> Path:
        """The directory of the configuration that they read."""
        return Path(self.environment["PERDURE_CONFIG_DIR"])

    @property
    def store(self) -> Path:
        """The database that holds the session."""
        return Path(self.environment["PERDURE_STORE"])


@contextmanager
def temporary_world() -> Generator[World]:
    """Build a World in a temporary directory; remove it at the end, unless it is `kept` by then."""
    try:
        # Resolved, since the model is told the paths that the runtime resolves.
        root = Path(tempfile.mkdtemp(prefix="perdure-demo-")).resolve()
    except OSError as error:
        raise PerdureError(f"no temporary directory can be made: {error.strerror}") from error
    world = World(root)
    try:
        world.build()
        yield world
    finally:
        if not world.kept:
            shutil.rmtree(root, ignore_errors=True)
