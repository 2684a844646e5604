"""What is known of caches, the key of a session's cache, and logs that know nothing of all this."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perdure import Runtime
from perdure.history import events as ev
from perdure.models.caches import cache_facts
from perdure.session.cache_causes import duration
from perdure.session.caching import cache_report
from perdure.testing import isolated_environment, say
from perdure.testing.provider import PROTOCOLS
from tests.session.support import ask, bench

pytestmark = pytest.mark.anyio

CORPUS = sorted((Path(__file__).parent.parent / "store" / "corpus").glob("*.sqlite3"))


@pytest.mark.parametrize(
    ("protocol", "model", "minimum", "minutes", "unit", "stated"),
    [
        ("anthropic", "claude-opus-5", 512, 5, 1, True),
        ("anthropic", "claude-opus-4-8", 1024, 5, 1, True),
        ("anthropic", "claude-sonnet-4-5-20250929", 1024, 5, 1, True),
        ("anthropic", "claude-opus-5-5", 4096, 5, 1, True),
        ("anthropic", "claude-haiku-4-5", 4096, 5, 1, True),
        ("anthropic", "glm-5", 1024, 5, 128, False),
        ("openai-chat", "gpt-4o", 1024, 5, 128, True),
        ("openai-chat", "o3", 1024, 5, 128, True),
        ("openai-responses", "gpt-5.6-sol", 1024, 30, 128, True),
        ("openai-responses", "gpt-6.1-sol", 1024, 30, 128, True),
        ("openai-chat", "qwen3", 1024, 5, 128, False),
        ("gemini", "gemini-2.5-pro", 2048, 5, 1, False),
        ("gemini", "gemini-4-argon", 4096, 5, 1, False),
        ("a protocol of tomorrow", "m", 1024, 5, 128, False),
    ],
)
def test_the_table_knows(
    protocol: str, model: str, minimum: int, minutes: int, unit: int, stated: bool
) -> None:
    facts = cache_facts(protocol, model)
    assert (facts.minimum, facts.lifetime, facts.unit) == (minimum, 60 * minutes, unit)
    assert facts.stated is stated


def test_tokens_are_rounded_down_and_nothing_is_cached_below_the_minimum() -> None:
    facts = cache_facts("openai-chat", "gpt-4o")
    counted = {tokens: facts.cached(tokens) for tokens in (0, 1023, 1024, 1151, 1152)}
    assert counted == {0: 0, 1023: 0, 1024: 1024, 1151: 1024, 1152: 1152}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-3, "0 s"), (59, "59 s"), (90, "1.5 min"), (300, "5 min"), (7200, "2 h"), (129_600, "1.5 d")],
)
def test_a_time_is_shown_in_its_largest_unit(seconds: float, words: str) -> None:
    assert duration(seconds) == words


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


@pytest.mark.parametrize("wait", [1e308, -1e308, 0.5])
def test_any_wait_in_a_log_from_elsewhere_is_taken(wait: float) -> None:
    shape = ev.RequestShape("openai-chat", "m", "wrapped", 100)
    events = [
        ev.SessionCreated("/d", "/d", "p/m", "marker"),
        ev.EpochStarted(1, (), "p/m", "", {}, (), 1),
        ev.StepStarted(1, 1, "p/m", shape, 1, "00"),
        ev.AttemptFailed(1, 1, ev.Failure("ProviderError", "no"), (), wait),
        ev.AssistantMessage(1, (), "end"),
    ]
    records = [ev.Record(seq, 0, event) for seq, event in enumerate(events, 1)]
    (request,) = cache_report("s", records).requests
    assert request.failed == 1


@pytest.mark.parametrize("written", CORPUS, ids=[file.stem for file in CORPUS])
async def test_every_session_of_an_old_database_has_its_report(
    written: Path, tmp_path: Path
) -> None:
    store = Path(shutil.copy(written, tmp_path / "store.db"))
    found = 0
    async with Runtime.open(store, environ=isolated_environment(tmp_path)) as runtime:
        for row in await runtime.sessions():
            report = await (await runtime.session(row.id)).cache()
            assert report.missed == ()
            assert {each.reason for each in report.requests} <= {""}
            found += len(report.requests)
    assert found > len(PROTOCOLS)
