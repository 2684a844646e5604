"""What a session has spent, and what it would cost to break its prefix."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perdure import Session
from perdure.clock import milliseconds
from perdure.config.schema import Config, ModelConfig, Price, ProviderConfig
from perdure.history import events as ev
from perdure.history.content import Text, Usage
from perdure.models.resolve import Models
from perdure.session.spending import PrefixPrice, Spending, Spent, spending_of
from perdure.testing import cut, error, say
from tests.session.support import Bench, ask, bench

pytestmark = pytest.mark.anyio

PRICE = {"input": 4.0, "output": 20.0, "cache_read": 0.2, "cache_write": 5.0}
CHEAP = {"input": 1.0, "output": 2.0}
FIRST = Usage(input=10_000, output=500, cache_write=9_000)
SECOND = Usage(input=11_000, output=100, cache_read=9_500, cache_write=1_000)
COST_OF_FIRST = (1_000 * 4 + 9_000 * 5 + 500 * 20) / 1e6
COST_OF_SECOND = (500 * 4 + 9_500 * 0.2 + 1_000 * 5 + 100 * 20) / 1e6
MODEL = "scripted/model-1"


def priced(b: Bench, **prices: dict[str, float] | None) -> dict[str, Any]:
    """Return the bench's provider with these models, each with its price or without one."""
    known = b.config["providers"]["scripted"]
    models = {
        name.replace("_", "-"): {"price": price, "context_window": 100_000} if price else {}
        for name, price in prices.items()
    }
    return {"providers": {"scripted": known | {"models": models}}}


async def test_spending_adds_up_what_each_step_took(tmp_path: Path) -> None:
    script = [say("one", usage=FIRST), say("two", usage=SECOND)]
    async with bench(tmp_path, script, "anthropic") as b:
        async with b.runtime(config=priced(b, model_1=PRICE)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await ask(session, "second")
            spending = await session.spending()
    (spent,) = spending.steps
    assert (spent.model, spent.requests) == (MODEL, 2)
    assert spent.usage == Usage(21_000, 600, 9_500, 10_000)
    assert spent.dollars == pytest.approx(COST_OF_FIRST + COST_OF_SECOND)
    assert spent.saved == pytest.approx((9_500 * 3.8 - 10_000 * 1.0) / 1e6)
    assert spending.complete


async def test_each_model_is_counted_by_itself_and_one_without_a_price_says_so(
    tmp_path: Path,
) -> None:
    script = [say("one", usage=FIRST), say("two", usage=SECOND)]
    async with bench(tmp_path, script, "anthropic") as b:
        b.prefix_may_break = "the model is switched"
        async with b.runtime(config=priced(b, model_1=PRICE, model_2=None)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.switch_model("scripted/model-2")
            await ask(session, "second")
            spending = await session.spending()
    known, unknown = spending.steps
    assert (known.dollars, known.model) == (pytest.approx(COST_OF_FIRST), MODEL)
    assert unknown == Spent("scripted/model-2", 1, SECOND, None, None)
    assert spending.dollars == pytest.approx(COST_OF_FIRST)
    assert not spending.complete


async def test_an_attempt_that_failed_before_any_word_costs_nothing(tmp_path: Path) -> None:
    script = [error(503), say("one", usage=FIRST)]
    async with bench(tmp_path, script, "anthropic") as b:
        async with b.runtime(config=priced(b, model_1=PRICE)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            spending = await session.spending()
    assert spending.steps[0].requests == 1
    assert spending.complete


async def test_an_attempt_that_broke_off_is_named_and_in_no_sum(tmp_path: Path) -> None:
    script = [cut(say("some words that break off"), after=3), say("one", usage=FIRST)]
    async with bench(tmp_path, script, "anthropic") as b:
        async with b.runtime(config=priced(b, model_1=PRICE)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            spending = await session.spending()
    (spent,) = spending.steps
    assert (spent.requests, spent.uncounted, spent.usage) == (1, 1, FIRST)
    assert not spending.complete


async def test_an_answer_without_usage_is_named_and_in_no_sum(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one", usage=None)], "anthropic") as b:
        async with b.runtime(config=priced(b, model_1=PRICE)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            spending = await session.spending()
    assert spending.steps == (Spent(MODEL, uncounted=1),)
    assert not spending.complete


async def test_a_compaction_is_counted_apart_from_the_steps(tmp_path: Path) -> None:
    script = [say("one", usage=FIRST), say("a summary", usage=SECOND)]
    async with bench(tmp_path, script, "anthropic") as b:
        b.prefix_may_break = "the history is compacted"
        async with b.runtime(config=priced(b, model_1=PRICE)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.compact()
            spending = await session.spending()
    assert [each.usage for each in spending.steps] == [FIRST]
    assert [each.usage for each in spending.compactions] == [SECOND]
    assert spending.dollars == pytest.approx(COST_OF_FIRST + COST_OF_SECOND)


async def test_a_fork_has_spent_only_what_it_took_itself(tmp_path: Path) -> None:
    script = [say("one", usage=FIRST), say("two", usage=SECOND)]
    async with bench(tmp_path, script, "anthropic") as b:
        async with b.runtime(config=priced(b, model_1=PRICE)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            copy = await session.fork()
            before = await copy.spending()
            await ask(copy, "second")
            after = await copy.spending()
    assert before == Spending()
    assert [each.usage for each in after.steps] == [SECOND]


async def test_what_was_reverted_is_still_spent(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one", usage=FIRST)], "anthropic") as b:
        async with b.runtime(config=priced(b, model_1=PRICE)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.revert(1)
            spending = await session.spending()
    assert spending.dollars == pytest.approx(COST_OF_FIRST)


async def test_without_the_directory_tokens_are_known_and_prices_are_not(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one", usage=FIRST)], "anthropic") as b:
        async with b.runtime(config=priced(b, model_1=PRICE)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            b.project.rename(tmp_path / "elsewhere")
            spending = await session.spending()
    assert spending.steps == (Spent(MODEL, 1, FIRST, None, None),)


def log(*events: tuple[datetime, ev.Event]) -> list[ev.Record]:
    return [
        ev.Record(seq, milliseconds(when), event) for seq, (when, event) in enumerate(events, 1)
    ]


def started(model: str, **parameters: Any) -> ev.StepStarted:
    shape = ev.RequestShape("anthropic", "m", "wrapped", 1000, parameters)
    return ev.StepStarted(1, 1, model, shape, 1, "digest")


def answered(usage: Usage) -> ev.AssistantMessage:
    return ev.AssistantMessage(1, (Text("words"),), "end", usage)


NOVEMBER = datetime(2026, 11, 30, 23, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 1, 1, tzinfo=UTC)
VENDORS = Models(Config(), {})
TOKENS = Usage(input=1_000_000)


def test_a_step_costs_what_the_price_was_when_it_was_answered() -> None:
    step = started("gemini/gemini-4-argon")
    before, after = (
        spending_of(log((when, step), (when, answered(TOKENS))), VENDORS).dollars
        for when in (NOVEMBER, DECEMBER)
    )
    assert after == pytest.approx(2 * before)


def test_a_step_of_another_tier_of_service_has_its_price() -> None:
    usual, slower = (
        spending_of(log((DECEMBER, step), (DECEMBER, answered(TOKENS))), VENDORS).dollars
        for step in (
            started("openai/gpt-6.1-sol"),
            started("openai/gpt-6.1-sol", service_tier="flex"),
        )
    )
    assert slower == pytest.approx(usual / 2)


def test_a_title_is_counted_apart_by_the_model_that_wrote_it() -> None:
    titled = ev.SessionRenamed("Title", "gemini/gemini-4-argon", Usage(50, 10))
    by_hand = ev.SessionRenamed("Another title")
    spending = spending_of(log((DECEMBER, titled), (DECEMBER, by_hand)), VENDORS)
    assert spending.steps == ()
    assert [(each.model, each.usage) for each in spending.titles] == [
        ("gemini/gemini-4-argon", Usage(50, 10))
    ]


def test_a_summary_after_a_revert_is_spent_on_the_model_of_the_step_before_it() -> None:
    records = log(
        (DECEMBER, started("anthropic/claude-opus-5-5")),
        (DECEMBER, answered(FIRST)),
        (DECEMBER, started("openai/gpt-6.1-sol")),
        (DECEMBER, answered(FIRST)),
        (DECEMBER, ev.SessionReverted(2, {})),
        (DECEMBER, ev.CompactionFinished("summary", 0, SECOND)),
    )
    (summary,) = spending_of(records, VENDORS).compactions
    assert summary.model == "anthropic/claude-opus-5-5"


def test_a_provider_that_is_not_configured_any_more_has_no_price() -> None:
    records = log((DECEMBER, started("gone/model")), (DECEMBER, answered(FIRST)))
    assert spending_of(records, VENDORS).steps == (Spent("gone/model", 1, FIRST, None, None),)


def test_without_a_step_there_is_nothing_spent_and_nothing_missing() -> None:
    spending = spending_of(log((DECEMBER, ev.SessionRenamed("T"))), VENDORS)
    assert (spending.usage, spending.dollars, spending.saved) == (Usage(), 0, 0)
    assert spending.complete


@asynccontextmanager
async def answered_once(root: Path, **prices: dict[str, float] | None) -> AsyncGenerator[Session]:
    """Give a session with one answer and so a cached prefix, and models with these prices."""
    async with bench(root, [say("one", usage=SECOND)], "anthropic") as b:
        async with b.runtime(config=priced(b, **prices)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            yield session


async def test_a_session_without_a_prefix_breaks_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        async with b.runtime(config=priced(b, model_1=PRICE, model_2=CHEAP)) as runtime:
            session = await b.session(runtime)
            assert await session.prefix_price(model="scripted/model-2") == PrefixPrice()
            assert await session.prefix_price(compaction=True) == PrefixPrice()


async def test_a_switch_costs_the_whole_prefix_anew_at_the_other_price(tmp_path: Path) -> None:
    async with answered_once(tmp_path, model_1=CHEAP, model_2=PRICE) as session:
        price = await session.prefix_price(model="scripted/model-2")
        assert await session.prefix_price(model=MODEL) == PrefixPrice()
    assert price.tokens == 11_100
    assert price.dollars == pytest.approx(11_100 * (5.0 - 1.0) / 1e6)


async def test_another_set_of_tools_costs_the_whole_prefix_anew(tmp_path: Path) -> None:
    async with answered_once(tmp_path, model_1=PRICE) as session:
        price = await session.prefix_price()
    assert price.tokens == 11_100
    assert price.dollars == pytest.approx(11_100 * (5.0 - 0.2) / 1e6)


async def test_a_compaction_costs_its_summary_and_what_is_left_anew(tmp_path: Path) -> None:
    async with answered_once(tmp_path, model_1=PRICE) as session:
        price = await session.prefix_price(compaction=True)
    assert price.dollars == pytest.approx((2_000 * 20 + price.tokens * 5) / 1e6)
    assert 2_000 < price.tokens < 11_100


async def test_a_history_that_is_summarized_whole_is_not_paid_for_anew(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b:
        b.prefix_may_break = "there are two sessions"
        async with b.runtime(config=priced(b, model_1=PRICE)) as runtime:
            prices: list[PrefixPrice] = []
            for prompt in ("first", "first" * 5_000):
                session = await b.session(runtime)
                await ask(session, prompt)
                prices.append(await session.prefix_price(compaction=True))
    assert prices[1].tokens == prices[0].tokens


async def test_what_cannot_be_summarized_costs_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, [error(401, "no")]) as b:
        async with b.runtime(config=priced(b, model_1=PRICE)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            assert (await session.state()).last_step is not None
            assert await session.prefix_price(compaction=True) == PrefixPrice()


async def test_a_prefix_that_breaks_anyway_costs_nothing_more(tmp_path: Path) -> None:
    script = [say("one", usage=FIRST), say("summary", usage=SECOND)]
    async with bench(tmp_path, script, "anthropic") as b:
        b.prefix_may_break = "the history is compacted"
        async with b.runtime(config=priced(b, model_1=PRICE, model_2=CHEAP)) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.compact()
            assert await session.prefix_price(model="scripted/model-2") == PrefixPrice()


async def test_a_break_without_a_known_price_still_says_how_many_tokens(tmp_path: Path) -> None:
    async with answered_once(tmp_path, model_1=PRICE, model_2=None) as session:
        assert await session.prefix_price(model="scripted/model-2") == PrefixPrice(11_100, None)
        assert await session.prefix_price(model="nobody/knows") == PrefixPrice(11_100, None)


def test_a_configured_price_counts_before_that_of_the_vendor() -> None:
    own = ProviderConfig(
        "anthropic",
        "https://api.anthropic.com",
        models={"claude-opus-5-5": ModelConfig(price=Price(1.0, 1.0, 1.0, 1.0))},
    )
    models = Models(Config(providers={"anthropic": own}), {})
    step = (DECEMBER, started("anthropic/claude-opus-5-5"))
    spending = spending_of(log(step, (DECEMBER, answered(TOKENS))), models)
    assert spending.dollars == pytest.approx(1.0)
