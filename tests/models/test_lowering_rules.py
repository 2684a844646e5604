"""The rules that hold for every history, checked on generated ones by the strict provider."""

from __future__ import annotations

from base64 import b64encode
from itertools import pairwise

import msgspec
from hypothesis import HealthCheck, event, given, settings

from perdure.history.items import SystemItem, UserItem, images_in
from perdure.testing import (
    anthropic_rules,
    gemini_rules,
    keeps_prefix,
    openai_chat_rules,
    openai_responses_rules,
)
from perdure.testing.wire import Rules
from tests.models.histories import Player, Sent, Story, as_received, stories
from tests.models.lowered import whole

WRAPPED = "a system message left unanswered by a failed step was wrapped because "

many = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


def requests(story: Story) -> list[Sent]:
    return list(Player(story).play())


@many
@given(stories())
def test_every_request_begins_with_the_last_one_but_for_the_named_exception(story: Story) -> None:
    sent = requests(story)
    for last, now in pairwise(sent):
        if now.request.prefix:
            assert now.request.cause == ""
            assert keeps_prefix(as_received(last.request.body), as_received(now.request.body))
            continue
        event("the named exception")
        assert story.protocol == "anthropic"
        assert story.form == "native"
        assert isinstance(last.items[-1], SystemItem)
        assert now.request.cause.startswith(WRAPPED)
        assert not keeps_prefix(as_received(last.request.body), as_received(now.request.body))


@many
@given(stories())
def test_lowering_what_is_new_gives_the_bytes_of_lowering_everything(story: Story) -> None:
    for step in requests(story):
        assert whole(step.request) == whole(step.afresh)


@many
@given(stories())
def test_the_strict_provider_accepts_every_request(story: Story) -> None:
    for step in requests(story):
        received = as_received(step.request.body)
        if story.protocol == "anthropic":
            remarks = anthropic_rules.check_body(received, Rules())
            assert not [remark for remark in remarks if "one role" in remark]
        elif story.protocol == "gemini":
            assert gemini_rules.check_body(received, Rules()) == []
        elif story.protocol == "openai-responses":
            openai_responses_rules.check_body(received, Rules(template=_template(story)))
        else:
            openai_chat_rules.check_body(received, Rules(template=_template(story)))


def _template(story: Story) -> str | None:
    return "late-system-refused" if story.form == "wrapped" else None


@many
@given(stories())
def test_nothing_that_a_user_wrote_is_lost(story: Story) -> None:
    for step in requests(story):
        body = step.request.body
        for item in step.items:
            if isinstance(item, UserItem | SystemItem):
                assert msgspec.json.encode(item.text)[1:-1] in body
            for image in images_in(item):
                assert b64encode(image.data) in body or image.described.encode() in body
