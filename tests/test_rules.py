"""docs/rules.md is whole: every rule has a test that exists, and none of them has been left out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "rules.md"

# What Perdure is to hold to was numbered once, 25 rules on what the model is told and 21 on how
# work is done, with the built-in sources beside them. Each is in the document in one or more parts.
TOLD = {
    1: "keys one-key-one-source",
    2: "three-results load-once late-loaders broken-sources",
    3: "removal-text",
    4: "compare-values",
    5: "initialize",
    6: "unchanged",
    7: "newly-effective one-message",
    8: "replacement",
    9: "blocked",
    10: "unavailable-is-silent knows-what-holds",
    11: "explicit-replacement",
    12: "same-bytes",
    13: "first-epoch",
    14: "switch-ends-epoch move-ends-epoch tools-end-epoch image-input-ends-epoch",
    15: "all-that-is-due waits-and-is-done-once",
    16: "folded-in told-stays-told",
    17: "snapshot-with-message any-earlier-point missed-nothing",
    18: "messages-are-durable attempts-observe-once",
    19: "order-at-boundary nothing-to-do",
    20: "idle-loads-nothing looking-is-free",
    21: "where-files-are path-and-scope",
    22: "found-on-the-way found-stays",
    23: "whole-contents odd-contents refused-files unreadable-is-no-removal bounded-files",
    24: "scopes no-gap failure-is-no-removal plugin-order",
    25: "new-source",
}
SOURCES = "convention opening environment date skills entries"
WORK = {
    1: "durable-prompts same-id images",
    2: "delivery withdrawal redelivery",
    3: "failed-boundary",
    4: "durable-before-effect side-by-side tasks result-at-once",
    5: "one-settlement unknown-outcome never-started",
    6: "errors-to-act-on declined",
    7: "bounded-output",
    8: "switch-at-next-step held-tools",
    9: "same-request-again partial-answers",
    10: "bounded-retries no-retry",
    11: "overflow step-limit",
    12: "before-promotion summary-is-no-step failed-summary baseline-too-large titles",
    13: "recent-tail",
    14: "sealed-reasoning reasoning-elsewhere",
    15: "one-drain fencing lease-renewal",
    16: "recovery recovered-tasks crash-loop",
    17: "interrupt interrupted-tasks tasks-left interrupt-elsewhere wakes waiting",
    18: "no-gap-in-seq log-is-the-truth no-fragments",
    19: "read-once live-fragments slow-readers",
    20: "fork revert",
    21: "export refused-imports",
}
MISSING = "more-stores"

_ITEM = re.compile(r"^\* \*\*([\w-]+)\*\*: (.*(?:\n  .*)*)", re.M)
# What every store must do is tested by the suite that others can run too.
_TEST = re.compile(r"`((?:tests|src/perdure/testing/conformance)/[^`]*\.py)::(\w+)`")


def items(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the words of each item."""
    for found in _ITEM.finditer(text):
        yield found[1], found[2]


BUILT, _, NOT_BUILT = DOCUMENT.read_text("utf-8").partition("\n## Not built yet\n")
RULES = list(items(BUILT))
GAPS = list(items(NOT_BUILT))


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the tests of a file: functions, and what a state machine is assigned to."""
    if not path.is_file():
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(each.id for each in node.targets if isinstance(each, ast.Name))
    return frozenset(name for name in names if re.match(r"test_|Test", name))


@pytest.mark.parametrize(("name", "text"), RULES, ids=[name for name, _ in RULES])
def test_a_rule_has_tests_that_exist(name: str, text: str) -> None:
    named = _TEST.findall(text)
    assert named, f"docs/rules.md: {name} names no test"
    for path, test in named:
        assert test in names_in(ROOT / path), f"docs/rules.md: {name} names {path}::{test}"


def test_every_line_of_the_list_is_read() -> None:
    lines = re.findall(r"^\s*[*+-] ", BUILT + NOT_BUILT, re.M)
    assert len(lines) == len(RULES) + len(GAPS)


def test_every_rule_has_its_own_name() -> None:
    names = [name for name, _ in RULES + GAPS]
    assert sorted(names) == sorted(set(names))


def test_every_number_has_its_rules() -> None:
    assert sorted(TOLD) == list(range(1, 26))
    assert sorted(WORK) == list(range(1, 22))
    wanted = {name for names in [*TOLD.values(), SOURCES, *WORK.values()] for name in names.split()}
    assert {name for name, _ in RULES} == wanted - set(MISSING.split())


def test_what_is_not_built_yet_is_listed() -> None:
    assert [name for name, _ in GAPS] == MISSING.split()
