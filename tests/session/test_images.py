"""Images in whole sessions: from a prompt and from `read`, in every protocol."""

from __future__ import annotations

from base64 import b64encode
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from perdure import ImageRefused, Runtime, Session
from perdure.history import events as ev
from perdure.history.items import images_in
from perdure.images import make_image
from perdure.testing import (
    ReceivedRequest,
    Reply,
    ScriptedProvider,
    assert_prefix_kept,
    calls,
    isolated_environment,
    say,
)
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.models.sdk_types import check_request
from tests.pictures import gif, jpeg, png, webp
from tests.session.support import (
    KEY,
    ask,
    bench,
    by_epoch,
    log_of,
    of_type,
    one_provider_each,
)

pytestmark = pytest.mark.anyio

SHOT, MAP = png(30, 20), jpeg(7, 9)


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def look(request: ReceivedRequest, number: int) -> Reply:
    """Read both images once, then answer."""
    if number > 0:
        return say("Seen.")
    return calls(("read", {"path": "map.jpg"}), ("read", {"path": "shot.png"}))


def seen(_request: ReceivedRequest, _number: int) -> Reply:
    return say("Seen.")


def picture_files(directory: Path) -> None:
    (directory / "shot.png").write_bytes(SHOT)
    (directory / "map.jpg").write_bytes(MAP)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_images_of_a_prompt_and_of_read_reach_the_model(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    async with bench(tmp_path, look, protocol, images=True) as b:
        picture_files(b.project)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "What is this?", images=["shot.png", make_image(webp(), "dot.webp")])
            await ask(session, "And now?")
    assert b.provider.refused == b.provider.unexpected == []
    first, after_reading, last = b.provider.requests
    for request in b.provider.requests:
        check_request(protocol, request.json)
    assert first.body.count(base64(SHOT).encode()) == first.body.count(base64(webp()).encode()) == 1
    assert first.body.count(base64(MAP).encode()) == 0
    assert last.body.count(base64(MAP).encode()) == 1
    assert after_reading.body.count(base64(SHOT).encode()) == 2


async def test_pictures_of_results_follow_all_results_where_those_hold_only_text(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, look, images=True) as b:
        picture_files(b.project)
        async with b.runtime() as runtime:
            await ask(await b.session(runtime), "Look.")
    *_, one, two, pictures = b.provider.requests[-1].json["messages"]
    assert (one["role"], two["role"], pictures["role"]) == ("tool", "tool", "user")
    kinds = [part["type"] for part in pictures["content"]]
    assert kinds == ["text", "image_url", "text", "image_url"]
    assert pictures["content"][0]["text"] == "The image that the call of read returned:"


async def test_a_model_without_images_gets_their_names_and_another_one_the_pictures_again(
    tmp_path: Path,
) -> None:
    async with ScriptedProvider(seen) as provider:
        config = one_provider_each(provider, images=True)
        config["providers"]["openai-chat"]["models"]["model-1"]["images"] = False
        environ = isolated_environment(tmp_path) | {KEY: "scripted-key"}
        runtime = Runtime.open(tmp_path / "s.db", config=config, environ=environ)
        async with runtime as entered:
            session = await entered.create_session(directory=tmp_path, model="anthropic/model-1")
            await ask(session, "Keep this.", images=[make_image(SHOT, "shot.png")])
            await session.switch_model("openai-chat/model-1")
            await ask(session, "What was it?")
            await session.switch_model("gemini/model-1")
            await ask(session, "And here?")
            log = await log_of(session)
    assert provider.refused == provider.unexpected == []
    there, without, back = (request.body.decode() for request in provider.requests)
    named = "[shot.png: PNG image, 30 x 20 pixels, 1 KiB: left out, since "
    assert base64(SHOT) in there
    assert base64(SHOT) not in without
    assert named in without
    assert base64(SHOT) in back
    for kept in by_epoch(of_type(log, ev.StepStarted), provider.requests):
        assert_prefix_kept(kept)


async def test_an_image_is_refused_before_it_is_admitted_where_the_model_takes_none(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [say("Hello.")]) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        assert await session.image_kinds() == ()
        with pytest.raises(ImageRefused, match=r"scripted/model-1 takes no images.*images = true"):
            await session.prompt("What is this?", images=[make_image(SHOT, "shot.png")])
        await ask(session, "Hello?")
        assert len(of_type(await log_of(session), ev.PromptAdmitted)) == 1


async def test_a_kind_that_the_provider_does_not_take_is_refused_before_it_is_admitted(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, [], "gemini", images=True) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            assert "image/gif" not in await session.image_kinds()
            with pytest.raises(
                ImageRefused, match=r"dot\.gif is image/gif, which scripted/model-1"
            ):
                await session.prompt("What is this?", images=[make_image(gif(), "dot.gif")])
            assert of_type(await log_of(session), ev.PromptAdmitted) == []


async def test_the_tool_read_says_that_the_model_takes_no_images(tmp_path: Path) -> None:
    async with bench(tmp_path, look) as b:
        picture_files(b.project)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Look.")
            settled = of_type(await log_of(session), ev.ToolSettled)
    assert [each.outcome for each in settled] == ["failed", "failed"]
    assert "this model takes no images" in settled[0].output


async def test_a_prompt_admitted_once_is_not_refused_when_it_comes_again(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("Seen.")], images=True) as b:
        image = make_image(SHOT, "shot.png")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            first = await session.prompt("Look.", images=[image], id="mail-1")
            await session.wait()
        b.take_images(False)
        async with b.runtime() as runtime:
            again = await (await runtime.session(session.id)).prompt(
                "Look.", images=[image], id="mail-1"
            )
    assert again == first


async def test_images_switched_off_in_mid_epoch_begin_a_new_one_where_the_history_holds_some(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, seen, images=True) as b:
        b.prefix_may_break = "the pictures go out in another way"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Look.", images=[make_image(SHOT, "shot.png")])
        b.take_images(False)
        async with b.runtime() as runtime:
            session = await runtime.session(session.id)
            await ask(session, "And?")
            log = await log_of(session)
            for step, sent in enumerate(b.provider.requests, 1):
                assert await session.request(step) == sent.body
    epochs = of_type(log, ev.EpochStarted)
    assert [each.reasons for each in epochs] == [("session started",), ("image input changed",)]


async def test_images_wait_in_the_inbox_and_go_with_a_fork_through_a_restart(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, seen, images=True) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.prompt("Look.", images=[make_image(SHOT, "shot.png")], wake=False)
        async with b.runtime() as runtime:
            session = await runtime.session(session.id)
            (waiting,) = await session.inbox()
            assert [image.data for image in waiting.images] == [SHOT]
            await ask(session, "Now.")
            fork = await session.fork()
            await ask(fork, "Again.")
            messages = await fork.messages()
    assert base64(SHOT) in b.provider.requests[-1].body.decode()
    assert b.provider.requests[-1].body.startswith(b.provider.requests[0].body[:-3])
    assert [image.name for item in messages for image in images_in(item)] == ["shot.png"]


async def test_a_file_that_providers_would_refuse_is_refused_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path, [], images=True) as b:
        (b.project / "cut.png").write_bytes(png()[:-6])
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            with pytest.raises(ImageRefused, match=r"cut\.png is a broken image"):
                await _prompt(session, "cut.png")
            assert await session.inbox() == []


async def _prompt(session: Session, *paths: str) -> None:
    await session.prompt("Look.", images=paths)


async def test_too_many_images_and_what_is_no_file_are_refused(tmp_path: Path) -> None:
    async with bench(tmp_path, [], images=True) as b:
        picture_files(b.project)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            with pytest.raises(ImageRefused, match="20 are the most"):
                await _prompt(session, *["shot.png"] * 21)
            with pytest.raises(ImageRefused, match="no regular file"):
                await _prompt(session, ".")
            with pytest.raises(ImageRefused, match="No such file"):
                await _prompt(session, "gone.png")


async def test_images_that_come_as_no_list_or_without_end_are_refused(tmp_path: Path) -> None:
    async with bench(tmp_path, [], images=True) as b:
        picture_files(b.project)
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            alone: Any
            for alone in ("shot.png", b.project / "shot.png", make_image(SHOT, "shot.png")):
                with pytest.raises(ImageRefused, match="must come as a list"):
                    await session.prompt("Look.", images=alone)
            with pytest.raises(ImageRefused, match="20 are the most"):
                await session.prompt("Look.", images=repeat("shot.png"))
            assert await session.inbox() == []
