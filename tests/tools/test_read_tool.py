"""The tool `read`."""

from __future__ import annotations

import codecs
import os
import socket
from pathlib import Path

import anyio
import pytest

from perdure.tools import Limits, builtin_tools
from tests.tools.calling import Bench

pytestmark = pytest.mark.anyio


async def test_lines_come_with_their_numbers(bench: Bench) -> None:
    file = bench.file("a.txt", "one\n\nthree\n")
    settled = await bench.call("read", path="a.txt")
    assert settled.outcome == "completed"
    assert settled.output == "1\tone\n2\t\n3\tthree\n"
    assert settled.paths == (file,)


async def test_a_last_line_without_an_end_is_shown(bench: Bench) -> None:
    bench.file("a.txt", "one\ntwo")
    assert (await bench.call("read", path="a.txt")).output == "1\tone\n2\ttwo\n"


async def test_windows_line_ends_are_not_shown(bench: Bench) -> None:
    bench.file("a.txt", "one\r\ntwo\r\n")
    assert (await bench.call("read", path="a.txt")).output == "1\tone\n2\ttwo\n"


async def test_a_range_is_read_and_says_how_to_go_on(bench: Bench) -> None:
    bench.file("a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    settled = await bench.call("read", path="a.txt", offset=3, limit=2)
    assert settled.output == ("3\tline 3\n4\tline 4\nThe file goes on; read it with offset 5.")


async def test_the_end_of_a_file_needs_no_remark(bench: Bench) -> None:
    bench.file("a.txt", "one\ntwo\nthree\n")
    settled = await bench.call("read", path="a.txt", offset=3, limit=1)
    assert settled.output == "3\tthree\n"


async def test_an_offset_beyond_the_end_tells_the_number_of_lines(bench: Bench) -> None:
    bench.file("a.txt", "one\ntwo\n")
    settled = await bench.call("read", path="a.txt", offset=9)
    assert settled.outcome == "failed"
    assert settled.output == "a.txt has 2 lines; offset 9 is beyond its end"


async def test_an_empty_file_says_so(bench: Bench) -> None:
    bench.file("a.txt")
    settled = await bench.call("read", path="a.txt")
    assert (settled.outcome, settled.output) == ("completed", "a.txt is empty.")


async def test_a_long_file_is_read_in_pages_and_never_cut_in_the_middle(bench: Bench) -> None:
    lines = [f"{'x' * (n % 97)}{n}" for n in range(1, 9001)]
    bench.file("long.txt", "\n".join(lines))
    shown: list[str] = []
    offset = 1
    while offset:
        settled = await bench.call("read", path="long.txt", offset=offset)
        assert settled.file == ""
        *page, last = settled.output.rstrip("\n").split("\n")
        goes_on = last.startswith("The file goes on")
        shown += page if goes_on else [*page, last]
        offset = int(last.rpartition(" ")[2].rstrip(".")) if goes_on else 0
    assert shown == [f"{n}\t{line}" for n, line in enumerate(lines, 1)]


async def test_a_page_never_exceeds_the_limits(bench: Bench) -> None:
    bench.tools = builtin_tools(limits=Limits(lines=5, size=60))
    bench.file("a.txt", "0123456789\n" * 20)
    settled = await bench.call("read", path="a.txt", limit=100)
    assert settled.output.count("0123456789") == 4
    assert settled.output.endswith("read it with offset 5.")


async def test_a_long_line_is_cut_visibly(bench: Bench) -> None:
    bench.file("a.txt", "x" * 5000 + "\nshort\n")
    settled = await bench.call("read", path="a.txt")
    first, second = settled.output.splitlines()
    assert first == f"1\t{'x' * 2000} [... the line goes on; it has 5000 characters ...]"
    assert second == "2\tshort"


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
async def test_a_line_of_the_greatest_length_is_shown_whole(bench: Bench, ending: str) -> None:
    bench.file("a.txt", "x" * 2000 + ending)
    assert (await bench.call("read", path="a.txt")).output == f"1\t{'x' * 2000}\n"


async def test_the_rest_of_a_huge_line_is_only_counted(bench: Bench) -> None:
    file = bench.file("a.txt", "start")
    with file.open("r+b") as opened:
        opened.seek(0)
        for _ in range(300):
            opened.write(b"y" * 100_000)
    settled = await bench.call("read", path="a.txt")
    assert len(settled.output) < 3000
    assert "30000000 characters" in settled.output


@pytest.mark.parametrize(
    ("magic", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "png"),
        (b"\xff\xd8\xff\xe0", "jpeg"),
        (b"GIF89a", "gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "webp"),
    ],
)
async def test_an_image_is_refused_where_the_model_takes_none(
    bench: Bench, magic: bytes, kind: str
) -> None:
    bench.file("picture", magic)
    settled = await bench.call("read", path="picture")
    assert settled.outcome == "failed"
    assert settled.output == f"picture is an image (image/{kind}), and this model takes no images"


async def test_a_file_with_nul_bytes_is_refused(bench: Bench) -> None:
    bench.file("data", b"text\0more")
    settled = await bench.call("read", path="data")
    assert settled.output == "data is a binary file (it holds NUL bytes), not text"


async def test_a_file_that_is_mostly_undecodable_is_refused(bench: Bench) -> None:
    bench.file("data", bytes(range(128, 256)) * 4)
    settled = await bench.call("read", path="data")
    assert settled.output == "data is a binary file (most of it is no UTF-8), not text"


async def test_a_few_bad_bytes_are_replaced_and_counted(bench: Bench) -> None:
    bench.file("a.txt", "Grüße aus Köln\n".encode("latin-1"))
    settled = await bench.call("read", path="a.txt")
    assert settled.outcome == "completed"
    assert settled.output == (
        "1\tGr\ufffd\ufffde aus K\ufffdln\n3 bytes here are not UTF-8; they are shown as \ufffd."
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
async def test_a_byte_order_mark_tells_the_encoding(bench: Bench, encoding: str) -> None:
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    bench.file("a.txt", mark + "Grüße\nKöln\n".encode(encoding))
    assert (await bench.call("read", path="a.txt")).output == "1\tGrüße\n2\tKöln\n"


async def test_a_nul_far_into_a_file_is_replaced(bench: Bench) -> None:
    bench.file("a.txt", b"x\n" * 5000 + b"a\0b\n")
    settled = await bench.call("read", path="a.txt", offset=5001)
    assert settled.output == "5001\ta\ufffdb\n"


async def test_a_directory_leads_to_the_tool_list(bench: Bench) -> None:
    (bench.project / "src").mkdir()
    settled = await bench.call("read", path="src")
    assert settled.outcome == "failed"
    assert settled.output == "src is a directory; use the tool list to see what it holds"


async def test_a_fifo_is_refused_and_never_waited_for(bench: Bench) -> None:
    os.mkfifo(bench.project / "pipe")
    with anyio.fail_after(60):
        settled = await bench.call("read", path="pipe")
    assert settled.output == "pipe is a FIFO, not a regular file"


async def test_a_socket_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bench.project)  # the name of a socket may not be long
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
    settled = await bench.call("read", path="sock")
    assert settled.output == "sock is a socket, not a regular file"


async def test_a_device_that_the_configuration_opens_is_refused(bench: Bench) -> None:
    bench.allowed = (Path("/dev"),)
    settled = await bench.call("read", path="/dev/zero")
    assert settled.output == "/dev/zero is a device, not a regular file"


async def test_a_missing_file_suggests_a_near_name(bench: Bench) -> None:
    bench.file("src/README.md", "x")
    settled = await bench.call("read", path="src/REDME.md")
    assert settled.outcome == "failed"
    assert settled.output == "src/REDME.md does not exist; near it there is README.md"


async def test_a_missing_directory_is_told(bench: Bench) -> None:
    settled = await bench.call("read", path="nowhere/a.txt")
    assert settled.output == ("nowhere/a.txt does not exist, nor does the directory it would be in")


async def test_a_file_as_a_directory_is_told(bench: Bench) -> None:
    bench.file("a.txt", "x")
    settled = await bench.call("read", path="a.txt/b")
    assert settled.outcome == "failed"
    assert "does not exist" in settled.output


async def test_paths_are_relative_to_the_location_inside_a_larger_project(bench: Bench) -> None:
    bench.file("a.txt", "above\n")
    bench.directory = bench.project / "sub"
    bench.directory.mkdir()
    assert (await bench.call("read", path="../a.txt")).output == "1\tabove\n"
    assert (await bench.call("read", path="../b.txt")).output.startswith("../b.txt does not exist")


async def test_a_stored_output_can_be_read(bench: Bench) -> None:
    bench.outputs.mkdir()
    stored = bench.outputs / "call.txt"
    stored.write_text("kept\n")
    assert (await bench.call("read", path=str(stored))).output == "1\tkept\n"
