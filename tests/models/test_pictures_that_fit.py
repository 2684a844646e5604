"""What a request can hold of pictures: past that they are named, so that no session is stuck."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from perdure.history.content import Image, MediaType
from perdure.history.items import AssistantItem, Item, UserItem
from perdure.models.anthropic import MessagesDialect
from perdure.models.encoding import as_array, as_object
from perdure.models.gemini import GeminiDialect
from perdure.models.openai_chat import ChatDialect
from perdure.models.openai_responses import ResponsesDialect
from perdure.models.pictures import Limits, Room, too_many
from perdure.models.types import Lowering
from perdure.testing.anthropic_rules import check_body
from perdure.testing.wire import ReceivedRequest, Rules
from tests.models.histories import PROTOCOLS
from tests.models.lowered import answer, body, call, frame, result, shape
from tests.pictures import png

ALL = pytest.mark.parametrize("protocol", sorted(PROTOCOLS))


def picture(
    width: int = 100, *, size: int = 9, kind: MediaType = "image/png", name: str = "p"
) -> Image:
    return Image(kind, bytes(size), width, 10, name)


def seeing(protocol: str) -> Lowering:
    return PROTOCOLS[protocol].lowering(frame(), replace(shape(protocol), images=True))


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every request hold few bytes of pictures, since the true limits are slow to reach."""
    for dialect in (MessagesDialect, ChatDialect, ResponsesDialect, GeminiDialect):
        monkeypatch.setattr(dialect, "pictures", replace(dialect.pictures, size=10_000))


def history(pictures: list[Image]) -> list[Item]:
    """Return a conversation with one picture in each prompt."""
    items: list[Item] = []
    for at, image in enumerate(pictures):
        items.append(UserItem(2 * at + 1, f"p{at}", f"Look {at}", (image,)))
        items.append(replace(answer("Fine.", seq=2 * at + 2), step=at + 1))
    return items[:-1]


def texts(value: Any) -> list[str]:
    """Return every text in a body that says that something was left out."""
    if isinstance(value, str):
        return [value] if "left out, since" in value else []
    inner = [*as_object(value).values(), *as_array(value)]
    return [text for each in inner for text in texts(each)]


def room(**limits: Any) -> Room:
    return Room(replace(Limits(size=10_000, most=10), **limits))


def test_a_picture_fits_while_there_is_room_for_its_bytes() -> None:
    held = room(size=1_000)
    assert held.take(picture(size=600)) == ""
    assert "as many images as it can" in held.take(picture(size=300))
    assert held.take(picture(size=90)) == ""


def test_a_picture_fits_while_there_are_not_too_many() -> None:
    held = room(most=2)
    assert [bool(held.take(picture())) for _ in range(3)] == [False, False, True]


def test_among_many_pictures_there_is_no_large_one() -> None:
    small, large = picture(2_000), picture(2_001)
    held = room(many=2)
    assert [bool(held.take(each)) for each in (small, small, large, small)] == [0, 0, 1, 0]
    held = room(many=2)
    assert [bool(held.take(each)) for each in (large, small, small)] == [0, 0, 1]


def test_a_kind_that_is_not_taken_needs_no_room() -> None:
    held = room(most=1, kinds=("image/png",))
    assert "kind" in held.take(picture(kind="image/gif"))
    assert held.take(picture()) == ""


def test_what_a_fork_takes_is_not_taken() -> None:
    held = room(most=1)
    assert held.fork().take(picture()) == ""
    assert held.take(picture()) == ""


def test_only_what_a_request_cannot_hold_is_too_many() -> None:
    limits = Limits(size=10_000, most=2, kinds=("image/png",))
    assert not too_many([picture(), picture(kind="image/gif"), picture()], limits)
    assert too_many([picture()] * 3, limits)


@ALL
@pytest.mark.usefixtures("little_room")
def test_past_the_limit_pictures_are_named_and_the_prefix_is_kept(protocol: str) -> None:
    items = history([picture(size=3_000, name=f"{number}.png") for number in range(5)])
    built = seeing(protocol)
    steps = [items[: 2 * at + 1] for at in range(5)]
    requests = [built.request(each) for each in steps]
    assert [len(texts(body(each))) for each in requests] == [0, 0, 1, 2, 3]
    assert texts(body(requests[-1]))[-1].startswith("[4.png: PNG image")
    assert requests[-1].body == seeing(protocol).request(items).body
    for before in requests:
        last = seeing(protocol).request(items, previous=(before.blocks, before.digest))
        assert last.prefix is True


@ALL
@pytest.mark.usefixtures("little_room")
def test_a_result_names_the_pictures_that_do_not_fit(protocol: str) -> None:
    large, small = picture(name="large.png", size=7_000), picture(name="small.png", size=600)
    item = replace(result("c1", "done"), images=(large, small))
    items: list[Item] = [
        UserItem(1, "p", "Go"),
        AssistantItem(2, 1, (call("c1"),), 1, "here/m"),
        item,
    ]
    (left,) = texts(body(seeing(protocol).request(items)))
    assert left.startswith("done\n[small.png: PNG image")


def test_gemini_is_sent_no_gif() -> None:
    items: list[Item] = [UserItem(1, "p", "Look", (picture(kind="image/gif", name="a.gif"),))]
    (content,) = body(seeing("gemini").request(items))["contents"]
    assert "a.gif: GIF image" in content["parts"][1]["text"]
    assert "its kind is not taken here" in content["parts"][1]["text"]


def test_a_long_session_with_large_pictures_stays_valid_for_anthropic() -> None:
    large, small = png(2_001, 1), png(3, 2)
    pictures = [Image("image/png", small, 3, 2)] * 19 + [Image("image/png", large, 2_001, 1)] * 3
    request = seeing("anthropic").request(history([*pictures, pictures[0]]))
    sent = ReceivedRequest(0, "POST", "/v1/messages", {}, request.body, body(request))
    check_body(sent, Rules())
    assert len(texts(sent.json)) == 3
