"""The tool `list`."""

from __future__ import annotations

import os

import pytest

from tests.tools.calling import Bench

pytestmark = pytest.mark.anyio


async def test_names_are_sorted_and_directories_end_in_a_slash(bench: Bench) -> None:
    bench.file("b.txt")
    bench.file("src/deep.txt")
    bench.file(".hidden")
    settled = await bench.call("list")
    assert settled.outcome == "completed"
    assert settled.output == ".hidden\nb.txt\nsrc/"
    assert settled.paths == (bench.project,)


async def test_a_link_shows_where_it_leads(bench: Bench) -> None:
    (bench.project / "link").symlink_to("/etc")
    assert (await bench.call("list")).output == "link -> /etc"


async def test_an_empty_directory_says_so(bench: Bench) -> None:
    (bench.project / "empty").mkdir()
    assert (await bench.call("list", path="empty")).output == "empty is an empty directory."


async def test_ignored_entries_are_left_out_and_counted(bench: Bench) -> None:
    bench.git()
    bench.file(".gitignore", "*.log\nbuild/\n")
    for path in ("a.log", "b.log", "build/x", "kept.txt"):
        bench.file(path)
    settled = await bench.call("list")
    assert settled.output == ".gitignore\nkept.txt\n3 git-ignored entries are left out."


async def test_an_ignored_directory_shows_its_content_when_it_is_asked_for(bench: Bench) -> None:
    bench.file(".gitignore", "node_modules/\n")
    bench.file("node_modules/left-pad/index.js")
    assert (await bench.call("list", path="node_modules")).output == "left-pad/"


async def test_a_full_directory_is_cut_with_a_count(bench: Bench) -> None:
    for number in range(1100):
        bench.file(f"{number:04}")
    settled = await bench.call("list")
    lines = settled.output.splitlines()
    assert lines[:2] == ["0000", "0001"]
    assert lines[999:] == ["0999", "100 more entries are left out."]


async def test_a_name_that_does_not_print_is_escaped(bench: Bench) -> None:
    bench.file("evil\nname\x1b[31m")
    assert (await bench.call("list")).output == r"evil\nname\x1b[31m"


async def test_a_name_that_is_no_text_is_shown(bench: Bench) -> None:
    with open(os.fsencode(bench.project) + b"/caf\xe9", "wb"):  # noqa: PTH123 - a name of bytes
        pass
    assert (await bench.call("list")).output == "caf\ufffd"


async def test_a_file_leads_to_the_tool_read(bench: Bench) -> None:
    bench.file("a.txt")
    settled = await bench.call("list", path="a.txt")
    assert settled.outcome == "failed"
    assert settled.output == "a.txt is a file, not a directory; use the tool read to see it"


async def test_a_missing_directory_is_told(bench: Bench) -> None:
    settled = await bench.call("list", path="nowhere")
    assert (settled.outcome, settled.output) == ("failed", "nowhere does not exist")
