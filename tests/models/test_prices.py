"""What tokens cost: who says so, how long prompts and dates change it, and where nobody knows."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.config.known import KNOWN
from perdure.config.load import from_mapping
from perdure.config.schema import ModelConfig, Price, ProviderConfig
from perdure.errors import ConfigurationError
from perdure.history.content import Usage
from perdure.models.prices import Tariff, Tier, tariff_of, window_of

NOW = datetime(2026, 12, 2, tzinfo=UTC)
IDS = {"anthropic": "anthropic", "openai": "openai", "gemini": "google"}
CURRENT = [
    ("anthropic", "claude-opus-5-5"),
    ("anthropic", "claude-sonnet-5-5"),
    ("anthropic", "claude-haiku-5-5"),
    ("anthropic", "claude-fable-5-2"),
    ("anthropic", "claude-sonnet-4-5"),
    ("openai", "gpt-6.1-sol"),
    ("openai", "gpt-6-luna"),
    ("openai", "gpt-5.4"),
    ("openai", "gpt-5-mini"),
    ("openai", "o3"),
    ("gemini", "gemini-4-argon"),
    ("gemini", "gemini-3.1-pro-preview"),
    ("gemini", "gemini-2.5-pro"),
    ("gemini", "gemini-3.8-flash"),
]
"""Models of each vendor, those with tiers and with prices by date among them."""


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    prompt = draw(st.integers(0, 1_200_000) | st.sampled_from([200_000, 200_001, 272_000, 272_001]))
    read = draw(st.integers(0, prompt))
    return Usage(prompt, draw(st.integers(0, 128_000)), read, draw(st.integers(0, prompt - read)))


@pytest.mark.parametrize(("provider", "model"), CURRENT)
@given(usage=usages(), when=st.sampled_from([NOW, datetime(2026, 1, 1, tzinfo=UTC)]))
def test_a_vendors_model_costs_what_the_package_says(
    provider: str, model: str, usage: Usage, when: datetime
) -> None:
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    counted = Tokens(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    said = calc_price(counted, model, provider_id=IDS[provider], genai_request_timestamp=when)
    tariff = tariff_of(model, KNOWN[provider], when)
    assert tariff is not None
    assert tariff.source == "package"
    assert tariff.cost(usage) == pytest.approx(float(said.total_price))


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-4-5"])
def test_writing_to_the_cache_of_anthropic_costs_a_quarter_more(model: str) -> None:
    tariff = tariff_of(model, KNOWN["anthropic"], NOW)
    assert tariff is not None
    assert tariff.price.cache_write == pytest.approx(1.25 * tariff.price.input)


def test_all_of_a_long_request_has_the_price_of_its_tier() -> None:
    short, long = Price(1, 2, 0.1, 1), Price(10, 20, 1, 10)
    tariff = Tariff(short, (Tier(100, long),))
    assert tariff.cost(Usage(100, 10)) == pytest.approx((100 * 1 + 10 * 2) / 1e6)
    assert tariff.cost(Usage(101, 10)) == pytest.approx((101 * 10 + 10 * 20) / 1e6)


def test_the_highest_tier_that_is_reached_counts() -> None:
    low, middle, high = (Price(each, each, each, each) for each in (1, 2, 3))
    tariff = Tariff(low, (Tier(10, middle), Tier(20, high)))
    assert [tariff.at(prompt) for prompt in (0, 10, 11, 20, 21)] == [low, low, middle, middle, high]


@given(usage=usages())
def test_what_was_saved_and_spent_is_what_it_cost_without_a_cache(usage: Usage) -> None:
    tariff = tariff_of("gpt-6.1-sol", KNOWN["openai"], NOW)
    assert tariff is not None
    without = tariff.cost(Usage(usage.input, usage.output))
    assert tariff.cost(usage) + tariff.saved(usage) == pytest.approx(without)


def test_counts_that_contradict_each_other_never_give_a_negative_cost() -> None:
    assert Tariff(Price(1, 1, 0, 0)).cost(Usage(input=10, cache_read=20)) == 0


def test_a_configured_price_counts_before_that_of_the_package() -> None:
    price = Price(1, 2, 3, 4)
    own = ProviderConfig(
        "anthropic",
        "https://api.anthropic.com",
        models={"claude-opus-5-5": ModelConfig(price=price)},
    )
    assert tariff_of("claude-opus-5-5", own, NOW) == Tariff(price, (), "configured")


@pytest.mark.parametrize(
    "base_url",
    [
        "http://127.0.0.1:11434/v1",
        "http://localhost:8000/v1",
        "https://models.example.com/v1",
        "https://api.openai.com.example.com/v1",
        "https://api.openai.community/v1",
    ],
)
def test_no_price_of_a_vendor_is_taken_over_to_another_address(base_url: str) -> None:
    server = ProviderConfig("openai-chat", base_url)
    assert tariff_of("gpt-6.1-sol", server, NOW) is None
    assert window_of("gpt-6.1-sol", server) is None


@pytest.mark.parametrize(
    ("provider", "model"),
    [("anthropic", "claude-opus-99"), ("openai", "gpt-99"), ("gemini", "gemini-99-pro")],
)
def test_a_model_that_nobody_knows_has_no_price(provider: str, model: str) -> None:
    assert tariff_of(model, KNOWN[provider], NOW) is None
    assert window_of(model, KNOWN[provider]) is None


def test_a_vendor_whose_address_is_known_has_its_own_prices() -> None:
    server = ProviderConfig("openai-chat", "https://api.deepseek.com")
    assert tariff_of("deepseek-chat", server, NOW) is not None
    # What Azure asks for the models of others is not what they ask for themselves.
    azure = ProviderConfig("openai-chat", "https://team.openai.azure.com/openai/v1")
    assert tariff_of("claude-opus-5-5", azure, NOW) is None


def test_the_package_knows_context_windows() -> None:
    assert window_of("claude-opus-5-5", KNOWN["anthropic"]) == 1_000_000


def test_a_price_is_found_without_a_connection() -> None:
    program = (
        "import socket\n"
        "def refuse(*_): raise AssertionError('a connection')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from datetime import datetime, UTC\n"
        "from perdure.config.known import KNOWN\n"
        "from perdure.models.prices import tariff_of\n"
        "import threading\n"
        "print(tariff_of('gpt-6.1-sol', KNOWN['openai'], datetime.now(UTC)) is not None)\n"
        "print(threading.active_count())\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert said.stdout.split() == ["True", "1"]


def configured(price: object) -> Price | None:
    model = {"price": price}
    provider = {"protocol": "openai-chat", "base_url": "http://x", "models": {"m": model}}
    return from_mapping({"providers": {"p": provider}}).providers["p"].models["m"].price


def test_a_configured_price_of_the_cache_is_that_of_input_unless_it_is_named() -> None:
    assert configured({"input": 3, "output": 15}) == Price(3.0, 15.0, 3.0, 3.0)
    whole = {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}
    assert configured(whole) == Price(3.0, 15.0, 0.3, 3.75)
    assert configured({"input": 0, "output": 0}) == Price(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "value", [-1, float("nan"), float("inf"), True, "3", None, [3], {"usd": 3}, 2_000_000]
)
def test_a_price_that_is_no_number_of_dollars_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"models\.m\.price\.input must be a number of US"):
        configured({"input": value, "output": 1})


def test_an_unknown_key_of_a_price_is_named_with_the_nearest() -> None:
    with pytest.raises(
        ConfigurationError, match=r"price\.cached_read .*nearest .*price\.cache_read"
    ):
        configured({"input": 1, "output": 1, "cached_read": 1})


@pytest.mark.parametrize("given", [{}, {"input": 1}, {"output": 1}, {"cache_read": 1}])
def test_a_price_without_input_or_output_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=r"models\.m\.price needs (input|output): US doll"):
        configured(given)


def test_a_later_file_may_change_one_of_the_prices() -> None:
    from perdure.config.layers import combine, layer

    provider = {"protocol": "openai-chat", "base_url": "http://x"}
    first = {"providers": {"p": provider | {"models": {"m": {"price": {"input": 1, "output": 2}}}}}}
    second = {"providers": {"p": {"models": {"m": {"price": {"output": 5}}}}}}
    config = combine([layer(first, "a", {}), layer(second, "b", {})])
    assert config.providers["p"].models["m"].price == Price(1.0, 5.0, 1.0, 1.0)
