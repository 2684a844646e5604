"""The tool `grep`, with ripgrep where it is found and with our own search always."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from perdure.tools import builtin_tools
from perdure.tools.confine import confine
from perdure.tools.grep import grep_tool
from perdure.tools.searching import PROGRAM, Search, request_for
from tests.tools.calling import Bench

pytestmark = pytest.mark.anyio

ENDS = [None, *(["rg"] if shutil.which("rg") else [])]


@pytest.fixture(params=ENDS, ids=lambda end: end or "own")
def grep(bench: Bench, request: pytest.FixtureRequest) -> Bench:
    """A bench of which `grep` uses one of the programs."""
    bench.tools = builtin_tools(ripgrep=request.param)
    return bench


async def test_lines_come_with_path_and_number(grep: Bench) -> None:
    grep.file("b.py", "x = 1\ny = 2\nx = 3\n")
    grep.file("a/z.py", "  x = 4")
    settled = await grep.call("grep", pattern=r"x = \d")
    assert settled.outcome == "completed"
    assert settled.output == "a/z.py:1:  x = 4\nb.py:1:x = 1\nb.py:3:x = 3"
    assert settled.paths == ()


async def test_paths_are_relative_to_the_location(grep: Bench) -> None:
    grep.git()
    grep.directory = grep.project / "here"
    grep.file("here/a.txt", "hit")
    grep.file("there/b.txt", "hit")
    assert (await grep.call("grep", pattern="hit")).output == "a.txt:1:hit"
    assert (await grep.call("grep", pattern="hit", path="../there")).output == (
        "../there/b.txt:1:hit"
    )


async def test_one_file_can_be_searched(grep: Bench) -> None:
    grep.file("src/a.txt", "hit\n")
    grep.file("src/b.txt", "hit\n")
    assert (await grep.call("grep", pattern="hit", path="src/a.txt")).output == "src/a.txt:1:hit"


async def test_ignored_files_are_left_out(grep: Bench) -> None:
    grep.git()
    (grep.root / ".gitignore").write_text("*\n")
    grep.file(".gitignore", "*.log\n!keep.log\n/build\nsub/no/\n")
    grep.file(".git/info/exclude", "secret\n")
    for path in ("a.log", "keep.log", "build/x", "sub/no/x", "sub/yes/x", "secret", ".git/config"):
        grep.file(path, "hit\n")
    everywhere = await grep.call("grep", pattern="hit")
    assert everywhere.output == "keep.log:1:hit\nsub/yes/x:1:hit"
    assert (await grep.call("grep", pattern="hit", path="sub")).output == "sub/yes/x:1:hit"


async def test_ignore_rules_hold_without_a_repository(grep: Bench) -> None:
    (grep.root / ".gitignore").write_text("kept\n")
    grep.file(".gitignore", "a/left-out\n")
    for path in ("a/left-out", "a/kept", "kept"):
        grep.file(path, "hit\n")
    assert (await grep.call("grep", pattern="hit")).output == "a/kept:1:hit\nkept:1:hit"
    assert (await grep.call("grep", pattern="hit", path="a")).output == "a/kept:1:hit"


async def test_nobodys_personal_rules_hold(grep: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    (grep.root / "git").mkdir()
    (grep.root / "git" / "ignore").write_text("a.txt\n")
    (grep.root / "ripgreprc").write_text("--ignore-case\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(grep.root))
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(grep.root / "ripgreprc"))
    grep.git()
    grep.file(".ignore", "a.txt\n")
    grep.file("a.txt", "hit\nHIT\n")
    assert (await grep.call("grep", pattern="hit")).output == "a.txt:1:hit"


async def test_dot_files_are_searched(grep: Bench) -> None:
    grep.file(".github/workflow.yml", "hit\n")
    assert (await grep.call("grep", pattern="hit")).output == ".github/workflow.yml:1:hit"


@pytest.mark.parametrize(
    ("include", "paths"),
    [
        ("*.py", ["a.py", "src/b.py"]),
        ("*.{py,c}", ["a.py", "src/b.py", "src/x/d.c"]),
        ("src/*.py", ["src/b.py"]),
        ("./src/**", ["src/b.py", "src/x/d.c"]),
        ("**/*.c", ["src/x/d.c"]),
    ],
)
async def test_include_limits_the_files(grep: Bench, include: str, paths: list[str]) -> None:
    grep.file(".gitignore", "no.py\n")
    for path in ("a.py", "src/b.py", "src/x/d.c", "src/no.py"):
        grep.file(path, "hit\n")
    settled = await grep.call("grep", pattern="hit", include=include)
    assert settled.output.splitlines() == [f"{path}:1:hit" for path in paths]


async def test_binary_files_are_left_out(grep: Bench) -> None:
    grep.file("data", b"hit\0\n" * 10)
    grep.file("text", "hit\n")
    assert (await grep.call("grep", pattern="hit")).output == "text:1:hit"


async def test_windows_line_ends_and_byte_order_marks_do_not_hide_a_match(grep: Bench) -> None:
    grep.file("a.txt", b"\xef\xbb\xbfhit\r\nhit\r\n")
    grep.file("b.txt", "hit\r\n".encode("utf-16"))
    settled = await grep.call("grep", pattern="^hit$")
    assert settled.output == "a.txt:1:hit\na.txt:2:hit\nb.txt:1:hit"


async def test_bad_bytes_are_shown_as_replaced(grep: Bench) -> None:
    grep.file("a.txt", b"caf\xe9 hit\n")
    assert (await grep.call("grep", pattern="hit")).output == "a.txt:1:caf\ufffd hit"


async def test_a_long_line_is_cut_visibly(grep: Bench) -> None:
    for length in (500, 501, 100_000):
        grep.file("a.txt", "h" * length)
        settled = await grep.call("grep", pattern="h")
        mark = "" if length == 500 else " [... cut ...]"
        assert settled.output == f"a.txt:1:{'h' * 500}{mark}"


async def test_links_are_not_followed(grep: Bench) -> None:
    (grep.root / "secret").write_text("hit\n")
    (grep.project / "file").symlink_to(grep.root / "secret")
    (grep.project / "all").symlink_to(grep.root)
    assert (await grep.call("grep", pattern="hit")).output == "No line matches."


async def test_a_fifo_is_passed_over(grep: Bench) -> None:
    os.mkfifo(grep.project / "pipe")
    grep.file("z", "hit\n")
    assert (await grep.call("grep", pattern="hit")).output == "z:1:hit"


async def test_many_matches_are_cut(grep: Bench) -> None:
    grep.file("a.txt", "hit\n" * 1500)
    lines = (await grep.call("grep", pattern="hit")).output.splitlines()
    assert lines[999:] == ["a.txt:1000:hit", "More lines match; narrow the search."]


async def test_an_invalid_pattern_is_refused_with_the_reason(grep: Bench) -> None:
    settled = await grep.call("grep", pattern="foo(")
    assert settled.outcome == "failed"
    assert settled.output.startswith("the pattern is not valid: missing )")


@pytest.mark.parametrize("pattern", ["", "a\0b"])
async def test_a_pattern_that_can_match_nothing_is_refused(grep: Bench, pattern: str) -> None:
    assert (await grep.call("grep", pattern=pattern)).outcome == "failed"


async def test_a_pattern_that_looks_like_an_option_is_a_pattern(grep: Bench) -> None:
    grep.file("a.txt", "--files\n")
    assert (await grep.call("grep", pattern="--files")).output == "a.txt:1:--files"


async def test_what_only_python_understands_is_searched_too(grep: Bench) -> None:
    grep.file("a.txt", "foobar\nbar\n")
    assert (await grep.call("grep", pattern="(?<=foo)bar")).output == "a.txt:1:foobar"


async def test_a_missing_path_is_told(grep: Bench) -> None:
    settled = await grep.call("grep", pattern="x", path="nowhere")
    assert (settled.outcome, settled.output) == ("failed", "nowhere does not exist")


async def test_an_expression_without_end_is_given_up_in_time(bench: Bench) -> None:
    bench.file("a.txt", "aX\n")
    bench.file("b.txt", "a" * 60)
    output = ""
    for seconds in (1, 5, 25):  # a busy machine may need long to start the search at all
        bench.use([grep_tool(None, seconds=seconds)])
        output = (await bench.call("grep", pattern="(a+)+X")).output
        if "aX" in output:
            break
    assert output == "a.txt:1:aX\nThe time was up before everything was looked at; narrow it."


def test_a_search_whose_caller_is_gone_ends_itself(bench: Bench) -> None:
    bench.file("b.txt", "a" * 60)
    place = confine(".", bench.context())
    request = request_for(Search("grep", place, 10, pattern="(a+)+X", seconds=0))
    ended = subprocess.run(
        [sys.executable, "-I", str(PROGRAM)], input=request, timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGALRM
