"""What the demo claims, looked up: in the bytes received, in the durable log, in the files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec

from perdure.demo.billing import Rebuilding, billed
from perdure.demo.script import STEPS
from perdure.history import events as ev
from perdure.instructions.keys import path_of
from perdure.testing import ReceivedRequest, blocks, keeps_prefix

AnyEvent = TypeVar("AnyEvent", bound=ev.Event)


class Change(msgspec.Struct, frozen=True):
    """Something that the demo did; `key` is that of the Context Source it changed, if it did."""

    text: str
    key: str = ""


class Evidence(msgspec.Struct, frozen=True):
    """All that the claims are judged by.

    `log` is that of the `session`, read from the database; `requests` are those that the provider
    received, `refused` how many of them it refused. By step: `changes` is what the demo did between
    the last step and this one, `rebuilt` the facts of its moment as one text. `killed` says whether
    the process ended by SIGKILL, `releases` how often the command that it ran then had its effect.
    """

    session: str
    log: Sequence[ev.Record]
    requests: Sequence[ReceivedRequest]
    refused: int
    changes: Mapping[int, Sequence[Change]]
    rebuilt: Mapping[int, str]
    killed: bool
    releases: int


class StepRow(msgspec.Struct, frozen=True):
    """One step in the table. `kept` is None for the first request, which has none before it."""

    step: int
    changed: str
    told: str
    kept: bool | None
    billed: float
    without: float


class Claim(msgspec.Struct, frozen=True):
    """Something that the demo says, and whether it is so."""

    text: str
    holds: bool


def name_of(key: str) -> str:
    """Return a short name for a Context Source."""
    path = path_of(key)
    return path.name if path else key.rpartition("/")[2]


def step_rows(evidence: Evidence) -> list[StepRow]:
    """Return the table: one row for each request that was received and answered."""
    told = _told(evidence.log)
    kept = [None, *_kept(evidence.requests)]
    usages = [answer.usage for answer in _all(evidence.log, ev.AssistantMessage)]
    without = Rebuilding()
    return [
        StepRow(
            step=step,
            changed=", ".join(change.text for change in evidence.changes.get(step, ())),
            told=", ".join(told[step]),
            kept=kept[step - 1],
            billed=billed(usage),
            without=without.bill(request, evidence.rebuilt.get(step, "")),
        )
        for step, (request, usage) in enumerate(zip(evidence.requests, usages, strict=False), 1)
    ]


def claims(evidence: Evidence) -> Iterator[Claim]:
    """Judge everything that the demo claims."""
    kept = _kept(evidence.requests)
    yield Claim(
        f"{sum(kept)} of {STEPS - 1} requests begin with every block of the request before them",
        len(kept) == STEPS - 1 and all(kept),
    )
    yield Claim("one Baseline, the same bytes from both processes", _one_baseline(evidence))
    yield Claim("each change was told once, in the very next request", _told_once(evidence))
    yield Claim(
        "the killed call was started once and settled once, as unknown", _settled_once(evidence)
    )
    yield Claim(
        f"its effect, a line in releases.txt, is there {_times(evidence.releases)}",
        evidence.releases == 1,
    )
    yield Claim(f"the strict server refused {evidence.refused} requests", evidence.refused == 0)
    yield Claim("with and without are billed from the same first request", _same_start(evidence))


def _kept(requests: Sequence[ReceivedRequest]) -> list[bool]:
    return [keeps_prefix(before, after) for before, after in pairwise(requests)]


def _one_baseline(evidence: Evidence) -> bool:
    baselines = [epoch.baseline for epoch in _all(evidence.log, ev.EpochStarted)]
    sent = {_text(request, "system") for request in evidence.requests}
    return len(baselines) == 1 and sent == set(baselines)


def _same_start(evidence: Evidence) -> bool:
    """Say whether the rebuilt system prompt of step 1 is what was sent then."""
    return bool(evidence.requests) and (
        _text(evidence.requests[0], "system") == evidence.rebuilt.get(1)
    )


def _told_once(evidence: Evidence) -> bool:
    messages = dict(_messages(evidence.log))
    changed = {
        step: {change.key for change in changes if change.key}
        for step, changes in evidence.changes.items()
    }
    wanted = {step: keys for step, keys in changed.items() if keys}
    if {step: set(message.changed) for step, message in messages.items()} != wanted:
        return False
    sent = [_text(request, "messages") for request in evidence.requests]
    return all(
        sent[step - 1].count(message.text) == 1 and message.text not in sent[step - 2]
        for step, message in messages.items()
    )


def _settled_once(evidence: Evidence) -> bool:
    settled = _all(evidence.log, ev.ToolSettled)
    unknown = [event.call for event in settled if event.outcome == "unknown"]
    if not evidence.killed or len(unknown) != 1:
        return False
    starts = [event.call for event in _all(evidence.log, ev.ToolStarted)]
    ends = [event.call for event in settled]
    return starts.count(unknown[0]) == ends.count(unknown[0]) == 1


def _told(log: Sequence[ev.Record]) -> dict[int, list[str]]:
    """Return by step what the model was told beside prompts and results, in a few words."""
    told: dict[int, list[str]] = defaultdict(list)
    coming: list[str] = []
    for record in log:
        match record.data:
            case ev.EpochStarted():
                coming.append("the Baseline: all of it")
            case ev.ToolSettled(outcome="unknown"):
                coming.append("call: outcome unknown")
            case ev.SystemMessage(changed=changed):
                coming += [_words(key, gone=value is None) for key, value in changed.items()]
            case ev.StepStarted(step=step):
                told[step] = coming
                coming = []
            case _:
                pass
    return told


def _words(key: str, *, gone: bool) -> str:
    if gone:
        return f"{name_of(key)} no longer applies"
    return f"{name_of(key)}, all of it" if path_of(key) else f"the new {name_of(key)}"


def _messages(log: Sequence[ev.Record]) -> Iterator[tuple[int, ev.SystemMessage]]:
    """Yield each System Message with the step that it came with."""
    step = 0
    for record in log:
        match record.data:
            case ev.StepStarted():
                step = record.data.step
            case ev.SystemMessage() as message:
                yield step + 1, message
            case _:
                pass


def _all(log: Sequence[ev.Record], kind: type[AnyEvent]) -> list[AnyEvent]:
    return [record.data for record in log if isinstance(record.data, kind)]


def _text(request: ReceivedRequest, part: str) -> str:
    """Return the text of all text blocks in one part of a request."""
    contents = [block.content for block in blocks(request) if block.part == part]
    return "\n\n".join(content["text"] for content in contents if content.get("type") == "text")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
