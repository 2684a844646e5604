"""Which files are taken as images, and which paths a text names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import ImageRefused
from perdure.history.content import Image
from perdure.images import (
    LARGEST,
    LARGEST_SUM,
    LONGEST_SIDE,
    MOST,
    images_of,
    kind_of,
    make_image,
    named_in,
    read_image,
)
from tests.pictures import gif, jpeg, png, webp

KINDS: dict[str, Callable[[int, int], bytes]] = {
    "image/png": png,
    "image/jpeg": jpeg,
    "image/gif": gif,
    "image/webp": webp,
}
ALL = pytest.mark.parametrize("kind", KINDS)


@ALL
def test_kind_and_pixels_are_read_from_the_bytes_whatever_the_name(kind: str) -> None:
    image = make_image(KINDS[kind](300, 17), "notes.txt")
    assert (image.media_type, image.width, image.height) == (kind, 300, 17)


@ALL
def test_a_file_that_is_cut_off_anywhere_is_refused(kind: str) -> None:
    data = KINDS[kind](7, 5)
    for length in range(len(data)):
        with pytest.raises(ImageRefused):
            make_image(data[:length], "cut")


@ALL
@given(st.data())
def test_any_bytes_are_an_image_or_are_refused(kind: str, draw: st.DataObject) -> None:
    data = bytearray(KINDS[kind](7, 5))
    for _ in range(draw.draw(st.integers(0, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    data += draw.draw(st.binary(max_size=20))
    try:
        image = make_image(bytes(data), "any")
    except ImageRefused:
        return
    assert 0 < image.width <= LONGEST_SIDE
    assert 0 < image.height <= LONGEST_SIDE


def _parts(data: bytes) -> list[bytes]:
    """Return signature, header, pixels and end of a PNG that has nothing else."""
    header, end = data[8:33], data[-12:]
    return [data[:8], header, data[33:-12], end]


_SIGN, _HEAD, _PIXELS, _END = _parts(png())
_EXTENDED = b"VP8X\x0a\0\0\0\0\0\0\0\x02\0\0\x01\0\0"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(_SIGN + _HEAD + _END, "no picture", id="PNG without pixels"),
        pytest.param(_SIGN + _PIXELS + _HEAD + _END, "one header", id="PNG with a late header"),
        pytest.param(_SIGN + _HEAD + _HEAD + _PIXELS + _END, "one header", id="PNG with two"),
        pytest.param(_SIGN + _END, "one header", id="PNG without a header"),
        pytest.param(gif()[:19] + b";", "no picture", id="GIF without a frame"),
        pytest.param(gif()[:19] + b"!\xfe\x02ab\0;", "no picture", id="GIF with a comment alone"),
        pytest.param(gif()[:19] + b"!\xfe\x02ab;", "cut off", id="GIF with a comment that goes on"),
        pytest.param(b"\xff\xd8\xff\xe0;", "cut off", id="JPEG that ends in a segment"),
        pytest.param(b"\xff\xd8\xff\xd9", "cut off", id="JPEG of two markers"),
        pytest.param(webp()[:20] + bytes(9), "no picture", id="WebP with another signature"),
        pytest.param(b"RIFF\x16\0\0\0WEBP" + _EXTENDED, "no picture", id="WebP of a frame alone"),
    ],
)
def test_a_file_whose_structure_holds_no_picture_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ImageRefused, match=words):
        make_image(data, "empty")


def test_a_picture_behind_extensions_is_found() -> None:
    later = gif()[:19] + b"!\xf9\x04\0\0\0\0\0!\xfe\x02ab\0" + gif()[19:]
    assert make_image(later, "a").width == 3
    chunk = webp()[12:]
    extended = b"RIFF\x26\0\0\0WEBP" + _EXTENDED + chunk
    image = make_image(extended, "b")
    assert (image.width, image.height) == (3, 2)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("cut.png", png()[:-6], "broken image"),
        ("flipped.png", png().replace(b"IDAT", b"IDAt"), "a checksum does not fit"),
        ("cut.jpg", jpeg()[:-2], "it is cut off"),
        ("cut.gif", gif()[:-1], "it is cut off"),
        ("cut.webp", webp()[:-4], "it is cut off"),
        ("wide.png", png(8001, 1), "8001 x 1 pixels"),
        ("none.png", png(0, 0), "0 x 0 pixels"),
        ("text.png", b"no image at all", "is no image that a model takes"),
        ("large.png", png(padding=LARGEST), "make it smaller"),
    ],
)
def test_a_file_that_providers_would_refuse_is_refused_with_its_name(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ImageRefused, match=reason) as refused:
        images_of([name], tmp_path)
    assert name in str(refused.value)


@given(st.binary(max_size=40))
def test_what_begins_like_no_image_is_none(data: bytes) -> None:
    if kind_of(data) is None:
        with pytest.raises(ImageRefused, match="is no image that a model takes"):
            make_image(data, "any")


def test_the_name_becomes_one_line_that_can_be_stored(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/bad\xff\x1b[2J.png"
    Path(os.fsdecode(file)).write_bytes(png())
    name = read_image(Path(os.fsdecode(file))).name
    assert name.isprintable()
    assert name.encode()
    assert len(make_image(png(), "x" * 5000).name) < 300


def test_a_refusal_names_its_path_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(ImageRefused) as refused:
        read_image(tmp_path / "two\nlines.png")
    assert "two\\nlines.png cannot be read: No such file" in str(refused.value)


def test_a_fifo_is_refused_and_not_opened(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe.png"
    os.mkfifo(fifo)
    with pytest.raises(ImageRefused, match=r"pipe\.png is no regular file"):
        read_image(fifo)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageRefused, match="is no regular file"):
        read_image(tmp_path)


def test_no_more_is_read_of_a_huge_file_than_shows_that_it_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "huge.png"
    file.write_bytes(png())
    os.truncate(file, 2**40)  # takes no room on the disk
    with pytest.raises(ImageRefused, match=f"has {LARGEST + 1} bytes"):
        read_image(file)


def test_paths_are_relative_to_the_directory_and_images_are_looked_at_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.png").write_bytes(png())
    whole = make_image(gif(), "b.gif")
    images = images_of(["a.png", tmp_path / "a.png", whole], tmp_path)
    assert [image.name for image in images] == ["a.png", "a.png", "b.gif"]
    with pytest.raises(ImageRefused, match="broken image"):
        images_of([Image("image/png", png()[:-1], 3, 2, "c")], tmp_path)


def test_an_image_that_says_something_else_than_its_bytes_is_put_right() -> None:
    (image,) = images_of([Image("image/gif", png(), 900, 900)], Path("/"))
    assert (image.media_type, image.width, image.height) == ("image/png", 3, 2)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ("a.png", "must come as a list"),
        (make_image(png(), "a"), "must come as a list"),
        ([7], "must be an Image, a str or a Path, not int"),
        ([Image("image/png", "text", 1, 1)], "must be an Image"),  # type: ignore[arg-type]
        ([make_image(png(), "a")] * (MOST + 1), f"{MOST} are the most"),
        ([make_image(png(padding=LARGEST - 100), "a")] * 4, f"more than {LARGEST_SUM} bytes"),
    ],
)
def test_what_is_no_list_of_images_that_fit_is_refused(images: Any, words: str) -> None:
    with pytest.raises(ImageRefused, match=words):
        images_of(images, Path("/"))


NAMED: list[tuple[str, list[str], bool]] = [
    ("What is in shot.png?", ["shot.png"], False),
    ("See @shot.png.", ["shot.png"], True),
    ("See (@shot.png), please", ["shot.png"], True),
    ("convert 'my shot.png' to text", ["my shot.png"], False),
    ('@"my shot.png" is wrong', ["my shot.png"], True),
    (r"my\ shot.png, as a terminal writes it", ["my shot.png"], False),
    ("deep/SHOT.PNG and shot.png", ["deep/SHOT.PNG", "shot.png"], False),
    ("shot.png, then shot.png again", ["shot.png"], False),
    ("file://{here}/my%20shot.png", ["my shot.png"], False),
    ("{here}/shot.png", ["shot.png"], False),
    ("~/shot.png", ["shot.png"], False),
    ("@gone.png", ["gone.png"], True),
    ("gone.png and shot.pn and shot.png.txt", [], False),
    ("mail me@shot.png or https://example.com/shot.png", [], False),
    ("a directory: folder.png", [], False),
    ("nothing at all", [], False),
]


@pytest.mark.parametrize(("text", "names", "asked"), NAMED)
def test_the_images_that_a_text_names_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, names: list[str], asked: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "deep").mkdir()
    (tmp_path / "folder.png").mkdir()
    for name in ("shot.png", "my shot.png", "deep/SHOT.PNG"):
        (tmp_path / name).write_bytes(png())
    found = named_in(text.format(here=tmp_path), tmp_path)
    assert [each.path for each in found] == [tmp_path / name for name in names]
    assert all(each.asked is asked for each in found)


@given(st.text(max_size=200))
def test_any_text_can_be_looked_through(text: str) -> None:
    for each in named_in(text, Path("/nowhere")):
        assert each.asked


def test_a_long_text_of_quotes_is_looked_through_at_once() -> None:
    text = " \"' @\\" * 20_000 + "\n"
    assert named_in(text, Path("/nowhere")) == []
