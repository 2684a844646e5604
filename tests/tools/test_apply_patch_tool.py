"""`apply_patch`: several files at once, all of it or nothing."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import ToolError
from perdure.tools.patches import Hunk, Updated, applied, parse
from tests.tools.calling import Bench

pytestmark = pytest.mark.anyio


def patch(*lines: str) -> dict[str, object]:
    return {"patch": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


async def test_files_are_added_changed_moved_and_deleted(bench: Bench) -> None:
    bench.file("a.py", "def one():\n    return 1\n\n\ndef two():\n    return 1\n")
    bench.file("old.txt", "x\ny\n")
    bench.file("gone.txt", "z\n")
    settled = await bench.call(
        "apply_patch",
        **patch(
            "*** Add File: new/file.txt",
            "+first",
            "+second",
            "*** Update File: a.py",
            "@@ def two():",
            "-    return 1",
            "+    return 2",
            "*** Update File: old.txt",
            "*** Move to: moved.txt",
            "@@",
            " x",
            "-y",
            "+Y",
            "*** Delete File: gone.txt",
        ),
    )
    assert settled.outcome == "completed", settled.output
    assert settled.output.splitlines() == [
        "added new/file.txt",
        "changed a.py",
        "moved old.txt to moved.txt",
        "removed old.txt",
        "deleted gone.txt",
    ]
    assert (bench.project / "new/file.txt").read_text() == "first\nsecond\n"
    assert (bench.project / "a.py").read_text().endswith("def two():\n    return 2\n")
    assert "def one():\n    return 1\n" in (bench.project / "a.py").read_text()
    assert (bench.project / "moved.txt").read_text() == "x\nY\n"
    assert not (bench.project / "old.txt").exists()
    assert not (bench.project / "gone.txt").exists()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["*** Update File: b.txt", "@@", "-no", "+yes"], "does not hold the 1 lines"),
        (["*** Update File: none.txt", "@@", "-no", "+yes"], "none.txt does not exist"),
        (["*** Update File: b.txt", "@@ nowhere", "-b", "+c"], "has no line 'nowhere'"),
        (["*** Add File: b.txt", "+x"], "b.txt exists already"),
        (["*** Delete File: none.txt"], "none.txt does not exist"),
        (["*** Delete File: ../out.txt"], "outside of the directories"),
        (["*** Update File: b.txt", "*** Move to: d.txt"], "d.txt exists already"),
        (["*** Update File: a.txt", "@@", "-a", "+z"], "more than once"),
        (["*** Update File: b.txt", "@@", " b"], "changes nothing"),
        (["*** Update File: b.txt", "@@", "*** End of File"], "changes nothing"),
        (["*** Update File: b.txt"], "has no hunks"),
        (["*** Update File: b.txt", "@@", "?b"], "begins with ' ', '-' or '+'"),
        (["*** Add File: c.txt", "x"], "begins with '+'"),
        (["*** Add File: "], "the path is missing"),
        (["*** Delete File: b.txt", "something"], "expected '*** Add File: '"),
    ],
)
async def test_what_does_not_fit_changes_nothing_and_is_named(
    bench: Bench, lines: list[str], words: str
) -> None:
    bench.file("a.txt", "a\n")
    bench.file("b.txt", "b\n")
    bench.file("d.txt", "d\n")
    head = ["*** Update File: a.txt", "@@", "-a", "+changed"]
    settled = await bench.call("apply_patch", **patch(*head, *lines))
    assert settled.outcome == "failed"
    assert words in settled.output
    assert (bench.project / "a.txt").read_text() == "a\n"
    assert (bench.project / "b.txt").read_text() == "b\n"
    assert not (bench.project / "c.txt").exists()


@pytest.mark.parametrize("text", ["", "no patch", "*** Begin Patch", "*** Begin Patch\n"])
async def test_what_is_no_patch_is_refused(bench: Bench, text: str) -> None:
    settled = await bench.call("apply_patch", patch=text)
    assert settled.outcome == "failed"
    assert "a patch begins with the line" in settled.output


async def test_a_failure_midway_says_what_was_done_before_it(bench: Bench) -> None:
    settled = await bench.call(
        "apply_patch", **patch("*** Add File: n", "+a file", "*** Add File: n/x", "+below it")
    )
    assert settled.outcome == "failed"
    assert settled.output.endswith("Done before it: added n")


async def test_line_ends_and_marks_of_a_file_stay_as_they_are(bench: Bench) -> None:
    (bench.project / "w.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    await bench.call("apply_patch", **patch("*** Update File: w.txt", "@@", " one", "-two", "+2"))
    assert (bench.project / "w.txt").read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n"


def test_hunks_are_found_in_order_and_spaces_at_line_ends_do_not_matter() -> None:
    change = Updated("f", (Hunk("", ("x",), ("1",)), Hunk("", ("x",), ("2",))))
    assert applied("x \nx\nx\n", change) == "x \n1\n2\n"


def test_a_hunk_at_the_end_of_the_file_is_found_from_below() -> None:
    assert applied("x\nx", Updated("f", (Hunk("", ("x",), ("y",), at_end=True),))) == "x\ny"


def test_lines_without_a_place_go_to_the_end() -> None:
    assert applied("a\n", Updated("f", (Hunk("", (), ("b",)),))) == "a\nb\n"


@given(
    st.lists(
        st.sampled_from(
            [
                "*** Add File: a",
                "*** Update File: b",
                "*** Delete File: c",
                "*** Move to: d",
                "@@",
                "@@ x",
                "+y",
                "-z",
                " ",
                "",
                "*** End of File",
                "?",
            ]
        ),
        max_size=12,
    )
)
def test_any_lines_are_a_patch_or_an_error(lines: list[str]) -> None:
    text = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
    with suppress(ToolError):
        assert parse(text)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=8), st.data())
def test_a_hunk_made_from_a_text_takes_it_to_the_other(
    lines: list[str], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(lines) - 1))
    new = tuple(data.draw(st.lists(st.sampled_from("xyz"), max_size=3)))
    change = Updated("f", (Hunk("", tuple(lines[: start + 1]), (*lines[:start], *new)),))
    expected = [*lines[:start], *new, *lines[start + 1 :]]
    assert applied("\n".join(lines), change) == "\n".join(expected)
