"""Paths stay inside what a session may touch, whatever a model or a link says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.errors import ToolError
from perdure.files import directory
from perdure.tools.confine import confine
from perdure.tools.files import open_file, replace_file
from tests.tools.calling import Bench


def refusal(bench: Bench, given: str, *, write: bool = False) -> str:
    with pytest.raises(ToolError) as raised:
        confine(given, bench.context(), write=write)
    return str(raised.value)


def test_a_path_is_relative_to_the_location(bench: Bench) -> None:
    bench.directory = bench.project / "sub"
    place = confine("a.txt", bench.context())
    assert place.path == bench.project / "sub" / "a.txt"
    assert place.shown == "a.txt"


def test_the_project_root_itself_is_inside(bench: Bench) -> None:
    place = confine(".", bench.context())
    assert (place.path, place.name, place.parents) == (bench.project, ".", ())


@pytest.mark.parametrize("given", ["..", "../x", "/etc/passwd", "sub/../../x", "/", "../project2"])
def test_a_path_outside_is_refused(bench: Bench, given: str) -> None:
    assert "outside of the directories that are open here" in refusal(bench, given)


def test_a_neighbour_with_the_same_beginning_is_outside(bench: Bench) -> None:
    (bench.root / "project-secret").mkdir()
    refusal(bench, f"{bench.project}-secret/x")


def test_a_link_is_resolved_before_the_check(bench: Bench) -> None:
    (bench.root / "outside").mkdir()
    (bench.project / "link").symlink_to(bench.root / "outside")
    assert refusal(bench, "link/x").startswith("link/x leads outside")
    # Word by word `link/..` is the project; on the disk it is what holds `outside`.
    assert refusal(bench, "link/../outside/x").startswith("link/../outside/x leads outside")


def test_a_link_from_outside_into_the_project_is_fine(bench: Bench) -> None:
    bench.file("a.txt")
    (bench.root / "in").symlink_to(bench.project)
    assert confine(f"{bench.root}/in/a.txt", bench.context()).path == bench.project / "a.txt"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "the path is empty"),
        ("a\0b", "it holds a NUL character"),
        ("a" * 256, "is too long for a path"),
        ("a/" * 2100, "is too long for a path"),
        ("\ud800", "cannot be encoded"),
        ("~", "`~` is not expanded"),
        ("~/notes.txt", "`~` is not expanded"),
    ],
)
def test_what_is_no_path_is_refused_with_the_reason(bench: Bench, given: str, words: str) -> None:
    message = refusal(bench, given, write=True)
    assert words in message
    assert message.isprintable()
    assert len(message) < 400


def test_a_loop_of_links_is_refused(bench: Bench) -> None:
    (bench.project / "a").symlink_to("b")
    (bench.project / "b").symlink_to("a")
    with pytest.raises(ToolError, match="loop"):
        replace_file(confine("a/x", bench.context(), write=True), b"x")


def test_further_directories_are_open_where_the_configuration_says_so(bench: Bench) -> None:
    extra = bench.root / "extra"
    extra.mkdir()
    refusal(bench, f"{extra}/a")
    bench.allowed = (extra,)
    assert confine(f"{extra}/a", bench.context(), write=True).root == extra


def test_outputs_can_be_read_and_not_written(bench: Bench) -> None:
    given = f"{bench.outputs}/call.txt"
    assert confine(given, bench.context()).root == bench.outputs
    assert "it can be read but not written" in refusal(bench, given, write=True)


def test_outputs_inside_the_project_cannot_be_written_either(bench: Bench) -> None:
    bench.outputs = bench.project / ".data" / "outputs"
    assert "it can be read but not written" in refusal(bench, ".data/outputs/x", write=True)


ELSEWHERE = "/far/away/perdure.db-outputs/0123456789/call.txt"


def own_output(bench: Bench, name: str = "call.txt") -> Path:
    bench.outputs.mkdir(parents=True, exist_ok=True)
    (bench.outputs / name).write_text("complete")
    return bench.outputs / name


def test_a_copied_output_is_read_by_the_path_at_which_it_was_stored_first(bench: Bench) -> None:
    copy = own_output(bench)
    place = confine(ELSEWHERE, bench.context())
    assert (place.root, place.path) == (bench.outputs, copy)
    with open_file(place) as file:
        assert file.read() == b"complete"


def test_an_output_of_another_session_is_refused_where_there_is_no_copy(bench: Bench) -> None:
    own_output(bench, "other.txt")
    assert "outside of the directories" in refusal(bench, ELSEWHERE)


@pytest.mark.parametrize(
    "given",
    [
        "/far/away/outputs/0123456789/call.txt",
        "/far/perdure.db-outputs/call.txt",
        "/far/perdure.db-outputs/0123456789/more/call.txt",
        "/far/perdure.db-outputs/0123456789/../call.txt",
    ],
)
def test_only_the_path_of_a_stored_output_leads_to_the_copy(bench: Bench, given: str) -> None:
    own_output(bench)
    assert "outside of the directories" in refusal(bench, given)


def test_a_file_of_the_project_goes_before_a_copy_of_the_same_name(bench: Bench) -> None:
    copy = own_output(bench)
    bench.file("build-outputs/x/call.txt", "of the project")
    given = "build-outputs/x/call.txt"
    assert confine(given, bench.context()).path == bench.project / given
    (bench.project / given).unlink()
    assert confine(given, bench.context()).path == copy


def test_an_own_output_is_never_taken_for_another_one(bench: Bench) -> None:
    bench.outputs = bench.root / "x-outputs" / "id"
    own_output(bench)
    given = f"{bench.outputs}/gone.txt"
    assert confine(given, bench.context()).path == Path(given)


def test_a_copy_cannot_be_written(bench: Bench) -> None:
    own_output(bench)
    assert "outside of the directories" in refusal(bench, ELSEWHERE, write=True)


def test_a_link_among_the_copies_leads_nowhere(bench: Bench) -> None:
    secret = bench.root / "secret"
    secret.write_text("secret")
    bench.outputs.mkdir(parents=True)
    (bench.outputs / "call.txt").symlink_to(secret)
    with pytest.raises(ToolError):
        open_file(confine(ELSEWHERE, bench.context()))


def test_a_link_put_in_place_after_the_check_leads_nowhere(bench: Bench) -> None:
    (bench.root / "outside").mkdir()
    (bench.root / "outside" / "secret").write_text("secret")
    bench.file("sub/secret", "mine")
    place = confine("sub/secret", bench.context(), write=True)
    (bench.project / "sub" / "secret").unlink()
    (bench.project / "sub").rmdir()
    (bench.project / "sub").symlink_to(bench.root / "outside")
    with pytest.raises(OSError, match=r"secret|sub|directory|links"):
        open_file(place)
    with pytest.raises(ToolError):
        replace_file(place, b"overwritten")
    assert (bench.root / "outside" / "secret").read_text() == "secret"


def test_a_last_name_that_became_a_link_leads_nowhere(bench: Bench) -> None:
    (bench.root / "secret").write_text("secret")
    place = confine("a.txt", bench.context(), write=True)
    (bench.project / "a.txt").symlink_to(bench.root / "secret")
    with pytest.raises(ToolError, match="a link that was put there just now"):
        open_file(place)
    with pytest.raises(ToolError, match="a link that was put there just now"):
        replace_file(place, b"overwritten")
    assert (bench.root / "secret").read_text() == "secret"


def test_a_directory_that_may_only_be_passed_through_is_no_obstacle(bench: Bench) -> None:
    bench.file("sub/a.txt", "x")
    (bench.project / "sub").chmod(0o311)
    try:
        with directory(bench.project, ["sub"]) as held:
            assert os.stat("a.txt", dir_fd=held).st_size == 1
    finally:
        (bench.project / "sub").chmod(0o755)


NAMES = st.sampled_from(["a", "b", "d", "..", ".", ""])
PLACES = st.one_of(
    st.lists(NAMES, min_size=1, max_size=5).map("/".join).filter(bool),
    st.sampled_from(["OUTSIDE", "OUTSIDE/a", "PROJECT", "PROJECT/../outside/a", "PROJECT/d/b"]),
)
LINKS = st.dictionaries(st.sampled_from(["a", "b", "d/a", "d/b"]), PLACES, max_size=4)


@settings(max_examples=200, deadline=None)
@given(links=LINKS, given=PLACES)
def test_no_arrangement_of_links_lets_a_write_escape(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str], given: str
) -> None:
    bench = Bench(tmp_path_factory.mktemp("confine"))
    outside = bench.root / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret")
    (bench.project / "d").mkdir()

    def real(text: str) -> str:
        return text.replace("OUTSIDE", str(outside)).replace("PROJECT", str(bench.project))

    for name, target in links.items():
        (bench.project / name).symlink_to(real(target))
    write_and_read(bench, real(given))
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a": "secret"}
    assert sorted(path.name for path in bench.root.iterdir()) == ["outside", "project"]


def write_and_read(bench: Bench, given: str) -> None:
    try:
        place = confine(given, bench.context(), write=True)
        assert place.path.is_relative_to(bench.project)
        replace_file(place, b"written")
        with open_file(confine(given, bench.context())) as file:
            assert file.read() == b"written"
    except ToolError:
        return
    assert Path(os.path.realpath(bench.project / given)).is_relative_to(bench.project)
