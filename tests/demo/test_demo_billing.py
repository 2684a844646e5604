"""What the demo bills without Perdure: the same as with it, until a fact changes."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.demo.billing import Rebuilding, billed
from perdure.history.content import Usage
from perdure.testing import ReceivedRequest, blocks
from perdure.testing.cache import estimate

TOOLS = [{"name": "read", "description": "Read a file." * 20, "input_schema": {"type": "object"}}]


def request(*messages: tuple[str, str]) -> ReceivedRequest:
    body: dict[str, Any] = {
        "model": "model-1",
        "max_tokens": 100,
        "tools": TOOLS,
        "system": [{"type": "text", "text": "The Baseline."}],
        "messages": [{"role": role, "content": text} for role, text in messages],
    }
    return ReceivedRequest(0, "POST", "/v1/messages", {}, b"", body)


def tokens(sent: ReceivedRequest, *parts: str) -> int:
    return estimate(b"".join(b.canonical() for b in blocks(sent) if b.part in parts))


def test_a_read_counts_a_tenth_a_write_five_quarters_and_the_rest_is_fresh() -> None:
    usage = Usage(input=1000, output=77, cache_read=600, cache_write=300)
    assert billed(usage) == pytest.approx(600 * 0.1 + 300 * 1.25 + 100)


def test_the_first_request_is_written_whole() -> None:
    first = request(("user", "Hello."))
    whole = tokens(first, "tools", "system", "messages")
    assert Rebuilding().bill(first, "The Baseline.") == pytest.approx(whole * 1.25)


def test_while_nothing_changes_what_was_sent_is_read() -> None:
    bills = Rebuilding()
    first = request(("user", "Hello." * 100))
    bills.bill(first, "The Baseline.")
    more = request(("user", "Hello." * 100), ("assistant", "Hi."), ("user", "Go on."))
    old = tokens(first, "tools", "system", "messages")
    new = tokens(more, "tools", "system", "messages") - old
    assert bills.bill(more, "The Baseline.") == pytest.approx(old * 0.1 + new * 1.25)


def test_after_a_change_only_the_tools_are_read() -> None:
    bills = Rebuilding()
    first = request(("user", "Hello." * 100))
    bills.bill(first, "The Baseline.")
    tools = tokens(first, "tools")
    rest = tokens(first, "tools", "system", "messages") - tools
    # As long as the Baseline, so that only the place of the change counts.
    assert bills.bill(first, "The baseline!") == pytest.approx(tools * 0.1 + rest * 1.25)


def test_system_messages_are_not_billed_without() -> None:
    told = request(("user", "Hello."), ("system", "The date is another." * 50))
    plain = request(("user", "Hello."))
    assert Rebuilding().bill(told, "Facts.") == Rebuilding().bill(plain, "Facts.")
