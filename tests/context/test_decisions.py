"""What is told, when, and in which order."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from perdure.context import (
    ABSENT,
    UNAVAILABLE,
    Diagnostic,
    Generation,
    Replaced,
    ReplacementBlocked,
    Snapshot,
    Source,
    SourceSnapshot,
    Unchanged,
    Updated,
    changed_entries,
)
from tests.context.context_facts import context, fact, lasting, raising

pytestmark = pytest.mark.anyio

A, B, C = "a/a", "b/b", "c/c"


def entry(value: Any, key: str = "") -> SourceSnapshot:
    return SourceSnapshot(value, f"{key} no longer applies." if key else None)


async def told(*sources: Source[Any]) -> Snapshot:
    return (await context(*sources).initialize()).snapshot


def nothing(*_: Any) -> Any:
    return "  \n\t"


def none(*_: Any) -> Any:
    return None


def number(*_: Any) -> Any:
    return 3


def surrogate(*_: Any) -> Any:
    return "\ud800"


# initialize


async def test_a_baseline_is_every_rendering_in_order_with_one_blank_line_between() -> None:
    generation = await context(fact(C, "3"), lasting(A, 1, int), fact(B, None, None)).initialize()
    assert generation == Generation(
        baseline="c/c is '3'.\n\na/a is 1.\n\nb/b is None.",
        snapshot={C: entry("3", C), A: entry(1), B: entry(None, B)},
    )


async def test_what_is_absent_or_unavailable_is_left_out_of_the_first_baseline() -> None:
    generation = await context(fact(A, ABSENT), fact(B, UNAVAILABLE), fact(C, "v")).initialize()
    assert generation == Generation("c/c is 'v'.", {C: entry("v", C)})


async def test_newlines_around_a_rendering_are_cut_and_those_inside_kept() -> None:
    text = "\r\n\n  one\n\n\ntwo  \n"
    ragged = fact(A, "v", baseline=lambda _: text, removed=lambda _: "\ngone\n")
    generation = await context(ragged, fact(B, "v")).initialize()
    assert generation.baseline == "  one\n\n\ntwo  \n\nb/b is 'v'."
    assert generation.snapshot[A].removed == "gone"


@pytest.mark.parametrize("stage", ["baseline", "removed"])
@pytest.mark.parametrize("bad", [raising, nothing, none, number, surrogate])
async def test_a_source_whose_renderer_fails_is_left_out_with_a_diagnostic(
    stage: str, bad: Any, caplog: pytest.LogCaptureFixture
) -> None:
    observation = await context(fact(A, "secret", **{stage: bad}), fact(B, "v")).observe()
    assert observation.diagnostics == []
    with caplog.at_level(logging.WARNING, logger="perdure.context"):
        assert observation.initialize() == Generation("b/b is 'v'.", {B: entry("v", B)})
        assert observation.initialize().snapshot.keys() == {B}
    [diagnostic] = observation.diagnostics
    assert (diagnostic.key, diagnostic.stage) == (A, stage)
    assert "\n" not in diagnostic.message
    [record] = caplog.records
    assert A in record.getMessage()
    assert "secret" not in record.getMessage()


# reconcile: unchanged, updated


async def test_equal_values_render_nothing_and_change_nothing() -> None:
    snapshot = await told(fact(A, "v"), lasting(B, 1, int))
    same = context(
        fact(A, "v", update=raising, baseline=raising, removed=raising),
        lasting(B, 1, int, update=raising, baseline=raising),
    )
    observation = await same.observe()
    assert observation.reconcile(snapshot) == Unchanged()
    assert observation.diagnostics == []


async def test_a_changed_source_is_told_by_its_update_renderer() -> None:
    snapshot = await told(fact(A, "old"), fact(B, "v"))
    result = await context(fact(A, "new"), fact(B, "v")).reconcile(snapshot)
    assert result == Updated("a/a is now 'new'.", {A: entry("new", A), B: entry("v", B)})


async def test_the_update_renderer_gets_the_previous_and_the_current_value() -> None:
    snapshot = await told(fact(A, 2, int))
    change = fact(A, 5, int, update=lambda previous, current: f"{current - previous} more")
    result = await context(change).reconcile(snapshot)
    assert isinstance(result, Updated)
    assert result.text == "3 more"


async def test_the_entry_of_an_equal_value_is_left_as_it_is() -> None:
    snapshot = await told(fact(A, "v"), fact(B, "old"))
    renamed = fact(A, "v", removed=lambda _: "another text")
    result = await context(renamed, fact(B, "new")).reconcile(snapshot)
    assert isinstance(result, Updated)
    assert result.snapshot[A] is snapshot[A]


async def test_a_new_source_is_told_by_its_baseline_once() -> None:
    snapshot = await told(fact(A, "v"))
    more = context(fact(B, "new"), fact(A, "v"))
    result = await more.reconcile(snapshot)
    assert result == Updated("b/b is 'new'.", {A: entry("v", A), B: entry("new", B)})
    assert isinstance(result, Updated)
    assert await more.reconcile(result.snapshot) == Unchanged()


async def test_a_source_that_was_unavailable_at_first_is_told_when_it_loads() -> None:
    snapshot = await told(fact(A, UNAVAILABLE))
    assert snapshot == {}
    assert await context(fact(A, UNAVAILABLE)).reconcile(snapshot) == Unchanged()
    result = await context(fact(A, "v")).reconcile(snapshot)
    assert result == Updated("a/a is 'v'.", {A: entry("v", A)})


async def test_an_absent_source_that_was_never_told_is_nothing() -> None:
    assert await context(fact(A, ABSENT), lasting(B, ABSENT)).reconcile({}) == Unchanged()


async def test_changes_come_in_composition_order_and_then_removals_in_key_order() -> None:
    snapshot = await told(*(fact(f"k/{name}", name) for name in "zydcba"))
    result = await context(
        fact("k/new", "n"),
        fact("k/d", ABSENT),
        fact("k/z", "Z"),
        fact("k/y", "y"),
        fact("k/a", "A"),
    ).reconcile(snapshot)
    assert isinstance(result, Updated)
    assert result.text.split("\n\n") == [
        "k/new is 'n'.",
        "k/z is now 'Z'.",
        "k/a is now 'A'.",
        "k/b no longer applies.",
        "k/c no longer applies.",
        "k/d no longer applies.",
    ]
    assert result.snapshot == {
        "k/z": entry("Z", "k/z"),
        "k/y": snapshot["k/y"],
        "k/a": entry("A", "k/a"),
        "k/new": entry("n", "k/new"),
    }


async def test_a_removal_is_told_by_the_text_rendered_when_its_entry_was_written() -> None:
    snapshot = await told(fact(A, "old", removed=lambda value: f"The {value} rule ended."))
    result = await context(fact(A, ABSENT, removed=raising)).reconcile(snapshot)
    assert result == Updated("The old rule ended.", {})
    assert await context().reconcile(snapshot) == result


async def test_a_removed_source_that_comes_back_is_new_again() -> None:
    snapshot = await told(fact(A, "v"))
    gone = await context(fact(A, ABSENT)).reconcile(snapshot)
    assert isinstance(gone, Updated)
    back = await context(fact(A, "v")).reconcile(gone.snapshot)
    assert back == Updated("a/a is 'v'.", snapshot)


async def test_a_change_renders_the_removal_text_anew() -> None:
    def removed(value: str) -> str:
        return f"{value} is over"

    snapshot = await told(fact(A, "1", removed=removed))
    result = await context(fact(A, "2", removed=removed)).reconcile(snapshot)
    assert result == Updated("a/a is now '2'.", {A: SourceSnapshot("2", "2 is over")})


async def test_an_unavailable_source_keeps_its_entry_and_nothing_is_said() -> None:
    snapshot = await told(fact(A, "v"), lasting(B, "w"))
    hidden = context(fact(A, UNAVAILABLE), lasting(B, raising))
    assert await hidden.reconcile(snapshot) == Unchanged()
    partly = await context(fact(A, UNAVAILABLE), lasting(B, "new")).reconcile(snapshot)
    assert partly == Updated("b/b is now 'new'.", {A: snapshot[A], B: entry("new")})


@pytest.mark.parametrize("stage", ["update", "removed"])
@pytest.mark.parametrize("bad", [raising, nothing, none])
async def test_a_changed_source_whose_renderer_fails_keeps_its_entry(stage: str, bad: Any) -> None:
    snapshot = await told(fact(A, "old"), fact(B, "old"))
    observation = await context(fact(A, "new", **{stage: bad}), fact(B, "new")).observe()
    result = observation.reconcile(snapshot)
    assert result == Updated("b/b is now 'new'.", {A: snapshot[A], B: entry("new", B)})
    assert [(each.key, each.stage) for each in observation.diagnostics] == [(A, stage)]


async def test_a_failure_is_noted_and_logged_once_per_observation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    snapshot = await told(fact(A, "old"))
    observation = await context(fact(A, "new", update=raising)).observe()
    with caplog.at_level(logging.WARNING, logger="perdure.context"):
        assert [observation.reconcile(snapshot) for _ in range(2)] == [Unchanged()] * 2
    assert [each.stage for each in observation.diagnostics] == ["update"]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("empty", [{}, MappingProxyType[str, SourceSnapshot]({})])
async def test_any_mapping_is_taken_as_a_snapshot_and_none_is_altered(
    empty: Mapping[str, SourceSnapshot],
) -> None:
    result = await context(fact(A, "v")).reconcile(empty)
    assert isinstance(result, Updated)
    assert isinstance(result.snapshot, dict)
    again = await context(fact(A, "w")).reconcile(MappingProxyType(dict(result.snapshot)))
    assert isinstance(again, Updated)
    assert empty == {}
    assert result.snapshot == {A: entry("v", A)}


# reconcile: replaced, blocked


async def test_a_stored_value_that_no_longer_decodes_starts_a_new_baseline() -> None:
    snapshot = await told(fact(A, "text"), fact(B, "v"))
    result = await context(fact(B, "v"), fact(A, 7, int), fact(C, UNAVAILABLE)).reconcile(snapshot)
    assert result == Replaced(
        Generation("b/b is 'v'.\n\na/a is 7.", {B: entry("v", B), A: entry(7, A)})
    )


@pytest.mark.parametrize("now", [(), (lasting(A, ABSENT),)])
async def test_a_told_source_that_is_gone_without_removal_text_starts_a_new_baseline(
    now: tuple[Source[Any], ...],
) -> None:
    snapshot = await told(lasting(A, "v"), fact(B, "v"))
    result = await context(*now, fact(B, "new")).reconcile(snapshot)
    assert result == Replaced(Generation("b/b is 'new'.", {B: entry("new", B)}))


async def test_an_absent_source_with_removal_text_needs_no_decoding_to_be_removed() -> None:
    snapshot = await told(fact(A, "text"))
    result = await context(fact(A, ABSENT, int)).reconcile(snapshot)
    assert result == Updated("a/a no longer applies.", {})


async def test_a_replacement_runs_no_update_renderer_and_no_loader_again() -> None:
    calls: list[str] = []

    def load() -> str:
        calls.append("load")
        return "new"

    def update(previous: str, current: str) -> str:
        calls.append("update")
        return f"{previous} to {current}"

    snapshot = await told(fact(A, "old"), lasting(B, "v"))
    changed = fact(A, load, update=update)
    result = await context(changed).reconcile(snapshot)
    assert isinstance(result, Replaced)
    assert calls == ["load"]


async def test_a_due_replacement_is_blocked_while_a_told_source_is_unavailable() -> None:
    snapshot = await told(lasting(A, "v"), fact(C, "v"), fact(B, "v"))
    hidden = context(fact(C, UNAVAILABLE), fact(B, raising))
    assert await hidden.reconcile(snapshot) == ReplacementBlocked((B, C))


async def test_whatever_else_changed_is_told_while_a_replacement_is_blocked() -> None:
    snapshot = await told(
        lasting(A, "gone without a word"),
        fact(B, "hidden"),
        fact("d/d", "gone"),
        fact("e/e", "old"),
    )
    result = await context(
        fact("f/f", "new"), fact("e/e", "changed"), fact(B, UNAVAILABLE), fact(C, ABSENT)
    ).reconcile(snapshot)
    assert result == ReplacementBlocked(
        keys=(B,),
        update=Updated(
            "f/f is 'new'.\n\ne/e is now 'changed'.\n\nd/d no longer applies.",
            {
                A: snapshot[A],
                B: snapshot[B],
                "e/e": entry("changed", "e/e"),
                "f/f": entry("new", "f/f"),
            },
        ),
    )
    assert isinstance(result, ReplacementBlocked)
    assert result.update
    back = context(fact("f/f", "new"), fact("e/e", "changed"), fact(B, "back"))
    after = await back.reconcile(result.update.snapshot)
    assert isinstance(after, Replaced)
    assert after.generation.snapshot.keys() == {"f/f", "e/e", B}


async def test_a_source_whose_stored_value_no_longer_decodes_is_not_told_while_blocked() -> None:
    snapshot = await told(fact(A, "text"), fact(B, "v"))
    result = await context(fact(A, 7, int), fact(B, UNAVAILABLE)).reconcile(snapshot)
    assert result == ReplacementBlocked((B,))


async def test_an_unavailable_source_whose_stored_value_no_longer_decodes_blocks() -> None:
    snapshot = await told(fact(A, "text"))
    result = await context(fact(A, UNAVAILABLE, int), fact(B, "new")).reconcile(snapshot)
    assert result == ReplacementBlocked(
        (A,), Updated("b/b is 'new'.", {A: snapshot[A], B: entry("new", B)})
    )


@pytest.mark.parametrize("stage", ["baseline", "removed"])
async def test_a_told_source_whose_renderer_fails_blocks_a_replacement(stage: str) -> None:
    snapshot = await told(lasting(A, "v"), fact(B, "old"))
    observation = await context(fact(B, "new", **{stage: raising}), fact(C, "v")).observe()
    assert observation.reconcile(snapshot) == ReplacementBlocked(
        (B,), Updated("c/c is 'v'.", {**snapshot, C: entry("v", C)})
    )
    assert [(each.key, each.stage) for each in observation.diagnostics] == [(B, stage)]


async def test_a_source_never_told_whose_renderer_fails_does_not_block() -> None:
    snapshot = await told(lasting(A, "v"))
    result = await context(fact(B, "v", baseline=raising)).reconcile(snapshot)
    assert result == Replaced(Generation("", {}))


# replace


async def test_an_explicit_replacement_makes_a_new_baseline_of_what_holds_now() -> None:
    snapshot = await told(fact(A, "old"), fact(B, "v"), lasting(C, "v"))
    result = await context(fact("n/n", "n"), fact(A, "new"), fact(B, ABSENT)).replace(snapshot)
    assert result == Replaced(
        Generation(
            baseline="n/n is 'n'.\n\na/a is 'new'.",
            snapshot={"n/n": entry("n", "n/n"), A: entry("new", A)},
        )
    )


async def test_sources_never_told_and_unavailable_do_not_block_a_replacement() -> None:
    result = await context(fact(A, UNAVAILABLE), fact(B, "v")).replace(await told(fact(B, "v")))
    assert result == Replaced(Generation("b/b is 'v'.", {B: entry("v", B)}))


async def test_an_explicit_replacement_is_blocked_as_a_derived_one_is() -> None:
    snapshot = await told(fact(C, "old"), fact(B, "v"), fact(A, "v"))
    hidden = (fact(B, UNAVAILABLE), fact(A, UNAVAILABLE))
    result = await context(fact(C, "new"), *hidden).replace(snapshot)
    assert result == ReplacementBlocked(
        (A, B), Updated("c/c is now 'new'.", {**snapshot, C: entry("new", C)})
    )
    assert await context(fact(C, "old"), *hidden).replace(snapshot) == ReplacementBlocked((A, B))


async def test_a_replacement_needs_no_stored_value_to_decode() -> None:
    result = await context(fact(A, 7, int)).replace({A: SourceSnapshot("text")})
    assert result == Replaced(Generation("a/a is 7.", {A: entry(7, A)}))


async def test_one_observation_gives_several_decisions_and_renders_each_baseline_once() -> None:
    rendered: list[str] = []
    source = fact(A, "v", baseline=lambda value: rendered.append(value) or "text")
    observation = await context(source).observe()
    first, second = observation.initialize(), observation.replace({})
    assert (second, observation.reconcile({})) == (Replaced(first), Updated("text", first.snapshot))
    assert observation.keys == (A,)
    assert rendered == ["v"]


# the entries that changed


def test_changed_entries_are_those_to_write_and_those_to_delete() -> None:
    old = {A: entry("v"), B: entry(True), C: entry({"x": 1, "y": 2})}
    new = {A: entry("v", A), B: entry(1), C: entry({"y": 2, "x": 1}), "d/d": entry(None)}
    assert changed_entries(old, new) == {A: entry("v", A), B: entry(1), "d/d": entry(None)}
    assert type(changed_entries(old, new)[B].value) is int  # pyright: ignore[reportOptionalMemberAccess]
    assert changed_entries(new, {A: entry("v", A)}) == {B: None, C: None, "d/d": None}
    assert changed_entries(new, dict(new)) == {}


def test_results_are_frozen_and_compared_by_content() -> None:
    assert Unchanged() == Unchanged()
    assert Updated("t", {A: entry("v")}) == Updated("t", {A: entry("v")})
    assert Updated("t", {}) != Updated("u", {})
    assert ReplacementBlocked((A,)) == ReplacementBlocked((A,), None)
    results = (
        Unchanged(),
        Updated("t", {}),
        Replaced(Generation("", {})),
        Diagnostic(A, "load", ""),
    )
    for result in results:
        with pytest.raises(AttributeError):
            result.text = "other"  # pyright: ignore[reportAttributeAccessIssue]
