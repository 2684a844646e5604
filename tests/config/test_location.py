"""A Location is an existing directory with its project root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.config.location import Location, find_project, shown, span
from perdure.errors import DirectoryNotFound


@pytest.mark.parametrize("mark", [".git", ".hg", ".jj"])
def test_the_project_root_is_the_nearest_directory_under_version_control(
    tmp_path: Path, mark: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / mark).mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)

    location = find_project(tmp_path / "a" / "b" / "c")

    assert location == Location(tmp_path / "a" / "b" / "c", tmp_path / "a", mark[1:])


def test_a_worktree_whose_git_is_a_file_is_a_project(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    assert find_project(tmp_path).vcs == "git"


def test_without_version_control_the_project_is_the_directory_itself(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    location = find_project(tmp_path / "plain")
    assert location == Location(tmp_path / "plain", tmp_path / "plain", "")


def test_a_link_to_a_directory_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert find_project(tmp_path / "link").directory == tmp_path / "real"


def test_a_relative_directory_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_project(".").directory == tmp_path


def test_a_missing_directory_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(DirectoryNotFound, match=r"nowhere is no directory to work in: No such"):
        find_project(tmp_path / "nowhere")


def test_a_file_is_not_found_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DirectoryNotFound, match="file is not a directory"):
        find_project(tmp_path / "file")


def test_a_loop_of_links_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DirectoryNotFound, match="loop"):
        find_project(tmp_path / "loop")


def test_a_name_with_a_nul_is_not_found() -> None:
    with pytest.raises(DirectoryNotFound, match=r"a\\x00b"):
        find_project("a\0b")


def test_a_name_that_is_no_unicode_is_refused_in_one_line(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/\xff\n"
    Path(os.fsdecode(odd)).mkdir()
    with pytest.raises(DirectoryNotFound, match=r"\\udcff\\n is not valid UTF-8"):
        find_project(os.fsdecode(odd))


def test_a_parent_that_cannot_be_examined_is_no_project_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    assert find_project(tmp_path) == Location(tmp_path, tmp_path, "")


def test_the_directories_between_run_from_the_project_down_to_the_location(tmp_path: Path) -> None:
    location = Location(tmp_path / "a" / "b", tmp_path)
    assert location.between() == (tmp_path, tmp_path / "a", tmp_path / "a" / "b")


def test_nothing_lies_between_directories_that_are_not_below_each_other() -> None:
    assert span(Path("/a/b"), Path("/a")) == ()


@given(st.text())
def test_a_shown_path_is_one_printable_line(path: str) -> None:
    assert shown(path).isprintable()


@given(st.text().filter(str.isprintable))
def test_a_printable_path_is_shown_as_it_is(path: str) -> None:
    assert shown(path) == path
