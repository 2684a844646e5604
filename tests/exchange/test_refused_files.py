"""Files that are no whole export: refused with the line, and nothing is left of them."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import Runtime
from perdure.errors import ImportRefused
from perdure.exchange.lines import LONGEST_LINE
from perdure.exchange.reading import read_export
from perdure.exchange.staging import Staging
from tests.exchange.exchange_support import edited, everything_in, lines_of, signed

pytestmark = pytest.mark.anyio


async def refusal(root: Path, export: bytes) -> str:
    """Return why an export is refused, having seen that nothing of it was kept."""
    root.mkdir(exist_ok=True)
    file = root / "export.jsonl"
    file.write_bytes(export)
    async with Runtime.open(root / "sessions.db", config={}, environ={}) as runtime:
        with pytest.raises(ImportRefused) as refused:
            await runtime.import_session(file)
        assert await runtime.sessions() == []
    assert everything_in(root) == {"export.jsonl"}
    (line,) = str(refused.value).splitlines()
    assert str(file) in line
    return line.removeprefix(str(file))


def swapped(lines: list[bytes]) -> list[bytes]:
    return [*lines[:5], lines[6], lines[5], *lines[7:]]


DAMAGES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "it is empty": (lambda _: [], "line 1: it is no export of Perdure"),
    "only the end is missing": (lambda it: it[:-1], ": the file ends too early"),
    "it ends within a line": (lambda it: [*it[:8], it[8][:40]], "line 9: the file ends too early"),
    "it ends between two lines": (lambda it: it[:8], "line 9: the file ends too early"),
    "a line is missing": (
        lambda it: [*it[:5], *it[6:]],
        "line 6: event 6 stands in the place of event 5",
    ),
    "a line is there twice": (
        lambda it: [*it[:6], *it[5:]],
        "line 7: event 5 stands in the place of event 6",
    ),
    "lines are swapped": (swapped, "line 6: event 6 stands in the place of event 5"),
    "something follows": (lambda it: [*it, b"\n"], ": something follows the last line"),
    "it is there twice": (lambda it: [*it, *it], ": something follows the last line"),
    "a line is no JSON": (lambda it: [*it[:3], b"hello\n", *it[4:]], "line 4: it is not what"),
    "a line is empty": (lambda it: [*it[:3], b"\n", *it[3:]], "line 4: it is not what"),
    "the line ends are those of Windows": (
        lambda it: [line.replace(b"\n", b"\r\n") for line in it],
        "line 1: the line is not as Perdure writes it",
    ),
    "a word is another": (
        lambda it: [line.replace(b"Say much", b"Say more") for line in it],
        ": the digest of the lines before it is not right",
    ),
    "an output was cut": (
        lambda it: [line.replace(b"line 1500", b"line 150") for line in it],
        "the output is not of the size that was said",
    ),
    "an output is another": (
        lambda it: [line.replace(b"line 1500 ", b"line 1501 ") for line in it],
        "the digest of the output is not right",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_a_damaged_file_is_refused_with_its_line(root: Path, busy: bytes, name: str) -> None:
    damage, words = DAMAGES[name]
    line = await refusal(root, b"".join(damage(busy.splitlines(keepends=True))))
    assert words in line
    assert line.endswith("; nothing was imported")


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 1000,
        gzip.compress(b'{"format":"perdure-session"}\n'),
        b'{"role":"user","content":"Hello"}\n',
        b"[" * 100_000 + b"\n",
        b'{"format":"perdure-session\\ud800"}\n',
        b'{"format":"another","version":1}\n',
        b"x" * 200_000,
        "\ufeff{}\n".encode(),
    ],
)
async def test_a_foreign_file_is_no_export(root: Path, content: bytes) -> None:
    assert await refusal(root, content) == (
        ", line 1: it is no export of Perdure; nothing was imported"
    )


async def test_a_newer_format_is_refused_with_its_version(root: Path, busy: bytes) -> None:
    def newer(lines: list[dict[str, Any]]) -> None:
        lines[0] |= {"version": 2, "invented": "tomorrow"}

    line = await refusal(root, edited(busy, newer))
    assert "line 1: its format has version 2, and this Perdure reads versions up to 1" in line


@pytest.mark.parametrize("session", ["", ".", "..", "../x", "a/b", ".import-1", "a\0", "a" * 200])
async def test_an_id_that_is_no_plain_name_is_refused(
    root: Path, busy: bytes, session: str
) -> None:
    line = await refusal(root, edited(busy, lambda lines: lines[0].update(session=session)))
    assert "line 1: its header holds a version or a session id that cannot be" in line


async def test_a_line_that_is_too_long_is_refused_before_it_is_read_whole(
    root: Path, busy: bytes
) -> None:
    head = busy.splitlines(keepends=True)[:4]

    class Endless(io.RawIOBase):
        """The beginning of an export, with a line behind it that never ends."""

        given = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            data = head.pop(0)[: len(buffer)] if head else b"x" * len(buffer)
            buffer[: len(data)] = data
            self.given += len(data)
            return len(data)

    endless = Endless()
    with pytest.raises(ImportRefused, match=r"line 5: the line is longer than \d+ bytes"):
        read_export(io.BufferedReader(endless), "it", Staging(root).create)
    assert endless.given < LONGEST_LINE + 1024 * 1024


async def test_what_is_no_regular_file_is_refused_at_once(root: Path) -> None:
    root.mkdir()
    os.mkfifo(root / "fifo")
    async with Runtime.open(root / "sessions.db", config={}, environ={}) as runtime:
        for path in (root, root / "fifo", Path("/dev/zero")):
            with anyio.fail_after(60), pytest.raises(ImportRefused, match="is no regular file"):
                await runtime.import_session(path)
        for path in (root / "none", root / "none" / "x", "\0", "a" * 5000):
            with pytest.raises(ImportRefused):
                await runtime.import_session(path)


OUTPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "leads elsewhere": ({"output": "../flood-1.txt"}, "no event names an output so"),
    "has no name": ({"output": ""}, "no event names an output so"),
    "is hidden": ({"output": ".txt"}, "no event names an output so"),
    "is of no call": ({"output": "other.txt"}, "no event names an output so"),
    "is too large": ({"size": 2**40}, "the output must not be over"),
    "is smaller than nothing": ({"size": -1}, "the output must not be over"),
    "has another size": ({"size": 7}, "the output is not of the size that was said"),
    "has another digest": ({"sha256": "0" * 64}, "the digest of the output is not right"),
}


@pytest.mark.parametrize("name", OUTPUTS)
async def test_an_output_that_cannot_be_is_refused(root: Path, busy: bytes, name: str) -> None:
    change, words = OUTPUTS[name]

    def edit(lines: list[dict[str, Any]]) -> None:
        (head,) = (line for line in lines if "output" in line)
        head.update(change)

    assert words in await refusal(root, edited(busy, edit))


async def test_an_output_that_is_there_twice_is_refused(root: Path, busy: bytes) -> None:
    def edit(lines: list[dict[str, Any]]) -> None:
        first = next(index for index, line in enumerate(lines) if "output" in line)
        lines.extend(lines[first:])

    assert "do not stand in the order of their names" in await refusal(root, edited(busy, edit))


async def test_an_output_that_a_hostile_event_names_stays_inside(root: Path, busy: bytes) -> None:
    def edit(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if line.get("type") == "tool.settled" and "file" in line["data"]:
                line["data"]["file"] = "/tmp/../../.."
            if "output" in line:
                line["output"] = ".."

    assert "no event names an output so" in await refusal(root, edited(busy, edit))


def outcome(data: bytes, root: Path) -> str:
    """Return the session, or how the refusal begins; whatever else is raised comes out."""
    staging = Staging(root)
    try:
        return read_export(io.BytesIO(data), "it", staging.create).session
    except ImportRefused as error:
        return " ".join(str(error).split()[:2])
    finally:
        staging.discard()
        assert not root.exists()


@given(data=st.binary(max_size=400))
@settings(max_examples=200)
def test_any_bytes_give_a_session_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    assert outcome(data, tmp_path_factory.getbasetemp() / "none") == "it, line"


@given(data=st.data())
@settings(max_examples=150)
def test_a_file_in_which_anything_is_another_is_refused(
    tmp_path_factory: pytest.TempPathFactory, busy: bytes, data: st.DataObject
) -> None:
    lines = busy.splitlines(keepends=True)
    places = st.integers(0, len(lines) - 1)
    first, second = data.draw(places), data.draw(places)
    match data.draw(st.sampled_from(["drop", "repeat", "swap", "cut", "byte", "insert"])):
        case "drop":
            del lines[first]
        case "repeat":
            lines.insert(second, lines[first])
        case "swap":
            lines[first], lines[second] = lines[second], lines[first]
        case "cut":
            del lines[first + 1 :]
            lines[first] = lines[first][: data.draw(st.integers(0, len(lines[first])))]
        case "byte":
            at = data.draw(st.integers(0, len(lines[first]) - 1))
            line = bytearray(lines[first])
            line[at] = data.draw(st.integers(0, 255))
            lines[first] = bytes(line)
        case _:
            lines.insert(first, data.draw(st.binary(max_size=50)))
    changed = b"".join(lines)
    expected = busy == changed
    (session,) = {lines_of(busy)[0]["session"]}
    found = outcome(changed, tmp_path_factory.getbasetemp() / "none")
    assert found == (session if expected else "it, line")


def test_signing_an_export_anew_gives_the_same(busy: bytes) -> None:
    assert signed(map(msgspec.json.encode, lines_of(busy)[:-1])) == busy
