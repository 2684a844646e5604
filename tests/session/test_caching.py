"""How the prompt cache served whole sessions, over HTTP, against a provider that caches well.

The scripted provider caches as a real one does; where a script names a usage, it lies.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import Runtime, Session, Tool, ToolContext
from perdure.history import events as ev
from perdure.history.content import Usage
from perdure.session.caching import CachedRequest, CacheReport
from perdure.testing import FakeClock, Reply, ScriptedProvider, calls, error, say
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.session.support import Bench, ask, bench, log_of, of_type, one_provider_each
from tests.session.test_epochs import flag

pytestmark = pytest.mark.anyio

INSTRUCTIONS = "Mind what was said before. " * 1000
"""More tokens than the smallest prefix that any provider caches."""

MISS = Usage(input=9000, output=5, cache_read=256, cache_write=8744)
SINCE = "since the last request with this prefix"
ASSUMED = "the provider names no time; 5 min are assumed"
HIT = Usage(input=9000, output=5, cache_read=8960)


async def begin(b: Bench, runtime: Runtime, **options: Any) -> Session:
    return await b.session(runtime, instructions=INSTRUCTIONS, **options)


async def resumed(b: Bench, runtime: Runtime) -> Session:
    """Return the session that an earlier runtime began, or begin it."""
    rows = await runtime.sessions()
    return await runtime.session(rows[0].id) if rows else await begin(b, runtime)


async def served(
    tmp_path: Path, script: list[Reply], protocol: ProtocolName = "openai-chat", **options: Any
) -> CacheReport:
    """Send one prompt for each reply and return how the cache served them."""
    async with bench(tmp_path, script, protocol) as b, b.runtime(**options) as runtime:
        session = await begin(b, runtime)
        for number in range(len(script)):
            await ask(session, f"prompt {number}")
        return await session.cache()


def standings(report: CacheReport) -> list[str]:
    return [each.standing for each in report.requests]


def assert_served(request: CachedRequest) -> None:
    """Check that the provider read from its cache what the chain predicted."""
    assert request.usage is not None
    assert 0 < request.predicted <= request.usage.cache_read
    assert not request.missed


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_each_request_of_an_epoch_is_served_as_the_chain_predicts(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    many = calls(*[("list", {"path": "."})] * 30)
    script = [say("one"), many, say("three"), say("four")]
    async with bench(tmp_path, script, protocol) as b, b.runtime() as runtime:
        session = await begin(b, runtime)
        for text in ("first", "second", "third"):
            await ask(session, text)
        report = await session.cache()
    first, *others = report.requests
    assert (first.standing, first.kept, first.predicted) == ("first", 0, 0)
    assert [each.step for each in report.requests] == [1, 2, 3, 4]
    for before, each in zip(report.requests, others, strict=False):
        assert (each.standing, each.kept, each.cause) == ("kept", before.blocks, "")
        assert_served(each)
    assert report.missed == ()
    assert report.usage.cache_read == sum(each.usage.cache_read for each in others if each.usage)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_request_that_should_have_been_served_and_was_not_is_flagged(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    lost = say("two", usage=Usage(input=9000, output=5, cache_read=128))
    report = await served(tmp_path, [say("one"), lost, say("three")], protocol)
    (missed,) = report.missed
    assert missed.step == 2
    assert missed.cause == "missed the cache: no reason given"
    assert missed.kept > 0
    assert missed.predicted > 5000


@pytest.mark.parametrize(("read", "missed"), [(9_200, False), (8_800, True)])
async def test_a_little_less_than_predicted_is_no_miss(
    tmp_path: Path, read: int, missed: bool
) -> None:
    first = say("one", usage=Usage(input=10_000, output=5))
    second = say("two", usage=Usage(input=10_100, output=5, cache_read=read))
    report = await served(tmp_path, [first, second])
    # 10,000 tokens are 9,984 in steps of 128.
    assert report.requests[1].predicted == 9_984
    assert report.requests[1].missed is missed


async def test_a_prefix_below_the_smallest_one_is_not_expected(tmp_path: Path) -> None:
    usages = [Usage(input=1023, output=1), Usage(input=1500, output=1), Usage(1600, 1, 1408)]
    report = await served(tmp_path, [say("ok", usage=usage) for usage in usages])
    assert [each.predicted for each in report.requests] == [0, 0, 1408]
    assert report.missed == ()


@pytest.mark.parametrize("usage", [Usage(input=9000, output=5), None])
async def test_a_server_that_reports_no_cached_tokens_is_never_blamed(
    tmp_path: Path, usage: Usage | None
) -> None:
    report = await served(tmp_path, [say("ok", usage=usage) for _ in range(3)])
    assert not report.reported
    assert report.missed == ()
    assert standings(report) == ["first", "kept", "kept"]


@pytest.mark.parametrize(
    ("model", "seconds", "words"),
    [
        ("claude-opus-5", 240, "missed the cache: no reason given"),
        ("claude-opus-5", 3600, f"likely expired: 1 h {SINCE}, the provider keeps one for 5 min"),
        ("model-1", 400, f"likely expired: 6.7 min {SINCE}, {ASSUMED}"),
    ],
)
async def test_a_prefix_that_nobody_used_for_long_has_expired(
    tmp_path: Path, model: str, seconds: float, words: str
) -> None:
    clock = FakeClock()
    script = [say("one"), say("two", usage=MISS), say("three", usage=HIT)]
    async with bench(tmp_path, script, "anthropic") as b, b.runtime(clock=clock) as runtime:
        session = await begin(b, runtime, model=f"scripted/{model}")
        await ask(session, "first")
        clock.advance(seconds)
        await ask(session, "second")
        await ask(session, "third")
        _, second, third = (await session.cache()).requests
    assert (second.standing, second.cause) == ("kept", words)
    assert (second.missed, second.expired) == (seconds < 300, seconds > 300)
    # The miss has written it anew.
    assert (third.missed, third.expired) == (False, False)


async def test_a_prefix_that_is_still_there_after_its_time_is_a_hit(tmp_path: Path) -> None:
    clock = FakeClock()
    script = [say("one"), say("two")]
    async with bench(tmp_path, script) as b, b.runtime(clock=clock) as runtime:
        session = await begin(b, runtime)
        await ask(session, "first")
        clock.advance(7200)
        await ask(session, "second")
        (_, second) = (await session.cache()).requests
    assert (second.expired, second.missed, second.cause) == (False, False, "")


async def test_a_failed_attempt_is_counted_and_its_wait_is_part_of_the_time(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    busy = error(503, headers={"retry-after": "15"})
    script = [say("one"), busy, say("two", usage=MISS)]
    async with bench(tmp_path, script) as b, b.runtime(clock=clock) as runtime:
        session = await begin(b, runtime)
        await ask(session, "first")
        clock.advance(290)
        await ask(session, "second")
        (_, second) = (await session.cache()).requests
    assert second.failed == 1
    assert second.expired


async def test_a_step_without_an_answer_is_shown_and_hides_no_miss_behind_it(
    tmp_path: Path,
) -> None:
    script = [say("one"), error(400), say("three", usage=MISS)]
    async with bench(tmp_path, script) as b, b.runtime() as runtime:
        session = await begin(b, runtime)
        for text in ("first", "second", "third"):
            await ask(session, text)
        _, second, third = (await session.cache()).requests
    assert (second.usage, second.failed, second.missed) == (None, 1, False)
    assert third.kept == second.blocks
    # What the failed request held was never counted, so only the one before it is expected.
    assert third.predicted == second.predicted
    assert third.missed


async def test_a_switch_there_and_back_names_the_model_and_nothing_is_flagged(
    tmp_path: Path,
) -> None:
    script = [say(str(number)) for number in range(4)]
    async with bench(tmp_path, script) as b, b.runtime() as runtime:
        b.prefix_may_break = "model switches"
        session = await begin(b, runtime)
        for model in ("model-1", "model-2", "model-1"):
            await session.switch_model(f"scripted/{model}")
            await ask(session, "go")
        await ask(session, "go on")
        report = await session.cache()
    assert standings(report) == ["first", "new", "new", "kept"]
    assert {each.cause for each in report.requests[1:3]} == {"new prefix: the model was switched"}
    assert report.missed == ()
    assert_served(report.requests[3])


async def test_a_move_begins_a_new_prefix(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b, b.runtime() as runtime:
        b.prefix_may_break = "a move"
        (b.project / "side").mkdir()
        session = await begin(b, runtime)
        await ask(session, "first")
        await session.move(b.project / "side")
        await ask(session, "second")
        (_, second) = (await session.cache()).requests
    assert second.cause == "new prefix: the session moved to another directory"
    assert second.kept == 0


async def test_another_set_of_tools_begins_a_new_prefix(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b:
        b.prefix_may_break = "other tools"
        async with b.runtime() as runtime:
            session = await begin(b, runtime)
            await ask(session, "first")
        async with b.runtime(tools=[noting()]) as runtime:
            again = await runtime.session(session.id)
            await ask(again, "second")
            (_, second) = (await again.cache()).requests
    assert second.cause == "new prefix: the set of tools changed"


class Nothing(msgspec.Struct):
    """No arguments."""


def noting() -> Tool[Nothing]:
    async def run(_arguments: Nothing, _context: ToolContext) -> str:
        return "noted"

    return Tool(name="note", description="Keep a note.", arguments=Nothing, run=run)


async def test_a_change_that_is_told_keeps_the_prefix(tmp_path: Path) -> None:
    value: list[Any] = ["up"]
    script = [say("one"), say("two")]
    async with bench(tmp_path, script) as b, b.runtime(sources=[flag(value)]) as runtime:
        session = await begin(b, runtime)
        await ask(session, "first")
        value[0] = "down"
        await ask(session, "second")
        (_, second) = (await session.cache()).requests
    assert second.standing == "kept"
    assert_served(second)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_summary_of_a_compaction_is_a_request_of_its_own(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    script = [say("one " * 900), say("two"), say("We spoke."), say("three")]
    async with bench(tmp_path, script, protocol) as b, b.runtime() as runtime:
        b.prefix_may_break = "a compaction"
        session = await begin(b, runtime)
        await ask(session, "first")
        await ask(session, "second")
        assert await session.compact()
        await ask(session, "third")
        report = await session.cache()
    assert [each.kind for each in report.requests] == ["step", "step", "summary", "step"]
    summary, after = report.requests[2:]
    assert (summary.step, summary.blocks, summary.kept) == (2, None, report.requests[1].blocks)
    assert summary.cause == "asked for a summary of the history"
    assert_served(summary)
    assert after.cause == "new prefix: a summary took the place of the older history"
    assert report.missed == ()


async def test_a_summary_that_is_not_served_is_flagged_too(tmp_path: Path) -> None:
    script = [say("one"), say("two"), say("We spoke.", usage=MISS)]
    async with bench(tmp_path, script) as b, b.runtime() as runtime:
        session = await begin(b, runtime)
        await ask(session, "first")
        await ask(session, "second")
        assert await session.compact()
        (missed,) = (await session.cache()).missed
    assert missed.kind == "summary"


async def test_a_summary_of_what_was_too_long_expects_nothing(tmp_path: Path) -> None:
    long = error(400, message="maximum context length exceeded", code="context_length_exceeded")
    script = [say("one"), long, say("summary"), say("two")]
    async with bench(tmp_path, script) as b, b.runtime() as runtime:
        b.prefix_may_break = "a compaction"
        session = await begin(b, runtime)
        await ask(session, "first")
        await ask(session, "second")
        report = await session.cache()
    assert standings(report) == ["first", "kept", "part", "new"]
    assert report.requests[2].predicted == 0
    assert report.missed == ()


async def test_breaks_in_an_epoch_that_cannot_end_have_their_causes(tmp_path: Path) -> None:
    value: list[Any] = ["up"]
    script = [say(str(number)) for number in range(5)]
    async with bench(tmp_path, script) as b, b.runtime(sources=[flag(value)]) as runtime:
        b.prefix_may_break = "switches and a summary in a blocked epoch"
        session = await begin(b, runtime)
        await ask(session, "first " * 900)
        value[0] = None
        await session.switch_model("scripted/model-2")
        await ask(session, "second")
        assert await session.compact()
        await ask(session, "third")
        await ask(session, "fourth")
        report = await session.cache()
    assert {each.epoch for each in report.requests} == {1}
    assert standings(report) == ["first", "changed", "kept", "changed", "kept"]
    assert [report.requests[at].cause for at in (1, 3)] == [
        "new prefix: the model was switched from scripted/model-1 to scripted/model-2",
        "new prefix: a summary took the place of the older history",
    ]
    assert report.missed == ()


async def test_a_parameter_that_keys_the_cache_is_named(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b:
        b.prefix_may_break = "another parameter"
        for effort in ("low", "high"):
            settings = {"parameters": {"reasoning_effort": effort}}
            b.config["providers"]["scripted"]["models"]["model-1"] = settings
            async with b.runtime() as runtime:
                session = await resumed(b, runtime)
                await ask(session, effort)
                report = await session.cache()
    assert report.requests[1].cause == "new prefix: the configuration changed reasoning_effort"


async def test_a_message_that_was_wrapped_later_keeps_what_had_been_answered(
    tmp_path: Path,
) -> None:
    value: list[Any] = ["up"]
    script = [say("one"), error(400), say("three")]
    async with bench(tmp_path, script, "anthropic") as b:
        b.prefix_may_break = "a native message of a failed step is wrapped"
        models = b.config["providers"]["scripted"]["models"]
        models["claude-opus-5"] = {"system_messages": "native"}
        async with b.runtime(sources=[flag(value)]) as runtime:
            session = await begin(b, runtime, model="scripted/claude-opus-5")
            await ask(session, "first")
            value[0] = "down"
            await ask(session, "second")
            await ask(session, "third")
            first, _, third = (await session.cache()).requests
    assert third.standing == "part"
    assert third.cause.endswith("was wrapped because a prompt followed it")
    assert third.kept == first.blocks
    assert_served(third)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_first_request_of_a_fork_is_served_from_the_prefix_it_was_copied_with(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    script = [say("one"), say("two"), say("three"), say("four")]
    async with bench(tmp_path, script, protocol) as b, b.runtime() as runtime:
        b.prefix_may_break = "a fork"
        session = await begin(b, runtime)
        await ask(session, "first")
        await ask(session, "second")
        copy = await session.fork()
        await ask(copy, "third")
        await ask(copy, "fourth")
        report, whole = await copy.cache(), await session.cache()
    assert report.origin == session.id
    third, fourth = report.requests
    assert third.cause == f"goes on from the requests of session {session.id}"
    assert third.kept == whole.requests[1].blocks
    assert third.predicted >= (whole.requests[1].usage or MISS).input - 128
    assert_served(third)
    assert_served(fourth)
    assert len(whole.requests) == 2


async def test_all_requests_of_a_session_and_of_its_forks_have_one_cache_key(
    tmp_path: Path,
) -> None:
    script = [say(str(number)) for number in range(4)]
    async with bench(tmp_path, script, "openai-responses") as b, b.runtime() as runtime:
        b.prefix_may_break = "a switch and forks"
        session = await b.session(runtime)
        await ask(session, "one")
        copy = await session.fork()
        again = await copy.fork()
        await ask(again, "two")
        await session.switch_model("scripted/model-2")
        await ask(session, "three")
        await ask(copy, "four")
        keys = {request.json["prompt_cache_key"] for request in b.provider.requests}
    assert keys == {session.id}


async def test_a_request_behind_a_revert_goes_on_from_the_one_it_goes_back_to(
    tmp_path: Path,
) -> None:
    script = [say("one"), say("two"), say("three")]
    async with bench(tmp_path, script, "anthropic") as b, b.runtime() as runtime:
        b.prefix_may_break = "a revert"
        session = await begin(b, runtime)
        await ask(session, "first")
        answered = (await log_of(session))[-1].seq
        await ask(session, "second " * 2000)
        await session.revert(answered - 1)
        await ask(session, "third")
        report = await session.cache()
    first, second, third = report.requests
    assert (third.standing, third.kept) == ("kept", first.blocks)
    assert third.predicted < (second.usage or MISS).input
    assert_served(third)


async def test_a_revert_into_an_older_epoch_expects_that_ones_prefix(tmp_path: Path) -> None:
    script = [say("one"), say("two"), say("three")]
    async with bench(tmp_path, script) as b, b.runtime() as runtime:
        b.prefix_may_break = "a switch and a revert"
        session = await begin(b, runtime)
        await ask(session, "first")
        answered = (await log_of(session))[-1].seq
        await session.switch_model("scripted/model-2")
        await ask(session, "second")
        await session.switch_model("scripted/model-1")
        await session.revert(answered - 1)
        await ask(session, "third")
        report = await session.cache()
    assert standings(report) == ["first", "new", "kept"]
    assert_served(report.requests[2])


async def test_a_session_through_all_protocols_is_judged_by_provider(tmp_path: Path) -> None:
    silent = Usage(input=9000, output=1)

    def reply(request: Any, _: int) -> Reply:
        return say("ok", usage=silent) if "completions" in request.target else say("ok")

    async with ScriptedProvider(reply) as provider:
        b = Bench(tmp_path, provider, "openai-chat")
        b.config = one_provider_each(provider)
        async with b.runtime() as runtime:
            session = await begin(b, runtime, model="openai-chat/model-1")
            for protocol in PROTOCOLS:
                await session.switch_model(f"{protocol}/model-1")
                await ask(session, "one")
                await ask(session, "two")
            report = await session.cache()
    reported = {each.model: each.reported for each in report.requests}
    assert reported == {f"{name}/model-1": name != "openai-chat" for name in PROTOCOLS}
    assert standings(report) == ["first", "kept", *["new", "kept"] * 3]
    assert report.missed == ()


async def test_the_providers_own_reason_stands_beside_a_missed_cache(tmp_path: Path) -> None:
    log: list[ev.Record] = []
    for first, script in ((1, [say("one"), say("two")]), (3, [say("three"), say("four")])):
        # Another provider process knows nothing of what was sent before.
        async with bench(tmp_path, script, "anthropic") as b:
            b.config["providers"]["scripted"]["cache_diagnostics"] = True
            async with b.runtime() as runtime:
                session = await resumed(b, runtime)
                await ask(session, "go")
                await ask(session, "go on")
                report, log = await session.cache(), await log_of(session)
                for number, request in enumerate(b.provider.requests, first):
                    assert await session.request(number) == request.body
    (missed,) = report.missed
    assert missed.step == 3
    assert missed.reason == "previous_message_not_found"
    assert missed.cause == "missed the cache: previous_message_not_found"
    answers = of_type(log, ev.AssistantMessage)
    assert len(answers) == 4
    assert all(answer.response.startswith("msg_") for answer in answers)


async def test_what_the_cache_saved_is_counted_at_the_configured_price(tmp_path: Path) -> None:
    price = {"input": 10.0, "output": 0.0, "cache_read": 1.0, "cache_write": 12.5}
    first = say("one", usage=Usage(input=100_000, output=1, cache_write=100_000))
    second = say("two", usage=Usage(input=100_000, output=1, cache_read=100_000))
    async with bench(tmp_path, [first, second, first, second], "anthropic") as b:
        b.config["providers"]["scripted"]["models"]["model-1"] = {"price": price}
        async with b.runtime() as runtime:
            session = await begin(b, runtime)
            await ask(session, "one")
            await ask(session, "two")
            report, spending = await session.cache(), await session.spending()
    assert [each.saved for each in report.requests] == pytest.approx([-0.25, 0.9])
    assert report.saved == pytest.approx(spending.saved)
    assert report.unpriced == ()


async def test_a_price_that_nobody_knows_is_not_made_up(tmp_path: Path) -> None:
    report = await served(tmp_path, [say("one"), say("two")])
    assert report.requests[1].saved is None
    assert report.unpriced == ("scripted/model-1",)
    assert report.saved == 0


async def test_a_session_that_sent_nothing_has_an_empty_report(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        assert await session.cache() == CacheReport(session.id, ())
