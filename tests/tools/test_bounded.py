"""Bounded output."""

from __future__ import annotations

import resource
import signal
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.tools.bounded import DEFAULT_LIMITS, Bounded, Limits, Spool, bound, managed_name
from perdure.tools.printable import storable


def lines_of(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def test_a_text_within_the_limits_stays_as_it_is(tmp_path: Path) -> None:
    text = "x\n" * 2000
    assert bound(text, tmp_path / "outputs", "call") == Bounded(text)
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    "text", ["line\n" * 2001, "x" * 51_201, "ä" * 30_000, "\n" * 2001], ids=lambda text: text[:5]
)
def test_a_text_over_a_limit_is_cut_and_kept_whole(tmp_path: Path, text: str) -> None:
    bounded = bound(text, tmp_path, "call")
    assert Path(bounded.file).read_text("utf-8") == text
    assert bounded.file in bounded.text
    assert len(bounded.text.encode()) <= DEFAULT_LIMITS.size
    assert lines_of(bounded.text) <= DEFAULT_LIMITS.lines


def test_head_and_tail_are_shown_with_what_is_between_counted(tmp_path: Path) -> None:
    text = "".join(f"{n}\n" for n in range(1, 5001))
    bounded = bound(text, tmp_path, "call")
    head, note, tail = bounded.text.partition("[... ")
    note, _, tail = tail.partition(" ...]\n")
    assert head == "".join(f"{n}\n" for n in range(1, 999))
    assert tail == "".join(f"{n}\n" for n in range(4003, 5001))
    left = len(text) - len(head) - len(tail)
    assert note == f"{left} bytes, 3004 lines left out; the complete text is in {bounded.file}"


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    bounded = bound("x" * 60_000, tmp_path / "outputs", "call")
    assert stat.S_IMODE(Path(bounded.file).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "outputs").stat().st_mode) == 0o700


def test_a_file_of_an_earlier_call_with_the_same_id_is_kept(tmp_path: Path) -> None:
    first = bound("a" * 60_000, tmp_path, "call_0")
    second = bound("b" * 60_000, tmp_path, "call_0")
    assert Path(first.file).read_text() == "a" * 60_000
    assert Path(second.file).read_text() == "b" * 60_000
    assert [Path(first.file).name, Path(second.file).name] == ["call_0.txt", "call_0-2.txt"]


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "call.txt").symlink_to(tmp_path / "elsewhere")
    bounded = bound("x" * 60_000, tmp_path / "outputs", "call")
    assert bounded.file.endswith("call-2.txt")
    assert not (tmp_path / "elsewhere").exists()


def test_failing_to_keep_the_file_only_changes_the_note(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("in the way")
    bounded = bound("x" * 60_000, tmp_path / "outputs", "call")
    assert bounded.file == ""
    assert "the complete text could not be kept (File exists)" in bounded.text
    assert bounded.text.startswith("x")


def test_a_disk_that_fills_up_leaves_no_half_file(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        bounded = bound("x" * 200_000, tmp_path, "call")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert bounded.file == ""
    assert "the complete text could not be kept (File too large)" in bounded.text
    assert list(tmp_path.iterdir()) == []


def test_no_more_than_the_limit_is_kept_and_the_note_says_so(tmp_path: Path) -> None:
    bounded = bound("x" * 5000, tmp_path, "call", Limits(size=2000, kept=3000))
    assert Path(bounded.file).read_text() == "x" * 3000
    assert f"the first 3000 bytes of the complete text are in {bounded.file}" in bounded.text


def test_a_spool_that_is_given_up_removes_its_file(tmp_path: Path) -> None:
    with Spool(tmp_path, "call") as spool:
        spool.write("x" * 60_000)
        assert [path.name for path in tmp_path.iterdir()] == ["call.txt"]
    assert list(tmp_path.iterdir()) == []


def test_a_spool_keeps_little_in_memory(tmp_path: Path) -> None:
    with Spool(tmp_path, "call") as spool:
        for _ in range(200):
            spool.write("x" * 100_000)
        held = sum(len(value) for value in vars(spool).values() if isinstance(value, bytes))
        bounded = spool.finish()
    assert held < 200_000
    assert Path(bounded.file).stat().st_size == 20_000_000


TEXTS = st.lists(st.text("ab\n\0é💌\ud800", max_size=60), max_size=12)


@settings(deadline=None)
@given(pieces=TEXTS, lines=st.integers(0, 12), size=st.integers(0, 900))
def test_what_is_shown_is_a_head_and_a_tail_of_what_was_said(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], lines: int, size: int
) -> None:
    directory = tmp_path_factory.mktemp("outputs")
    limits = Limits(lines, size)
    with Spool(directory, "call", limits) as spool:
        for piece in pieces:
            spool.write(piece)
        bounded = spool.finish()
    whole = storable("".join(pieces))
    if not bounded.file:
        assert bounded.text == whole
        assert len(whole.encode()) <= size
        return
    assert Path(bounded.file).read_text("utf-8") == whole
    head, _, rest = bounded.text.partition("[... ")
    tail = rest.partition(" ...]\n")[2]
    assert whole.startswith((head, head[:-1]))
    assert whole.endswith(tail)
    assert len(head) + len(tail) <= len(whole) + 1
    assert len((head + tail).encode()) <= max(size, 1)
    assert lines_of(head + tail) <= max(lines, 2)


@given(call=st.text(max_size=300))
def test_every_call_id_makes_a_safe_file_name(call: str) -> None:
    name = managed_name(call)
    assert 0 < len(name) <= 64
    assert name.isascii()
    assert all(character.isalnum() or character in "-_" for character in name)


@given(one=st.text(max_size=80), other=st.text(max_size=80))
def test_different_call_ids_make_different_file_names(one: str, other: str) -> None:
    assert (managed_name(one) == managed_name(other)) == (one == other)
