"""The tool `edit`."""

from __future__ import annotations

import codecs
import stat
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.tools.edit import occurrences
from tests.tools.calling import Bench

pytestmark = pytest.mark.anyio


async def test_one_match_is_replaced(bench: Bench) -> None:
    file = bench.file("a.py", "a = 1\nb = 2\n")
    settled = await bench.call("edit", path="a.py", old="b = 2", new="b = 3")
    assert settled.outcome == "completed"
    assert settled.output == "Replaced 1 occurrence in a.py, first at line 2."
    assert settled.paths == (file,)
    assert file.read_text() == "a = 1\nb = 3\n"


async def test_no_match_is_an_error_that_counts(bench: Bench) -> None:
    file = bench.file("a.py", "a = 1\n")
    settled = await bench.call("edit", path="a.py", old="a  = 1", new="x")
    assert settled.outcome == "failed"
    assert settled.output.startswith("old occurs 0 times in a.py; it must match exactly")
    assert settled.paths == ()
    assert file.read_text() == "a = 1\n"


async def test_several_matches_are_an_error_that_counts(bench: Bench) -> None:
    file = bench.file("a.py", "x\nx\nx\n")
    settled = await bench.call("edit", path="a.py", old="x", new="y")
    assert settled.outcome == "failed"
    assert settled.output.startswith("old occurs 3 times in a.py")
    assert file.read_text() == "x\nx\nx\n"


async def test_overlapping_matches_are_ambiguous_too(bench: Bench) -> None:
    file = bench.file("a.txt", "aaa")
    settled = await bench.call("edit", path="a.txt", old="aa", new="b")
    assert settled.output.startswith("old occurs 2 times in a.txt")
    assert file.read_text() == "aaa"


async def test_all_replaces_every_match(bench: Bench) -> None:
    file = bench.file("a.py", "x\nx\nx\n")
    settled = await bench.call("edit", path="a.py", old="x", new="y", all=True)
    assert settled.output == "Replaced 3 occurrences in a.py, first at line 1."
    assert file.read_text() == "y\ny\ny\n"


@pytest.mark.parametrize(("old", "words"), [("", "old is empty"), ("x", "are the same")])
async def test_an_edit_that_changes_nothing_is_an_error(bench: Bench, old: str, words: str) -> None:
    bench.file("a.txt", "x")
    settled = await bench.call("edit", path="a.txt", old=old, new="x")
    assert settled.outcome == "failed"
    assert words in settled.output


async def test_windows_line_ends_are_kept(bench: Bench) -> None:
    file = bench.file("a.txt", "one\r\ntwo\r\nthree\r\n")
    settled = await bench.call("edit", path="a.txt", old="one\ntwo\n", new="1\n2\n2b\n")
    assert settled.outcome == "completed"
    assert file.read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"


async def test_lines_added_to_a_windows_file_get_its_line_ends(bench: Bench) -> None:
    file = bench.file("a.txt", "one\r\ntwo\r\n")
    await bench.call("edit", path="a.txt", old="one", new="0\n1")
    assert file.read_bytes() == b"0\r\n1\r\ntwo\r\n"


async def test_mixed_line_ends_stay_where_nothing_was_replaced(bench: Bench) -> None:
    file = bench.file("a.txt", "one\r\ntwo\nthree\r\nfour\n")
    await bench.call("edit", path="a.txt", old="two\n", new="2\n")
    await bench.call("edit", path="a.txt", old="three\nfour", new="3\n4")
    assert file.read_bytes() == b"one\r\n2\n3\r\n4\n"


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ],
)
async def test_the_encoding_and_its_mark_are_kept(bench: Bench, mark: bytes, encoding: str) -> None:
    file = bench.file("a.txt", mark + "Grüße\n".encode(encoding))
    settled = await bench.call("edit", path="a.txt", old="Grüße", new="Küsse 💌")
    assert settled.outcome == "completed"
    assert file.read_bytes() == mark + "Küsse 💌\n".encode(encoding)


async def test_undecodable_bytes_elsewhere_survive(bench: Bench) -> None:
    file = bench.file("a.txt", b"caf\xe9 costs 2\n")
    await bench.call("edit", path="a.txt", old="costs 2", new="costs 3")
    assert file.read_bytes() == b"caf\xe9 costs 3\n"


async def test_the_mode_is_kept(bench: Bench) -> None:
    file = bench.file("run.sh", "old")
    file.chmod(0o755)
    await bench.call("edit", path="run.sh", old="old", new="new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


async def test_a_missing_file_is_told(bench: Bench) -> None:
    settled = await bench.call("edit", path="a.txt", old="a", new="b")
    assert (settled.outcome, settled.output) == ("failed", "a.txt does not exist")


async def test_a_binary_file_is_refused(bench: Bench) -> None:
    bench.file("data", b"\0\1\2")
    settled = await bench.call("edit", path="data", old="a", new="b")
    assert "binary file" in settled.output


async def test_concurrent_edits_of_one_file_lose_none(bench: Bench) -> None:
    file = bench.file("a.txt", "".join(f"<{n}>\n" for n in range(20)))
    (bench.project / "link.txt").symlink_to("a.txt")
    async with anyio.create_task_group() as group:
        for n in range(20):
            path = "link.txt" if n % 2 else "./a.txt"

            async def edit(n: int = n, path: str = path) -> None:
                settled = await bench.call("edit", path=path, old=f"<{n}>", new=f"[{n}]")
                assert settled.outcome == "completed"

            group.start_soon(edit)
    assert file.read_text() == "".join(f"[{n}]\n" for n in range(20))


@given(content=st.text(alphabet="ab\n", max_size=12), old=st.text("ab\n", min_size=1, max_size=3))
def test_a_match_counts_as_clear_only_where_there_is_one_place(content: str, old: str) -> None:
    places = [at for at in range(len(content)) if content.startswith(old, at)]
    assert (occurrences(content, old) == 1) == (len(places) == 1)
    assert (occurrences(content, old) == 0) == (len(places) == 0)


# The time that files take says nothing.
UNTIMED = settings(deadline=None)
LINES = st.lists(st.sampled_from(["a", "b", "ä", "", "\udce9"]), max_size=6)


@UNTIMED
@given(
    before=LINES,
    after=LINES,
    old=st.text("xy\n", min_size=1, max_size=4).filter(lambda text: text.strip("\n") != ""),
    new=st.text("xyz\n", max_size=4),
    crlf=st.booleans(),
    mark=st.booleans(),
)
def test_an_edit_changes_only_what_it_replaces(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[str],
    after: list[str],
    old: str,
    new: str,
    crlf: bool,
    mark: bool,
) -> None:
    bench = Bench(Path(tmp_path_factory.mktemp("edit")))

    def stored(text: str) -> bytes:
        ends = text.replace("\n", "\r\n") if crlf else text
        return (codecs.BOM_UTF8 if mark else b"") + ends.encode("utf-8", "surrogateescape")

    head, tail = "\n".join(before), "\n".join(after)
    # Enough good text around a bad byte, so that the file counts as text.
    file = bench.file("a.txt", stored(f"first\n{head}good lines {old} good lines{tail}"))
    settled = anyio.run(_edit, bench, old, new)
    if old == new:
        assert settled == "failed"
    else:
        assert settled == "completed"
        assert file.read_bytes() == stored(f"first\n{head}good lines {new} good lines{tail}")


async def _edit(bench: Bench, old: str, new: str) -> str:
    return (await bench.call("edit", path="a.txt", old=old, new=new)).outcome
