"""A checker of histories: whether a log keeps what Perdure promises, whatever happened to it.

It reads the log alone and knows nothing of how the runtime works: each rule is written down once
more, in its own module, and goes through the records by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from perdure.errors import PerdureError
from perdure.history.events import PromptAdmitted, PromptPromoted, PromptWithdrawn, Record
from perdure.store.contract import Store
from perdure.testing.checking.boundaries import boundaries
from perdure.testing.checking.drains import compactions, interrupts
from perdure.testing.checking.epochs import epochs
from perdure.testing.checking.prompts import promotions, prompts
from perdure.testing.checking.requests import requests
from perdure.testing.checking.sequence import sequence
from perdure.testing.checking.steps import recoveries, steps
from perdure.testing.checking.tasks import tasks

Rule = Callable[[Sequence[Record]], Iterator[tuple[int, str]]]
"""One rule: it yields the seq of each event that breaks it, and how."""

RULES: tuple[Rule, ...] = (
    sequence,
    prompts,
    promotions,
    boundaries,
    steps,
    recoveries,
    epochs,
    compactions,
    interrupts,
    requests,
    tasks,
)


def check_history(records: Sequence[Record]) -> list[str]:
    """Return what is wrong with a session's log, a line each in the order of the log.

    `records` is a log from its start, of any length: what is only unfinished, as after a crash, is
    not wrong. Each line begins with the seq of the event that breaks a rule.
    """
    found = {violation for rule in RULES for violation in rule(records)}
    return [f"event {seq}: {words}" for seq, words in sorted(found)]


async def check_store(store: Store) -> list[str]:
    """Return what is wrong with a store: every history, the prompts of all, and its own check."""
    violations = list(await store.check())
    homes: dict[str, str] = {}
    for row in await store.sessions():
        try:
            records = await store.events(row.id)
        except PerdureError as error:
            violations.append(str(error))
            continue
        found = [*check_history(records), *await _prompt_rows(store, row.id, records, homes)]
        violations += [f"session {row.id}: {words}" for words in found]
    return violations


async def _prompt_rows(
    store: Store, session: str, records: Sequence[Record], homes: dict[str, str]
) -> list[str]:
    """Compare what the store says of each prompt with what the log says."""
    violations: list[str] = []
    for prompt, state in _settled(records).items():
        home = homes.setdefault(prompt, session)
        if home != session:
            violations.append(f"prompt {prompt} is also one of session {home}")
            continue
        row = await store.prompt(prompt)
        said = row and (row.session, row.state)
        if said != (session, state):
            violations.append(f"prompt {prompt} is {state} and the store says {said}")
    return violations


def _settled(records: Sequence[Record]) -> dict[str, str]:
    states: dict[str, str] = {}
    for record in records:
        match record.data:
            case PromptAdmitted(prompt=prompt):
                states[prompt] = "pending"
            case PromptPromoted(prompt=prompt):
                states[prompt] = "promoted"
            case PromptWithdrawn(prompt=prompt):
                states[prompt] = "withdrawn"
            case _:
                pass
    return states


__all__ = ["RULES", "Rule", "check_history", "check_store"]
