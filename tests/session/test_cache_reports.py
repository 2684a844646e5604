"""Cache reports of logs that others or older versions wrote, and how a report says a time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perdure import Runtime
from perdure.history import events as ev
from perdure.session.cache_causes import duration
from perdure.session.caching import cache_report
from perdure.testing import isolated_environment
from perdure.testing.provider import PROTOCOLS
from tests.store.corpus.write import CORPUS

pytestmark = pytest.mark.anyio

FILES = sorted(CORPUS.glob("*.sqlite3"))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-3, "0 s"), (59, "59 s"), (90, "1.5 min"), (300, "5 min"), (7200, "2 h"), (129_600, "1.5 d")],
)
def test_a_time_is_shown_in_its_largest_unit(seconds: float, words: str) -> None:
    assert duration(seconds) == words


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


@pytest.mark.parametrize("written", FILES, ids=[file.stem for file in FILES])
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
