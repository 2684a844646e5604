"""How Context Sources are named and composed."""

from __future__ import annotations

from typing import cast

import pytest

from perdure.context import (
    ABSENT,
    UNAVAILABLE,
    Absent,
    Source,
    SystemContext,
    Unavailable,
    Unchanged,
)
from perdure.errors import ContextError, DuplicateKey, InvalidKey
from tests.context.context_facts import context, fact

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "key",
    [
        "a/b",
        "0/x",
        "a.b_c-d/Name",
        "instructions//srv/app/AGENTS.md",
        "n/ä ö",
        "n/🙂",
        "a/ ",
        "a//",
    ],
)
def test_a_key_is_a_lower_case_namespace_a_slash_and_any_printable_name(key: str) -> None:
    assert context(fact(key, "v")).keys == (key,)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "a",
        "a/",
        "/b",
        "A/b",
        "ä/b",
        "a b/c",
        "-a/b",
        ".a/b",
        "a/b\n",
        "a/\t",
        "a/\x00",
        "a/\ud800",
    ],
)
def test_any_other_key_is_refused_by_name(key: str) -> None:
    with pytest.raises(InvalidKey) as refused:
        fact(key, "v")
    assert repr(key) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidKey, match="b'a/b'"):
        fact(cast("str", b"a/b"), "v")


def test_keys_are_compared_exactly() -> None:
    assert context(fact("a/b", "v"), fact("a/B", "v"), fact("a/b ", "v")).keys == (
        "a/b",
        "a/B",
        "a/b ",
    )


def test_combining_keeps_the_callers_order() -> None:
    parts = [SystemContext.make(fact(key, "v")) for key in ("z/z", "a/a", "m/m")]
    nested = SystemContext.combine(SystemContext.combine(parts[0], parts[1]), parts[2])
    assert nested.keys == ("z/z", "a/a", "m/m")
    assert SystemContext.combine(*reversed(parts)).keys == ("m/m", "a/a", "z/z")


def test_a_duplicate_key_fails_at_composition_and_is_named() -> None:
    one, other = context(fact("a/b", "v")), context(fact("c/d", "v"), fact("a/b", "w"))
    with pytest.raises(DuplicateKey, match="'a/b'"):
        SystemContext.combine(one, other)


def test_the_same_context_twice_is_a_duplicate_too() -> None:
    one = context(fact("a/b", "v"))
    with pytest.raises(DuplicateKey):
        SystemContext.combine(one, one)


async def test_nothing_composed_says_nothing() -> None:
    empty = SystemContext.combine()
    generation = await empty.initialize()
    assert (empty.keys, generation.baseline, generation.snapshot) == ((), "", {})
    assert not generation.snapshot
    assert await empty.reconcile({}) == Unchanged()


async def test_sources_of_different_types_compose() -> None:
    number = Source(
        key="a/number",
        type=int,
        load=lambda: 41,
        baseline=lambda value: f"One more than {value} is {value + 1}.",
        update=lambda previous, current: f"{current - previous:+}",
    )

    async def names() -> list[str] | Unavailable | Absent:
        return ["x", "y"]

    listed = Source(
        key="a/names",
        type=list[str],
        load=names,
        baseline=", ".join,
        update=lambda _, current: ", ".join(current),
    )
    together = SystemContext.combine(SystemContext.make(number), SystemContext.make(listed))
    assert (await together.initialize()).baseline == "One more than 41 is 42.\n\nx, y"


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_is_a_positive_number_of_seconds(timeout: float) -> None:
    with pytest.raises(ContextError, match="a/b"):
        fact("a/b", "v", timeout=timeout)


def test_a_type_that_nothing_can_encode_is_refused_when_the_source_is_declared() -> None:
    class Opaque:
        pass

    with pytest.raises(ContextError, match=r"context source a/b: .*Opaque"):
        fact("a/b", "v", list[Opaque])


def test_only_a_sync_loader_can_be_inline() -> None:
    async def load() -> str:
        return "v"

    with pytest.raises(ContextError, match="a/b"):
        fact("a/b", load, inline=True)


def test_sentinels_and_contexts_show_what_they_are() -> None:
    assert (repr(UNAVAILABLE), repr(ABSENT)) == ("UNAVAILABLE", "ABSENT")
    assert isinstance(UNAVAILABLE, Unavailable)
    assert isinstance(ABSENT, Absent)
    assert repr(context(fact("a/b", "secret"))) == "SystemContext('a/b')"
    assert repr(fact("a/b", "secret")) == "Source('a/b')"


async def test_a_source_whose_provider_is_lost_keeps_what_was_told() -> None:
    told = await context(fact("a/b", "v")).initialize()
    lost = context(Source.unavailable("a/b"), Source.unavailable("c/d"))
    assert await lost.reconcile(told.snapshot) == Unchanged()
    assert (await lost.observe()).diagnostics == []
