"""One session goes through all protocols in turn, there and back, and every request is valid."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import Runtime, Session, Source
from perdure.history import events as ev
from perdure.testing import (
    ReceivedRequest,
    Reply,
    ScriptedProvider,
    assert_prefix_kept,
    calls,
    isolated_environment,
    say,
    think,
)
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.models.sdk_types import check_request
from tests.session.support import KEY, ask, by_epoch, log_of, of_type, one_provider_each

pytestmark = pytest.mark.anyio

MODELS: dict[ProtocolName, str] = {
    "openai-chat": "local-model",
    "openai-responses": "gpt-6.1-sol",
    "anthropic": "claude-opus-5",
    "gemini": "gemini-4-argon",
}
SUMMARY = "We looked into everything."
SETTINGS = {"context_window": 16_000, "max_output": 1_000}


def is_summary(request: ReceivedRequest) -> bool:
    return b"Write only the summary" in request.body


def script(request: ReceivedRequest, number: int) -> Reply:
    """Use tools where the newest prompt asks for it, and answer with reasoning in any case."""
    if is_summary(request):
        return say(SUMMARY)
    body = request.body
    if body.rfind(b"Look around.") > max(body.rfind(b"Seen."), body.rfind(b"nowhere")):
        look = say("I look. ") + calls(("list", {"path": "."}), ("read", {"path": "nowhere"}))
        return think("Two places. ") + look
    return think("That is all. ") + say("Seen. " + "Word " * 250)


def clock() -> Source[int]:
    """Return a source that says something new at every boundary."""
    ticks = iter(range(1_000))
    return Source(
        key="test/clock",
        type=int,
        load=lambda: next(ticks),
        baseline=lambda tick: f"The clock says {tick}.",
        update=lambda _, tick: f"The clock says {tick} now.",
    )


@asynccontextmanager
async def opened(root: Path) -> AsyncGenerator[tuple[Session, ScriptedProvider]]:
    async with ScriptedProvider(script) as provider:
        environ = isolated_environment(root) | {KEY: "scripted-key"}
        config = one_provider_each(provider, MODELS, **SETTINGS)
        runtime = Runtime.open(
            root / "sessions.db", config=config, environ=environ, sources=[clock()]
        )
        async with runtime as entered:
            yield await entered.create_session(directory=root, model=named(PROTOCOLS[0])), provider


def named(protocol: ProtocolName) -> str:
    return f"{protocol}/{MODELS[protocol]}"


def protocol_of(request: ReceivedRequest) -> ProtocolName:
    return next(protocol for protocol, model in MODELS.items() if model == request.model)


async def stay(session: Session, protocol: ProtocolName) -> None:
    """Let one protocol answer with tools, and then once more with words alone."""
    await session.switch_model(named(protocol))
    await ask(session, "Look around.")
    await ask(session, "And what else?")


async def test_a_session_is_driven_through_all_protocols_with_a_compaction_on_the_way(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (session, provider):
        for protocol in PROTOCOLS:
            await stay(session, protocol)
        assert await session.compact()
        for protocol in reversed(PROTOCOLS):
            await stay(session, protocol)
        log = await log_of(session)
    steps = of_type(log, ev.StepStarted)
    requests = [request for request in provider.requests if not is_summary(request)]
    assert provider.refused == provider.unexpected == []
    assert len(provider.requests) == len(requests) + 1
    assert [request.model for request in requests] == [
        MODELS[protocol] for protocol in (*PROTOCOLS, *reversed(PROTOCOLS)) for _ in range(3)
    ]
    for request in provider.requests:
        check_request(protocol_of(request), request.json)
    for number, kept in enumerate(by_epoch(steps, requests)):
        assert_prefix_kept(kept)
        # What is new is told within the epoch too: behind results, and behind a prompt.
        assert all(b" now." in request.body for request in kept[1:])
        assert all((SUMMARY in request.body.decode()) == (number >= 4) for request in kept)


async def test_gemini_gets_its_own_signatures_back_after_a_journey(tmp_path: Path) -> None:
    async with opened(tmp_path) as (session, provider):
        for protocol in ("gemini", "anthropic", "gemini"):
            await stay(session, protocol)
    assert provider.refused == []
    first, back = (provider.requests[at].json["contents"] for at in (1, 8))
    (own,) = (part["thoughtSignature"] for part in first[1]["parts"] if signed(part))
    calls_back = [part for content in back for part in content["parts"] if signed(part)]
    assert len(calls_back) == 3
    assert calls_back[0]["thoughtSignature"] == own
    assert calls_back[1]["thoughtSignature"] == "skip_thought_signature_validator"
    assert not [r for r in provider.requests[8].remarks if "no thought_signature" in r]


def signed(part: dict[str, Any]) -> bool:
    return "functionCall" in part and "thoughtSignature" in part
