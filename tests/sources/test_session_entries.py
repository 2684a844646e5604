"""Session entries: JSON facts that a program sets, each a source of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.context import SystemContext, Unchanged, Updated
from perdure.errors import UsageError
from perdure.sources import check_entry, entries

pytestmark = pytest.mark.anyio

json_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def context(values: dict[str, Any]) -> SystemContext:
    return SystemContext.combine(*map(SystemContext.make, entries(values)))


async def test_each_entry_is_a_source_in_the_order_of_names() -> None:
    generation = await context({"todo": ["a"], "branch": "main"}).initialize()
    assert list(generation.snapshot) == ["entry/branch", "entry/todo"]
    assert generation.baseline == (
        '# Entry branch\n\nIts value, as JSON: "main"\n\n# Entry todo\n\nIts value, as JSON: ["a"]'
    )


async def test_null_is_a_value() -> None:
    generation = await context({"owner": None}).initialize()
    assert generation.baseline == "# Entry owner\n\nIts value, as JSON: null"


async def test_a_changed_entry_tells_only_its_new_value() -> None:
    first = await context({"branch": "main"}).initialize()
    result = await context({"branch": "next"}).reconcile(first.snapshot)
    assert isinstance(result, Updated)
    assert result.text == '# Entry branch\n\nIts value is now, as JSON: "next"'


async def test_a_removed_entry_no_longer_applies() -> None:
    first = await context({"branch": "main", "owner": 1}).initialize()
    result = await context({"owner": 1}).reconcile(first.snapshot)
    assert isinstance(result, Updated)
    assert result.text == "# Entry branch\n\nThis entry is gone; its value no longer applies."


async def test_the_order_of_members_does_not_matter() -> None:
    first = await context({"e": {"a": 1, "b": 2}}).initialize()
    assert await context({"e": {"b": 2, "a": 1}}).reconcile(first.snapshot) == Unchanged()


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201, "\udcff"])
def test_a_name_that_is_no_printable_word_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="printable characters") as caught:
        check_entry(name, 1)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1: 2}, "\udcff", {1}])
def test_a_value_that_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="entry e: the value must be JSON data"):
        check_entry("e", value)


def test_the_limit_is_8_kib_of_json() -> None:
    assert check_entry("e", "x" * 8190) == "x" * 8190
    with pytest.raises(UsageError, match="entry e: the value is 8193 bytes"):
        check_entry("e", "x" * 8191)


@given(json_data)
def test_a_checked_value_is_the_same_json(value: object) -> None:
    assert json.dumps(check_entry("e", value), sort_keys=True) == json.dumps(value, sort_keys=True)
