"""One session goes from protocol to protocol and back, with tools and reasoning."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import Runtime, Session
from perdure.history import events as ev
from perdure.testing import (
    ReceivedRequest,
    Reply,
    ScriptedProvider,
    assert_prefix_kept,
    call,
    calls,
    isolated_environment,
    say,
    think,
)
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.models.sdk_types import check_request
from tests.session.support import KEY, ask, by_epoch, log_of, of_type, one_provider_each

pytestmark = pytest.mark.anyio

TURN = [
    think("Two places. ")
    + say("I look.")
    + calls(("list", {"path": "."}), ("list", {"path": "nowhere"})),
    think(redacted=True) + call("list", {"path": "."}),
    think("Nothing there.") + say("It is empty."),
]
"""The replies to one prompt: with reasoning shown and sealed, several calls, and one that fails."""


@asynccontextmanager
async def opened(root: Path) -> AsyncGenerator[tuple[Runtime, ScriptedProvider]]:
    def script(request: ReceivedRequest, number: int) -> Reply:
        return TURN[number % len(TURN)]

    async with ScriptedProvider(script) as provider:
        environ = isolated_environment(root) | {KEY: "scripted-key"}
        config = one_provider_each(provider)
        runtime = Runtime.open(root / "sessions.db", config=config, environ=environ)
        async with runtime as entered:
            yield entered, provider


async def go_through(session: Session, protocols: list[ProtocolName]) -> None:
    for protocol in protocols:
        await session.switch_model(f"{protocol}/model-1")
        await session.set_entry("mode", protocol)
        await ask(session, f"Look again, over {protocol}.")


async def prove(root: Path, protocols: list[ProtocolName]) -> None:
    """Go through protocols; every request must be valid, and keep its prefix within an epoch."""
    (root / "project").mkdir()
    async with opened(root) as (runtime, provider):
        session = await runtime.create_session(
            directory=root / "project", model=f"{protocols[0]}/model-1"
        )
        await go_through(session, protocols)
        steps = of_type(await log_of(session), ev.StepStarted)
    assert not provider.refused
    assert len(provider.requests) == len(steps) == len(TURN) * len(protocols)
    for number, request in enumerate(provider.requests):
        check_request(protocols[number // len(TURN)], request.json)
    for epoch in by_epoch(steps, provider.requests):
        assert_prefix_kept(epoch)


async def test_a_session_goes_through_every_protocol_there_and_back(tmp_path: Path) -> None:
    await prove(tmp_path, [*PROTOCOLS, *reversed(PROTOCOLS)])


async def test_what_was_said_elsewhere_goes_along_and_what_was_sealed_there_does_not(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (runtime, provider):
        session = await runtime.create_session(directory=tmp_path, model="openai-responses/model-1")
        await go_through(session, ["openai-responses", "anthropic", "openai-responses"])
    here, there, back = (provider.requests[at].body for at in (2, 3, 6))
    for text in (b"Two places.", b"I look.", b"It is empty."):
        assert text in there
        assert text in back
    assert b"encrypted_content" in here.partition(b'"input"')[2]
    for body in (there, back.partition(b'"input"')[2]):
        assert b"encrypted_content" not in body
        assert b'"rs_' not in body
        assert b'"signature"' not in body


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PROTOCOLS), min_size=2, max_size=5))
def test_any_way_through_the_protocols_is_valid_for_each(protocols: list[ProtocolName]) -> None:
    with tempfile.TemporaryDirectory() as root:
        anyio.run(prove, Path(root), protocols)
