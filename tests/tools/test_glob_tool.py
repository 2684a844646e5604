"""The tool `glob`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.tools._search import translated
from perdure.tools.glob import glob_tool
from tests.tools.calling import Bench

pytestmark = pytest.mark.anyio


def matches(pattern: str, path: str) -> bool:
    return re.fullmatch(translated(pattern), path, re.DOTALL) is not None


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.py", ["a.py", ".py", ".a.py"], ["a.pyc", "src/a.py"]),
        ("**/*.py", ["a.py", "src/a.py", "src/b/a.py"], ["a.txt"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "a"]),
        ("src/**/test_*.py", ["src/test_a.py", "src/x/y/test_.py"], ["test_a.py", "src/a.py"]),
        ("**", ["a", "a/b/c"], []),
        ("a?c", ["abc", "a.c"], ["a/c", "ac"]),
        ("[ab]x", ["ax", "bx"], ["cx"]),
        ("[!ab]x", ["cx"], ["ax", "/x"]),
        ("[]]x", ["]x"], ["ax"]),
        ("[a-c].[^0-9]", ["b.x"], ["b.1", "d.x"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.js"]),
        ("{src,lib}/**/{a,b}.c", ["src/a.c", "lib/x/b.c"], ["etc/a.c"]),
        ("{,x/}a", ["a", "x/a"], ["y/a"]),
        ("a{b{c,d},e}f", ["abcf", "abdf", "aef"], ["af"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        ("a+(b).txt", ["a+(b).txt"], ["aab.txt"]),
        ("[x", ["[x"], ["x"]),
    ],
)
def test_a_pattern_matches_whole_paths(pattern: str, fitting: list[str], others: list[str]) -> None:
    assert [path for path in fitting if not matches(pattern, path)] == []
    assert [path for path in others if matches(pattern, path)] == []


@given(path=st.text(min_size=1, max_size=20))
def test_a_path_without_special_characters_matches_itself_only(path: str) -> None:
    plain = re.sub(r"[\\*?\[\]{},]", "x", path)
    assert matches(plain, plain)
    assert not matches(plain, plain + "x")


async def test_paths_are_sorted_and_relative_to_the_location(bench: Bench) -> None:
    bench.directory = bench.project / "here"
    for path in ("here/b.py", "here/a/z.py", "here/.dot/x.py", "there/c.py"):
        bench.file(path)
    settled = await bench.call("glob", pattern="**/*.py")
    assert settled.outcome == "completed"
    assert settled.output == ".dot/x.py\na/z.py\nb.py"
    assert (await bench.call("glob", pattern="*.py", path="../there")).output == "../there/c.py"


async def test_ignored_files_and_git_itself_are_left_out(bench: Bench) -> None:
    bench.git()
    bench.file(".git/info/exclude", "secret.*\n")
    bench.file(".gitignore", "*.log\n!keep.log\n/build\n")
    bench.file("sub/.gitignore", "*.tmp\n!*.log\n")
    for path in (
        "a.log",
        "keep.log",
        "build/x",
        "sub/build/x",
        "sub/a.tmp",
        "sub/a.log",
        "secret.x",
    ):
        bench.file(path)
    settled = await bench.call("glob", pattern="**")
    assert settled.output.splitlines() == [
        ".gitignore",
        "keep.log",
        "sub/.gitignore",
        "sub/a.log",
        "sub/build/x",
    ]


async def test_rules_above_the_directory_that_is_searched_hold(bench: Bench) -> None:
    bench.file(".gitignore", "sub/x.txt\n")
    bench.file("sub/x.txt")
    bench.file("sub/y.txt")
    assert (await bench.call("glob", pattern="*", path="sub")).output == "sub/y.txt"


async def test_a_repository_inside_the_project_has_its_own_rules(bench: Bench) -> None:
    bench.git()
    bench.file(".gitignore", "*.txt\n")
    bench.file("vendor/.git", "gitdir: elsewhere")
    bench.file("vendor/a.txt")
    bench.file("b.txt")
    assert (await bench.call("glob", pattern="**/*.txt")).output == "vendor/a.txt"


async def test_links_are_named_but_not_followed(bench: Bench) -> None:
    (bench.root / "outside").mkdir()
    (bench.root / "outside" / "secret.txt").write_text("x")
    (bench.project / "link").symlink_to(bench.root / "outside")
    assert (await bench.call("glob", pattern="**")).output == "link"


async def test_many_files_are_cut_with_a_count(bench: Bench) -> None:
    for number in range(1100):
        bench.file(f"{number:04}")
    lines = (await bench.call("glob", pattern="*")).output.splitlines()
    assert lines[999:] == ["0999", "100 more files match; narrow the pattern."]


async def test_nothing_found_says_how_to_look_deeper(bench: Bench) -> None:
    bench.file("src/a.py")
    settled = await bench.call("glob", pattern="*.py")
    assert settled.outcome == "completed"
    assert "**/*.py looks in all directories below" in settled.output
    assert (await bench.call("glob", pattern="lib/*.py")).output == "No file matches lib/*.py."


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*", "a/../../*"])
async def test_a_pattern_that_leaves_the_directory_is_refused(bench: Bench, pattern: str) -> None:
    settled = await bench.call("glob", pattern=pattern)
    assert settled.outcome == "failed"
    assert "must be relative and without `..`" in settled.output


async def test_a_broken_pattern_is_refused_with_the_reason(bench: Bench) -> None:
    settled = await bench.call("glob", pattern="*.{a,b")
    assert settled.outcome == "failed"
    assert settled.output == "the pattern is not valid: a `{` is not closed"


async def test_a_pattern_without_end_is_given_up_in_time(bench: Bench) -> None:
    bench.use([glob_tool(seconds=1)])
    bench.file("a" * 200)
    settled = await bench.call("glob", pattern="*a" * 30 + "b")
    assert settled.outcome == "completed"
    assert settled.output.endswith("The time was up before everything was looked at; narrow it.")


async def test_an_ignore_file_that_never_ends_matching_is_given_up_in_time(bench: Bench) -> None:
    bench.use([glob_tool(seconds=1)])
    bench.file(".gitignore", "*a" * 30 + "b\n")
    bench.file("a" * 200)
    settled = await bench.call("glob", pattern="**")
    assert settled.outcome == "completed"
    assert "The time was up" in settled.output


async def test_a_very_deep_tree_is_searched_as_far_as_is_reasonable(bench: Bench) -> None:
    deep = bench.project
    for _ in range(210):
        deep /= "d"
    deep.mkdir(parents=True)
    bench.file("a.txt")
    settled = await bench.call("glob", pattern="**/*.txt")
    assert settled.output == "a.txt\n1 directories are too deep to look into."
