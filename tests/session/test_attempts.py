"""Attempts: what is tried again, what is not, and what the next request holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.history import events as ev
from perdure.testing import FakeClock, cut, empty, error, malformed, say
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.session.support import ask, bench, of_type

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_failure_before_any_output_is_tried_again_with_the_same_bytes(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    async with bench(tmp_path, [error(529), error(500), say("At last.")], protocol) as b:
        async with b.runtime(clock=FakeClock()) as runtime:
            records = await ask(await b.session(runtime), "Hello")
        bodies = [request.body for request in b.provider.requests]
        assert len(bodies) == 3
        assert bodies[0] == bodies[1] == bodies[2]
        assert [event.attempt for event in of_type(records, ev.AttemptFailed)] == [1, 2]
        (answer,) = of_type(records, ev.AssistantMessage)
        assert answer.attempt == 3


@pytest.mark.parametrize(
    ("status", "name"),
    [(401, "AuthenticationFailed"), (404, "ModelNotFound"), (400, "InvalidRequest")],
)
async def test_a_refusal_is_not_tried_again(tmp_path: Path, status: int, name: str) -> None:
    async with bench(tmp_path, [error(status)]) as b:
        async with b.runtime() as runtime:
            records = await ask(await b.session(runtime), "Hello")
        assert len(b.provider.requests) == 1
        (finished,) = of_type(records, ev.StepFinished)
        assert finished.outcome == "failed"
        assert finished.failure.error == name
        assert finished.failure.status == status


async def test_after_five_attempts_the_step_fails(tmp_path: Path) -> None:
    async with bench(tmp_path, [error(503)] * 6) as b:
        async with b.runtime(clock=FakeClock()) as runtime:
            records = await ask(await b.session(runtime), "Hello")
        assert len(b.provider.requests) == 5
        waits = [event.wait for event in of_type(records, ev.AttemptFailed)]
        assert waits[-1] is None
        assert None not in waits[:-1]


async def test_the_wait_that_a_provider_asks_for_is_kept(tmp_path: Path) -> None:
    clock = FakeClock()
    script = [error(429, headers={"retry-after": "7"}), say("Now.")]
    async with bench(tmp_path, script) as b, b.runtime(clock=clock) as runtime:
        records = await ask(await b.session(runtime), "Hello")
    assert [event.wait for event in of_type(records, ev.AttemptFailed)] == [7.0]
    assert 7.0 in clock.slept


async def test_a_wait_beyond_the_limit_is_not_begun(tmp_path: Path) -> None:
    script = [error(429, headers={"retry-after": "600"})]
    async with bench(tmp_path, script) as b, b.runtime(clock=FakeClock()) as runtime:
        records = await ask(await b.session(runtime), "Hello")
    (failed,) = of_type(records, ev.AttemptFailed)
    assert failed.wait is None


@pytest.mark.parametrize(
    "broken", [cut(say("Half an answer"), after=2), malformed(say("x")), empty()]
)
async def test_a_prompt_of_a_failed_step_is_in_the_next_request(
    tmp_path: Path, broken: object
) -> None:
    async with bench(tmp_path, [*[broken] * 5, say("Whole.")]) as b:
        async with b.runtime(clock=FakeClock()) as runtime:
            session = await b.session(runtime)
            records = await ask(session, "First question")
            assert of_type(records, ev.StepFinished)[0].outcome == "failed"
            await ask(session, "Second question")
        assert b"First question" in b.provider.requests[-1].body
        assert b"Second question" in b.provider.requests[-1].body


async def test_a_partial_answer_is_kept_but_never_shown_to_the_model(tmp_path: Path) -> None:
    script = [cut(say("Half an answer that breaks off"), after=3), say("Whole."), say("Yes.")]
    async with bench(tmp_path, script) as b:
        async with b.runtime(clock=FakeClock()) as runtime:
            session = await b.session(runtime)
            records = await ask(session, "Hello")
            await ask(session, "And?")
        (failed,) = of_type(records, ev.AttemptFailed)
        assert failed.partial
        assert b"Half" not in b.provider.requests[-1].body
