"""What was spent, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.cli.spending import dollars, prefix_words, spending_words, spent_words
from perdure.history.content import Usage
from perdure.session.spending import PrefixPrice, Spending, Spent
from perdure.testing import say
from tests.cli.conftest import Here
from tests.cli.support import shell

USAGE = Usage(input=12_000, output=600, cache_read=9_500)
ANEW = "the next step sends about {} tokens anew, which costs about {} than from the cache"


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "$0.0000"),
        (0.00123, "$0.0012"),
        (12.345, "$12.35"),
        (-0.5, "-$0.5000"),
        (-0.00001, "$0.0000"),
    ],
)
def test_small_amounts_are_told_finer(amount: float, words: str) -> None:
    assert dollars(amount) == words


def test_nothing_is_said_of_a_session_that_asked_for_nothing() -> None:
    assert spending_words(Spending()) == ""


def test_tokens_cost_and_saving_are_one_line() -> None:
    spending = Spending((Spent("a/m", 2, USAGE, 0.5, 0.25),))
    assert spending_words(spending) == (
        "12,000 tokens in (9,500 from the cache), 600 out, $0.5000, the cache saved $0.2500"
    )


def test_a_model_without_a_price_is_named() -> None:
    known, unknown = Spent("a/m", 1, USAGE, 0.5, 0.0), Spent("b/m", 1, USAGE, None, None)
    assert spending_words(Spending((unknown,))).endswith("600 out, no price known for b/m")
    both = spending_words(Spending((known, unknown), titles=(unknown,)))
    assert both.endswith("at least $0.5000, no price known for b/m")


def test_what_the_provider_did_not_count_is_told() -> None:
    words = spent_words(Spent("a/m", 1, USAGE, 0.5, -0.1, uncounted=2))
    assert words == (
        "1 request, 12,000 tokens in (9,500 from the cache), 600 out, at least $0.5000, "
        "2 requests not counted by the provider, the cache cost $0.1000"
    )


@pytest.mark.parametrize(
    ("price", "words"),
    [
        (PrefixPrice(), ""),
        (
            PrefixPrice(52_000, 0.21),
            ANEW.format("52,000", "$0.2100 more"),
        ),
        (
            PrefixPrice(1_000, -2.0),
            ANEW.format("1,000", "$2.00 less"),
        ),
        (
            PrefixPrice(1_000, None),
            "the next step sends about 1,000 tokens anew; what that costs is not known",
        ),
    ],
)
def test_the_price_of_a_broken_prefix_is_a_sentence(price: PrefixPrice, words: str) -> None:
    assert prefix_words(price) == words


def test_the_price_of_a_compaction_names_the_summary_that_is_in_it() -> None:
    words = prefix_words(PrefixPrice(4_000, 0.06), compaction=True)
    assert words.endswith("which with the summary costs about $0.0600 more than from the cache")


def test_the_transcript_begins_with_what_was_spent(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [say("Because.", usage=USAGE)]) as s:
        here("run", "Why?")
        shown = here("sessions", "show", s.the_session()).out
    words = "12,000 tokens in (9,500 from the cache), 600 out, no price known for scripted/model-1"
    assert words in shown
    assert shown.index(words) < shown.index("Because.")


def test_a_run_loads_no_prices(tmp_path: Path) -> None:
    with shell(tmp_path, [say("Because.")]) as s:
        ended = s.run("run", "Why?", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert (ended.code, ended.out) == (0, "Because.\n")
    assert "perdure.models.prices" in ended.err
    assert "genai_prices" not in ended.err
