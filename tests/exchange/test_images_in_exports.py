"""Images in exports: they come back byte for byte, and what is none is refused with its line."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import Runtime, Session
from perdure.history.items import images_in
from perdure.images import MOST
from perdure.testing import call, calls, say
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.exchange.exchange_support import edited, event_line_of, lines_of, other_machine
from tests.exchange.test_refused_files import refusal
from tests.exchange.test_round_trip import bodies
from tests.pictures import gif, png
from tests.session.support import Bench, ask, bench

pytestmark = pytest.mark.anyio

SCRIPT = (calls(call("read", {"path": "shot.png"}, "read-1")), say("Both are black."))


@asynccontextmanager
async def seen(
    root: Path, protocol: ProtocolName = "anthropic"
) -> AsyncGenerator[tuple[Bench, Runtime, Session]]:
    """Give a session with an image in a prompt and another one in a result."""
    root.mkdir(exist_ok=True)
    async with bench(root, [*SCRIPT, say("Still black.")], protocol, images=True) as b:
        (b.project / "given.png").write_bytes(png())
        (b.project / "shot.png").write_bytes(png(5, 4))
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Compare them.", images=["given.png"])
            yield b, runtime, session


async def pictures(session: Session) -> list[bytes]:
    return [image.data for item in await session.messages() for image in images_in(item)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_imported_session_has_the_same_images_and_requests(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    async with seen(tmp_path, protocol) as (b, _, session):
        file = await session.export(tmp_path / "session.jsonl")
        sent = [each.body for each in b.provider.requests]
        assert await bodies(session) == sent
        async with other_machine(b, tmp_path / "there").runtime() as there:
            copy = await there.import_session(file)
            assert await bodies(copy) == sent
            assert await pictures(copy) == [png(), png(5, 4)]
            again = await copy.export(tmp_path / "again.jsonl")
            assert again.read_bytes() == file.read_bytes()


async def test_a_fork_has_the_same_images_and_goes_on_from_the_same_bytes(tmp_path: Path) -> None:
    async with seen(tmp_path) as (_, __, session):
        fork = await session.fork()
        assert await bodies(fork) == await bodies(session)
        await ask(fork, "And now?")
        assert await pictures(fork) == [png(), png(5, 4)]


async def test_a_revert_takes_an_image_back_with_its_prompt(tmp_path: Path) -> None:
    async with seen(tmp_path) as (b, _, session):
        b.prefix_may_break = "a revert"
        before = (await session.state()).last_seq
        await ask(session, "This one too.", images=["shot.png"])
        await session.revert(before)
        assert await pictures(session) == [png(), png(5, 4)]


def picture(data: bytes, **change: Any) -> dict[str, Any]:
    text = b64encode(data).decode()
    return {"media_type": "image/png", "data": text, "width": 3, "height": 2, "name": "x"} | change


BROKEN: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no base64": ([picture(b"") | {"data": "%"}], "a damaged {kind} event"),
    "no image": ([picture(b"text that is long enough")], "is no image that a model takes"),
    "half an image": ([picture(png()[:-6])], "x is a broken image"),
    "other pixels than it says": ([picture(png(4, 4))], "another one than it says: x: PNG"),
    "another kind than it says": ([picture(gif())], "another one than it says: x: GIF"),
    "a kind that there is not": (
        [picture(png(), media_type="image/bmp")],
        "a damaged {kind} event",
    ),
    "far too many": ([picture(png())] * (MOST + 1), f"{MOST} are the most"),
}


@pytest.fixture(scope="module")
async def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    root = tmp_path_factory.mktemp("seen")
    async with seen(root) as (_, __, session):
        return (await session.export(root / "session.jsonl")).read_bytes()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("kind", ["prompt.admitted", "tool.settled"])
async def test_a_file_with_an_image_that_is_none_is_refused_with_its_line(
    root: Path, exported: bytes, name: str, kind: str
) -> None:
    images, words = BROKEN[name]

    def edit(lines: list[dict[str, Any]]) -> None:
        lines[event_line_of(lines, kind)]["data"]["images"] = images

    line = await refusal(root, edited(exported, edit))
    assert line.startswith(f", line {event_line_of(lines_of(exported), kind) + 1}: ")
    assert words.format(kind=kind) in line


async def test_a_failed_call_with_an_image_is_refused(root: Path, exported: bytes) -> None:
    def edit(lines: list[dict[str, Any]]) -> None:
        lines[event_line_of(lines, "tool.settled")]["data"]["outcome"] = "failed"

    assert "did not complete has images" in await refusal(root, edited(exported, edit))
