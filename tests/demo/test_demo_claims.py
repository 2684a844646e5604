"""The demo judges itself: a claim that does not hold is told."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from perdure.demo.findings import Change, Evidence, claims, step_rows
from perdure.demo.screen import Look, Screen
from perdure.demo.show import perform, run_demo
from perdure.demo.summary import judge
from perdure.demo.world import World
from perdure.errors import PerdureError
from perdure.history import events as ev
from perdure.testing import ReceivedRequest


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    world = World(tmp_path_factory.mktemp("demo"))
    world.build()
    shown: list[str] = []
    screen = Screen(shown.append, Look(80))
    return anyio.run(lambda: perform(world, screen, pace=0.0))


def broken(evidence: Evidence) -> list[str]:
    return [claim.text for claim in claims(evidence) if not claim.holds]


def test_every_claim_holds(evidence: Evidence) -> None:
    assert broken(evidence) == []


def test_a_prefix_that_was_not_kept_is_told(evidence: Evidence) -> None:
    rewritten = with_system(evidence.requests, 6, "a rebuilt system prompt")
    changed = replace(evidence, requests=rewritten)
    # The request itself differs from the one before it, and the next one from it.
    assert "6 of 8 requests begin with every block of the request before them" in broken(changed)
    assert "one Baseline, the same bytes from both processes" in broken(changed)
    assert [row.step for row in step_rows(changed) if row.kept is False] == [7, 8]


def with_system(
    requests: Sequence[ReceivedRequest], index: int, text: str
) -> list[ReceivedRequest]:
    body = requests[index].json | {"system": [{"type": "text", "text": text}]}
    return [replace(each, json=body) if each.index == index else each for each in requests]


def test_a_missing_request_is_told(evidence: Evidence) -> None:
    assert len(broken(replace(evidence, requests=evidence.requests[:-1]))) == 1


def test_an_effect_that_happened_twice_is_told(evidence: Evidence) -> None:
    other = replace(evidence, releases=2)
    assert broken(other) == ["its effect, a line in releases.txt, is there 2 times"]


@pytest.mark.parametrize("kind", [ev.ToolStarted, ev.ToolSettled])
def test_a_call_that_started_or_settled_twice_is_told(
    evidence: Evidence, kind: type[ev.ToolStarted | ev.ToolSettled]
) -> None:
    (unknown,) = (
        record.data.call
        for record in evidence.log
        if isinstance(record.data, ev.ToolSettled) and record.data.outcome == "unknown"
    )
    again = [
        record
        for record in evidence.log
        if isinstance(record.data, kind) and record.data.call == unknown
    ]
    other = replace(evidence, log=[*evidence.log, *again])
    assert broken(other) == ["the killed call was started once and settled once, as unknown"]


def test_a_process_that_ended_otherwise_is_told(evidence: Evidence) -> None:
    assert len(broken(replace(evidence, killed=False))) == 1


NOT_TOLD = "each change was told once, in the very next request"


def test_a_change_that_was_not_told_is_told(evidence: Evidence) -> None:
    changes = {**evidence.changes, 3: [Change("the date", "perdure/date")]}
    assert broken(replace(evidence, changes=changes)) == [NOT_TOLD]


def test_news_without_a_change_is_told(evidence: Evidence) -> None:
    changes = {step: each for step, each in evidence.changes.items() if step != 5}
    assert broken(replace(evidence, changes=changes)) == [NOT_TOLD]


def test_news_that_came_a_step_late_is_told(evidence: Evidence) -> None:
    changes = {step - (step == 8): each for step, each in evidence.changes.items()}
    assert broken(replace(evidence, changes=changes)) == [NOT_TOLD]


def test_a_request_without_the_news_is_told(evidence: Evidence) -> None:
    mute = evidence.requests[3].json["messages"][:-1]
    body = evidence.requests[3].json | {"messages": mute}
    requests = [replace(r, json=body) if r.index == 3 else r for r in evidence.requests]
    assert NOT_TOLD in broken(replace(evidence, requests=requests))


def test_a_refused_request_is_told(evidence: Evidence) -> None:
    assert broken(replace(evidence, refused=1)) == ["the strict server refused 1 requests"]


def test_a_bill_that_starts_from_another_request_is_told(evidence: Evidence) -> None:
    other = replace(evidence, rebuilt={**evidence.rebuilt, 1: "shorter"})
    assert broken(other) == ["with and without are billed from the same first request"]


def test_a_broken_claim_is_shown_as_such(evidence: Evidence) -> None:
    shown: list[str] = []
    assert not judge(Screen(shown.append, Look(80)), replace(evidence, releases=2))
    assert " FAILED   its effect, a line in releases.txt, is there 2 times\n" in shown
    assert "see FAILED above" in shown[-1]


def twice(world: World) -> int:
    return 2


def test_the_demo_ends_with_1_when_a_claim_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(World, "releases_made", twice)
    shown: list[str] = []
    code = anyio.run(lambda: run_demo(shown.append, Look(80), pace=0.0, keep=False))
    assert code == 1
    assert "FAILED" in "".join(shown)
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_cannot_run_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    false = shutil.which("false")
    assert false is not None
    monkeypatch.setattr("sys.executable", false)
    world = World(tmp_path)
    world.build()
    shown: list[str] = []
    with pytest.raises(PerdureError, match=r"worker process \d+ ended too early"):
        anyio.run(lambda: perform(world, Screen(shown.append, Look(80)), pace=0.0))
