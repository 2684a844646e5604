"""What a lowering keeps, and how it proves that a request begins with the last one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perdure.history.content import Text
from perdure.history.items import AssistantItem, Item, NoteItem, UserItem
from perdure.models.lowering import HEAD_CHANGED, HISTORY_CHANGED, WRAPPED_LATER
from perdure.models.types import Request
from tests.models.histories import PROTOCOLS
from tests.models.lowered import (
    READ,
    answer,
    call,
    frame,
    lowering,
    prompt,
    result,
    told,
    whole,
)

ALL = pytest.mark.parametrize("protocol", sorted(PROTOCOLS))


def mark(request: Request) -> tuple[int, str]:
    return request.blocks, request.digest


@ALL
def test_the_first_request_of_an_epoch_has_no_predecessor(protocol: str) -> None:
    first = lowering(protocol).request([prompt("Hi")])
    assert (first.prefix, first.cause) == (None, "")


@ALL
def test_a_longer_history_has_the_last_request_as_its_prefix(protocol: str) -> None:
    conversation = lowering(protocol)
    first = conversation.request([prompt("Hi")])
    items = [prompt("Hi"), answer("Hello"), prompt("Go")]
    second = conversation.request(items, previous=mark(first))
    assert (second.prefix, second.cause) == (True, "")
    assert second.blocks > first.blocks


@ALL
def test_the_same_request_again_is_its_own_prefix(protocol: str) -> None:
    conversation = lowering(protocol)
    first = conversation.request([prompt("Hi")])
    again = conversation.request([prompt("Hi")], previous=mark(first))
    assert again.body == first.body
    assert again.prefix is True


@ALL
def test_another_process_finds_the_same_prefix(protocol: str) -> None:
    first = lowering(protocol).request([prompt("Hi")])
    items = [prompt("Hi"), answer("Hello"), prompt("Go")]
    assert lowering(protocol).request(items, previous=mark(first)).prefix is True


@ALL
def test_changed_history_is_a_break_with_its_cause(protocol: str) -> None:
    first = lowering(protocol).request([prompt("Hi")])
    items = [prompt("Ho"), answer("Hello"), prompt("Go")]
    broken = lowering(protocol).request(items, previous=mark(first))
    assert (broken.prefix, broken.cause) == (False, HISTORY_CHANGED)


@ALL
def test_shorter_history_is_a_break(protocol: str) -> None:
    first = lowering(protocol).request([prompt("Hi"), prompt("Ho")])
    broken = lowering(protocol).request([prompt("Hi")], previous=mark(first))
    assert (broken.prefix, broken.cause) == (False, HISTORY_CHANGED)


@ALL
def test_a_block_that_moves_into_another_message_is_a_break(protocol: str) -> None:
    items = [prompt("Hi"), answer("a"), prompt("b")]
    first = lowering(protocol).request(items)
    moved = [prompt("Hi"), answer("a", "b")]
    assert lowering(protocol).request(moved, previous=mark(first)).prefix is False


def test_two_answers_in_a_row_are_not_the_same_as_one_with_both_blocks() -> None:
    two = lowering("anthropic").request([prompt("Hi"), answer("a"), answer("b"), prompt("Go")])
    one = lowering("anthropic").request([prompt("Hi"), answer("a", "b"), prompt("Go")])
    assert two.blocks == one.blocks
    assert two.digest != one.digest


@ALL
@pytest.mark.parametrize("parameters", [{"tool_choice": "none"}, {"thinking": {"type": "on"}}])
def test_a_parameter_that_keys_the_cache_belongs_to_the_head(
    protocol: str, parameters: dict[str, object]
) -> None:
    first = lowering(protocol).request([prompt("Hi")])
    broken = lowering(protocol, parameters=parameters).request([prompt("Hi")], previous=mark(first))
    assert (broken.prefix, broken.cause) == (False, HEAD_CHANGED)


@ALL
def test_a_parameter_that_keys_no_cache_breaks_nothing(protocol: str) -> None:
    first = lowering(protocol).request([prompt("Hi")])
    warmer = lowering(protocol, parameters={"temperature": 1})
    assert warmer.request([prompt("Hi")], previous=mark(first)).prefix is True


@ALL
def test_tools_and_baseline_belong_to_the_head(protocol: str) -> None:
    first = lowering(protocol).request([prompt("Hi")])
    for given in (frame(READ), frame(baseline="Facts.")):
        other = lowering(protocol, given=given).request([prompt("Hi")], previous=mark(first))
        assert other.cause == HEAD_CHANGED


@pytest.mark.parametrize(
    ("item", "noun"), [(UserItem(5, "q", "Go"), "a prompt"), (NoteItem(5, "Hurry."), "a note")]
)
def test_the_one_exception_is_named_with_its_cause(item: Item, noun: str) -> None:
    conversation = lowering("anthropic", "native")
    items: list[Item] = [prompt("Hi"), told("One")]
    failed = conversation.request(items)
    items += [item, told("Two")]
    request = conversation.request(items, previous=mark(failed))
    assert (request.prefix, request.cause) == (False, WRAPPED_LATER.format(noun))
    assert conversation.request(items, previous=mark(request)).prefix is True


def test_a_system_message_after_an_unanswered_one_is_no_exception() -> None:
    conversation = lowering("anthropic", "native")
    failed = conversation.request([prompt("Hi"), told("One")])
    request = conversation.request([prompt("Hi"), told("One"), told("Two")], previous=mark(failed))
    assert request.prefix is True


def test_the_exception_does_not_hide_another_change() -> None:
    conversation = lowering("anthropic", "native")
    failed = conversation.request([prompt("Hi"), told("One")])
    items = [prompt("Ho"), told("One"), prompt("Go")]
    assert conversation.request(items, previous=mark(failed)).cause == HISTORY_CHANGED


@ALL
def test_extra_items_are_sent_but_not_kept(protocol: str) -> None:
    conversation = lowering(protocol)
    items = [prompt("Hi"), answer("Hello")]
    plain = conversation.request(items)
    extra = conversation.request(items, [NoteItem(9, "Summarize.")], previous=mark(plain))
    assert extra.prefix is True
    assert b'"Summarize."' in extra.body[len(plain.body) - len(b"]}") :]
    assert whole(conversation.request(items)) == whole(plain)


@ALL
def test_calls_in_extra_items_take_no_id_away(protocol: str) -> None:
    conversation = lowering(protocol)
    items = [prompt("Hi"), answer(call("t1")), result("t1")]
    extra = [answer(call("t1"), step=9), result("t1")]
    first = conversation.request(items, extra)
    assert b'"t1_9_0"' in first.body
    assert whole(conversation.request(items, extra)) == whole(first)


@ALL
def test_a_history_that_is_no_continuation_is_lowered_from_its_beginning(protocol: str) -> None:
    conversation = lowering(protocol)
    conversation.request([prompt("Hi"), answer("Hello"), prompt("Go")])
    other = [prompt("Ho"), answer("Well"), prompt("Go")]
    assert whole(conversation.request(other)) == whole(lowering(protocol).request(other))


@ALL
def test_forms_are_those_of_messages_that_no_answer_has_bound(protocol: str) -> None:
    items = [prompt("Hi"), told("One", "wrapped"), answer("Hello"), prompt("Go"), told("Two")]
    assert lowering(protocol).request(items).forms == ("wrapped",)


def test_settled_messages_stay_listed_until_they_are_bound() -> None:
    conversation = lowering("anthropic", "native")
    items: list[Item] = [prompt("Hi"), told("One"), answer("Hello"), prompt("Go")]
    assert conversation.request(items).forms == ("native",)
    items[1] = told("One", "native")
    assert conversation.request(items).forms == ()


class Counted(Sequence[Item]):
    """A history that counts how many of its items are read."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.read = 0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: int | slice) -> Item | list[Item]:  # type: ignore[override] - one method for both kinds of index
        found = self.items[at]
        self.read += len(found) if isinstance(found, list) else 1
        return found


@ALL
def test_only_new_items_are_read_again(protocol: str) -> None:
    conversation = lowering(protocol)
    items: list[Item] = [prompt("Hi")]
    for turn in range(200):
        items += [AssistantItem(turn, turn, (Text("Hello"),), 1, "here/m"), prompt("Go")]
    conversation.request(items)
    longer = Counted([*items, answer(call("t1")), result("t1")])
    conversation.request(longer)
    assert longer.read < 12
