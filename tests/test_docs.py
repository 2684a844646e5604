"""The documents are true: their Python runs, their links lead somewhere, the examples work.

A block opened by ```` ```python run ```` is a whole program. Other blocks show a part of one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*.py") if path.name[0] != "_")

FENCE = re.compile(r"^(?P<fence>```+)(?P<info>.*)\n(?P<body>(?:.*\n)*?)(?P=fence)[ \t]*$", re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.M)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def runnable_blocks() -> Iterator[tuple[str, str]]:
    """Yield a name and the text of each whole program in the documents."""
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        for found in FENCE.finditer(text):
            if found["info"].split() == ["python", "run"]:
                line = text.count("\n", 0, found.start()) + 1
                yield f"{name(document)}:{line}", found["body"]


def relative_links() -> Iterator[tuple[Path, str]]:
    for document in DOCUMENTS:
        for target in LINK.findall(FENCE.sub("", document.read_text("utf-8"))):
            if not re.match(r"[a-z]+:", target):
                yield document, target


def anchors(document: Path) -> set[str]:
    """The names that a page of the repository's host gives to the headings of a document."""
    headings = HEADING.findall(FENCE.sub("", document.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-") for text in headings}


def run(program: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program as a newcomer would: no key, no configuration, nothing to ask."""
    secret = re.compile(r"API_KEY|TOKEN|^PERDURE_")
    environment = {key: value for key, value in os.environ.items() if not secret.search(key)}
    environment |= {
        "HOME": str(directory),
        "PERDURE_CONFIG_DIR": str(directory / "config"),
        "PERDURE_DATA_DIR": str(directory / "data"),
    }
    return subprocess.run(
        [sys.executable, str(program)],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=place) for place, text in runnable_blocks()]
)
def test_a_program_in_the_documents_runs(text: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(text, encoding="utf-8")
    ended = run(program, tmp_path)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    ended = run(example, tmp_path)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize(
    ("document", "target"),
    [pytest.param(*link, id=f"{name(link[0])}->{link[1]}") for link in relative_links()],
)
def test_a_link_leads_somewhere(document: Path, target: str) -> None:
    place, _, anchor = target.partition("#")
    page = (document.parent / place).resolve() if place else document
    assert page.exists()
    assert page.is_relative_to(ROOT)
    assert not anchor or anchor in anchors(page)


def test_the_index_leads_to_every_document() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {
        (index.parent / target).resolve() for page, target in relative_links() if page == index
    }
    assert set((ROOT / "docs").rglob("*.md")) - listed == {index}


def test_the_map_of_the_house_names_every_room() -> None:
    house = (ROOT / "docs" / "house.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+)(?:/|\.py)?`", house))
    inside = [path for path in (ROOT / "src" / "perdure").iterdir() if path.name[0] != "_"]
    rooms = {
        path.stem for path in inside if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert rooms - named == set()
