"""The tool `write`."""

from __future__ import annotations

import os
import resource
import signal
import stat
from pathlib import Path

import pytest

from tests.tools.calling import Bench

pytestmark = pytest.mark.anyio


async def test_a_new_file_is_created(bench: Bench) -> None:
    settled = await bench.call("write", path="a.txt", content="Grüße\n")
    assert settled.outcome == "completed"
    assert settled.output == "Created a.txt: 8 bytes."
    assert settled.paths == (bench.project / "a.txt",)
    assert (bench.project / "a.txt").read_text("utf-8") == "Grüße\n"


async def test_missing_directories_are_made(bench: Bench) -> None:
    settled = await bench.call("write", path="x/y/z.txt", content="deep")
    assert settled.outcome == "completed"
    assert (bench.project / "x/y/z.txt").read_text() == "deep"


async def test_an_existing_file_is_overwritten_and_keeps_its_mode(bench: Bench) -> None:
    file = bench.file("run.sh", "old")
    file.chmod(0o751)
    settled = await bench.call("write", path="run.sh", content="new")
    assert settled.output == "Overwrote run.sh: 3 bytes."
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751


async def test_a_new_file_gets_the_mode_that_the_user_wants(bench: Bench) -> None:
    before = os.umask(0o027)
    try:
        await bench.call("write", path="a.txt", content="x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((bench.project / "a.txt").stat().st_mode) == 0o640


async def test_a_reader_keeps_the_old_content(bench: Bench) -> None:
    file = bench.file("a.txt", "old")
    with file.open() as reader:
        await bench.call("write", path="a.txt", content="new and longer")
        assert reader.read() == "old"


async def test_nothing_but_the_file_is_left_behind(bench: Bench) -> None:
    await bench.call("write", path="a.txt", content="x")
    assert [path.name for path in bench.project.iterdir()] == ["a.txt"]


async def test_a_directory_is_refused(bench: Bench) -> None:
    (bench.project / "src").mkdir()
    for path in ("src", ".", "src/"):
        settled = await bench.call("write", path=path, content="x")
        assert settled.outcome == "failed"
        assert "is a directory" in settled.output
    assert [path.name for path in bench.project.rglob("*")] == ["src"]


async def test_a_path_that_names_a_directory_makes_no_file(bench: Bench) -> None:
    settled = await bench.call("write", path="new/", content="x")
    assert settled.output == "new/ names a directory; give the path of a file"
    assert list(bench.project.iterdir()) == []


async def test_a_fifo_is_refused(bench: Bench) -> None:
    os.mkfifo(bench.project / "pipe")
    settled = await bench.call("write", path="pipe", content="x")
    assert settled.output == "pipe is a FIFO, not a regular file"


async def test_a_file_where_a_directory_should_be_is_told(bench: Bench) -> None:
    bench.file("a", "x")
    settled = await bench.call("write", path="a/b", content="x")
    assert settled.outcome == "failed"
    assert "is a file, not a directory" in settled.output
    assert (bench.project / "a").read_text() == "x"


async def test_a_link_inside_the_project_is_written_through(bench: Bench) -> None:
    target = bench.file("real.txt", "old")
    (bench.project / "link.txt").symlink_to("real.txt")
    settled = await bench.call("write", path="link.txt", content="new")
    assert settled.output == "Overwrote real.txt: 3 bytes."
    assert target.read_text() == "new"
    assert (bench.project / "link.txt").is_symlink()


@pytest.mark.parametrize("target", ["outside.txt", "missing.txt"])
async def test_a_link_that_leads_outside_is_not_written_through(bench: Bench, target: str) -> None:
    outside = bench.root / "outside.txt"
    outside.write_text("safe")
    (bench.project / "link.txt").symlink_to(bench.root / target)
    settled = await bench.call("write", path="link.txt", content="new")
    assert settled.outcome == "failed"
    assert settled.output.startswith("link.txt leads outside")
    assert outside.read_text() == "safe"
    assert not (bench.root / "missing.txt").exists()


async def test_a_full_disk_is_told_and_changes_nothing(bench: Bench) -> None:
    file = bench.file("a.txt", "old")

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        settled = await bench.call("write", path="a.txt", content="x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert settled.outcome == "failed"
    assert settled.output == "a.txt cannot be used: File too large"
    assert file.read_text() == "old"
    assert [path.name for path in bench.project.iterdir()] == ["a.txt"]


async def test_a_read_only_file_is_not_replaced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = bench.file("a.txt", "old")
    file.chmod(0o444)
    if os.access(file, os.W_OK):  # the superuser may write everything
        monkeypatch.setattr("perdure.tools.files.os.access", lambda *a, **k: False)  # pyright: ignore
    settled = await bench.call("write", path="a.txt", content="new")
    assert settled.output == "a.txt is read-only; it was not changed"
    assert file.read_text() == "old"


async def test_a_stored_output_is_never_written(bench: Bench) -> None:
    bench.outputs.mkdir()
    settled = await bench.call("write", path=str(bench.outputs / "x.txt"), content="x")
    assert settled.outcome == "failed"
    assert "is a stored tool output; it can be read but not written" in settled.output
    assert list(bench.outputs.iterdir()) == []


async def test_a_directory_that_the_configuration_opens_can_be_written(
    bench: Bench, tmp_path: Path
) -> None:
    extra = tmp_path.resolve() / "extra"
    extra.mkdir()
    bench.allowed = (extra,)
    settled = await bench.call("write", path=f"{extra}/new/a.txt", content="x")
    assert settled.output == f"Created {extra}/new/a.txt: 1 bytes."
