"""How values are encoded, checked and compared."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.context import (
    UNAVAILABLE,
    Replaced,
    ReplacementBlocked,
    SourceSnapshot,
    Unchanged,
    Updated,
)
from tests.context.context_facts import context, fact

pytestmark = pytest.mark.anyio


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: float = 0.0


class Identity(msgspec.Struct, eq=False):
    inner: Any


class Tree(msgspec.Struct):
    name: str
    children: list[Tree] = []


@dataclasses.dataclass
class Pair:
    left: int
    right: Any


class Named(NamedTuple):
    name: str
    size: int


class Shape(TypedDict):
    sides: int


class Model(pydantic.BaseModel, extra="forbid"):
    count: int = pydantic.Field(default=0, alias="Count")
    tags: set[str] = set()
    inner: Any = None

    @pydantic.computed_field
    @property
    def twice(self) -> int:
        return 2 * self.count


class Other(pydantic.BaseModel):
    name: str


class Holder(msgspec.Struct):
    model: Model
    at: Path


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=8,
)


async def compare(old: Any, new: Any, kind: Any) -> object:
    """Tell `old`, observe `new`, and return what follows."""
    told = (await context(fact("a/b", old, kind)).initialize()).snapshot
    assert "a/b" in told
    return await context(fact("a/b", new, kind)).reconcile(through_a_store(told))


def through_a_store(snapshot: Any) -> dict[str, SourceSnapshot]:
    return msgspec.json.decode(msgspec.json.encode(snapshot), type=dict[str, SourceSnapshot])


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (str, "ä\n🙂", "b"),
        (int, 2**80, 1),
        (int | None, None, 0),
        (bytes, b"\xff\x00", b""),
        (Decimal, Decimal("1.5"), Decimal(2)),
        (datetime, datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)),
        (date, date(2026, 1, 2), date(2026, 1, 3)),
        (timedelta, timedelta(1), timedelta(2)),
        (Colour | None, Colour.RED, None),
        (Literal["a", "b"], "a", "b"),
        (list[int], [1, 2], [2, 1]),
        (tuple[int, ...], (1,), ()),
        (dict[int, str], {1: "x"}, {2: "x"}),
        (frozenset[str], frozenset({"a"}), frozenset({"b"})),
        (Point, Point(1), Point(2)),
        (Identity, Identity([1]), Identity([2])),
        (Tree, Tree("a", [Tree("b")]), Tree("a", [Tree("c")])),
        (Pair, Pair(1, [2]), Pair(1, [3])),
        (Named, Named("n", 1), Named("n", 2)),
        (Shape, {"sides": 3}, {"sides": 4}),
        (Model, Model(Count=1, tags={"a", "b"}), Model(Count=2, tags={"a", "b"})),
        (list[Model], [Model(Count=1)], []),
        (Holder, Holder(Model(Count=1), Path("/a")), Holder(Model(Count=1), Path("/b"))),
        (Model | Other, Model(Count=1), Other(name="n")),
        (Annotated[Model | Other, "note"], Other(name="n"), Other(name="m")),
        (pydantic.TypeAdapter(dict[str, Model]), {"a": Model(Count=1)}, {}),
        (IPv4Address, IPv4Address("127.0.0.1"), IPv4Address("127.0.0.2")),
    ],
)
async def test_every_type_is_stored_and_compared(kind: Any, old: Any, new: Any) -> None:
    assert await compare(old, old, kind) == Unchanged()
    assert isinstance(await compare(old, new, kind), Updated)


async def test_renderers_get_values_of_the_declared_type() -> None:
    seen: list[Any] = []

    def update(previous: Holder, current: Holder) -> str:
        seen.extend((previous, current))
        return f"{previous.model.count + 1} {current.at.name}"

    old, new = Holder(Model(Count=1), Path("/a")), Holder(Model(Count=2), Path("/b"))
    told = (await context(fact("a/b", old, Holder)).initialize()).snapshot
    result = await context(fact("a/b", new, Holder, update=update)).reconcile(through_a_store(told))
    assert isinstance(result, Updated)
    assert result.text == "2 b"
    assert seen == [old, new]
    assert seen[1] is not new


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (Any, True, 1),
        (Any, 0, False),
        (dict[str, Any], {"a": [{"b": True}]}, {"a": [{"b": 1}]}),
        (set[Any], {True, "x"}, {1, "x"}),
        (Point | Any, [1, True], [1, 1]),
        (Pair, Pair(1, False), Pair(1, 0)),
        (Identity, Identity(True), Identity(1)),
        (Model, Model(inner=[True]), Model(inner=[1])),
        (bool | int, True, 1),
    ],
)
async def test_true_and_1_differ_wherever_they_are(kind: Any, old: Any, new: Any) -> None:
    assert isinstance(await compare(old, new, kind), Updated)


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (float, 1, 1.0),
        (float, 1.0, 1),
        (Decimal, Decimal("1.0"), Decimal("1.00")),
        (
            datetime,
            datetime(2026, 1, 2, 12, tzinfo=UTC),
            datetime(2026, 1, 2, 13, tzinfo=timezone(timedelta(hours=1))),
        ),
        (dict[str, Any], {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}),
        (list[int], (1, 2), [1, 2]),
    ],
)
async def test_equal_values_are_equal_however_they_were_written(
    kind: Any, old: Any, new: Any
) -> None:
    assert await compare(old, new, kind) == Unchanged()


@pytest.mark.parametrize("kind", [set[str], frozenset[str], set[str | int | None]])
async def test_the_order_in_which_a_set_was_stored_does_not_count(kind: Any) -> None:
    stored = {"a/b": SourceSnapshot(["c", "a", "b"])}
    assert await context(fact("a/b", {"a", "b", "c"}, kind)).reconcile(stored) == Unchanged()


async def test_a_field_added_with_a_default_changes_nothing() -> None:
    stored = {"a/b": SourceSnapshot({"x": 1})}
    assert await context(fact("a/b", Point(1), Point)).reconcile(stored) == Unchanged()
    assert isinstance(await context(fact("a/b", Point(1, 2.0), Point)).reconcile(stored), Updated)


@given(JSON, JSON)
async def test_any_json_value_differs_exactly_when_its_canonical_text_does(
    old: Any, new: Any
) -> None:
    equal = json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)
    assert isinstance(await compare(old, new, Any), Unchanged if equal else Updated)
    assert await compare(old, json.loads(json.dumps(old)), Any) == Unchanged()


@given(st.sampled_from([math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("Infinity")]), JSON)
async def test_nan_and_infinities_are_refused_anywhere_inside(bad: Any, beside: Any) -> None:
    holders: list[tuple[Any, Any]] = [
        (Any, bad),
        (Any, {"a": [beside, (bad,)]}),
        (Identity, Identity({"k": bad})),
        (Pair, Pair(1, [bad])),
        (Model, Model(inner={"k": [bad]})),
        (list[Model], [Model(inner=bad)]),
        (pydantic.TypeAdapter(list[Any]), [bad]),
    ]
    for kind, value in holders:
        observation = await context(fact("a/b", value, kind)).observe()
        assert observation.values == {"a/b": UNAVAILABLE}
        [diagnostic] = observation.diagnostics
        assert (diagnostic.stage, "NaN or an infinity" in diagnostic.message) == ("encode", True)


async def test_a_number_typed_field_refuses_nan_too() -> None:
    for kind, value in [(float, math.nan), (float | None, math.nan), (Point, Point(1, math.inf))]:
        observation = await context(fact("a/b", value, kind)).observe()
        assert observation.values == {"a/b": UNAVAILABLE}


_CYCLE: list[Any] = []
_CYCLE.append(_CYCLE)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, "7"),
        (int, True),
        (int, 1.5),
        (str, b"bytes"),
        (str, Path("/x")),
        (str, datetime(2026, 1, 1, tzinfo=UTC)),
        (str, None),
        (str, "\ud800"),
        (dict[str, int], {"\ud800": 1}),
        (Path, Path("/\udcff")),
        (Point, Point("1")),  # pyright: ignore[reportArgumentType]
        (Point, {"y": 1.0}),
        (Model, {"count": 1}),
        (Model, Model.model_construct(count="1")),
        (list[Model], [Other(name="n")]),
        (Model | Other, Point(1)),
        (pydantic.TypeAdapter(int), "7"),
        (Literal["a"], "b"),
        (Any, object()),
        (Any, _CYCLE),
        (Any, [UNAVAILABLE]),
        (list[int], iter([1])),
    ],
)
async def test_a_value_that_does_not_fit_the_type_is_unavailable(kind: Any, value: Any) -> None:
    observation = await context(fact("a/b", value, kind)).observe()
    assert observation.values == {"a/b": UNAVAILABLE}
    [diagnostic] = observation.diagnostics
    assert (diagnostic.key, diagnostic.stage) == ("a/b", "encode")
    assert f"of class {type(value).__name__}" in diagnostic.message


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (int, "7"),
        (int, None),
        (Point, {"y": 1.0}),
        (Model, {"count": "many"}),
        (list[Model], [{"tags": 3}]),
        (str, "\ud800"),
    ],
)
async def test_a_stored_value_of_another_type_no_longer_decodes(kind: Any, stored: Any) -> None:
    now = {int: 1, Point: Point(1), Model: Model(), str: "s"}.get(kind, [])
    snapshot = {"a/b": SourceSnapshot(stored, "gone")}
    assert isinstance(await context(fact("a/b", now, kind)).reconcile(snapshot), Replaced)
    hidden = context(fact("a/b", UNAVAILABLE, kind))
    assert await hidden.reconcile(snapshot) == ReplacementBlocked(("a/b",))


async def test_a_value_that_cannot_be_compared_counts_as_unavailable() -> None:
    class Raising:
        def __eq__(self, _: object) -> bool:
            raise ValueError("no truth in this")

        __hash__ = None  # pyright: ignore[reportAssignmentType]

    kind = Annotated[
        Any,
        pydantic.PlainSerializer(lambda _: 1),
        pydantic.PlainValidator(lambda _: Raising()),
    ]
    adapter = pydantic.TypeAdapter[Any](kind)
    observation = await context(fact("a/b", 1, adapter)).observe()
    snapshot = {"a/b": SourceSnapshot(2, "gone")}
    assert observation.reconcile(snapshot) == Unchanged()
    assert [each.stage for each in observation.diagnostics] == ["encode"]


def test_pydantic_is_imported_only_for_a_type_that_needs_it() -> None:
    program = (
        "import sys, pathlib, perdure.context as c\n"
        "def declare(kind):\n"
        "    c.Source(key='a/b', type=kind, load=str, baseline=str, update=max)\n"
        "    return 'pydantic' in sys.modules\n"
        "print(*map(declare, (str, dict[str, list[int]], c.SourceSnapshot, list[pathlib.Path])))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.split() == ["False", "False", "False", "True"]
