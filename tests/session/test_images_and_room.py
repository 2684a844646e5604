"""Images in long sessions: a request holds only so many, and what is old makes room for the new."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from perdure.history import events as ev
from perdure.images import make_image
from perdure.models.pictures import LIMITS
from perdure.testing import ReceivedRequest, Reply, say
from tests.pictures import png
from tests.session.support import ask, bench, log_of, of_type
from tests.session.test_epochs import flag

pytestmark = pytest.mark.anyio

PAGE = make_image(png(1200, 1200), "page.png")
DOT = make_image(png(), "dot.png")


def seen(_: ReceivedRequest, number: int) -> Reply:
    return say(f"Seen {number}.")


@pytest.fixture
def room_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a request hold two pictures, since the true limit is slow to reach."""
    two = replace(LIMITS["openai-chat"], most=2)
    monkeypatch.setattr("perdure.session.compaction.LIMITS", {"openai-chat": two})


@pytest.mark.usefixtures("room_for_two")
async def test_old_images_make_room_for_new_ones_in_a_compaction(tmp_path: Path) -> None:
    async with bench(tmp_path, seen, images=True) as b, b.runtime() as runtime:
        b.prefix_may_break = "a compaction"
        session = await b.session(runtime)
        for number in range(2):
            await ask(session, f"Look {number}.", images=[PAGE])
        assert of_type(await log_of(session), ev.CompactionStarted) == []
        await ask(session, "And this one.", images=[PAGE])
        reasons = [each.reason for each in of_type(await log_of(session), ev.CompactionStarted)]
        assert reasons == ["automatic"]
    last = b.provider.requests[-1].body
    assert last.count(b'"image_url":{') <= 2
    assert last.endswith(b"}]}]}")
    assert b"And this one." in last


@pytest.mark.usefixtures("room_for_two")
async def test_images_that_nothing_makes_room_for_start_no_compaction(tmp_path: Path) -> None:
    async with bench(tmp_path, seen, images=True) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        for number in range(4):
            await ask(session, f"Look {number}.", images=[DOT])
        assert of_type(await log_of(session), ev.CompactionStarted) == []
    assert len(b.provider.requests) == 4


async def test_a_session_with_more_large_images_than_anthropic_takes_goes_on(
    tmp_path: Path,
) -> None:
    wide = make_image(png(2_001, 1), "wide.png")
    async with bench(tmp_path, seen, "anthropic", images=True) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "Look.", images=[wide] * 20)
        await ask(session, "And this?", images=[wide])
        await ask(session, "Still there?")
    assert b.provider.refused == []
    last = b.provider.requests[-1].body.decode()
    assert last.count('"type":"image"') == 20
    assert "[wide.png: PNG image, 2001 x 1 pixels, 1 KiB: left out, since" in last


async def test_a_switch_of_image_input_goes_on_in_an_epoch_that_cannot_end(tmp_path: Path) -> None:
    value: list[object] = ["up"]
    async with bench(tmp_path, seen, images=True) as b:
        b.prefix_may_break = "the pictures go out in another way"
        async with b.runtime(sources=[flag(value)]) as runtime:
            session = await b.session(runtime)
            await ask(session, "Look.", images=[DOT])
        value[0] = None
        b.take_images(False)
        async with b.runtime(sources=[flag(value)]) as runtime:
            session = await runtime.session(session.id)
            assert of_type(await ask(session, "And now?"), ev.EpochStarted) == []
            causes = [each.cause for each in (await session.cache()).requests]
            assert causes[-1] == "new prefix: whether the model takes images was changed"
            for step, sent in enumerate(b.provider.requests, 1):
                assert await session.request(step) == sent.body
    assert b.provider.requests[-1].body.count(b"this model takes no images") == 1
