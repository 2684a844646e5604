"""What is offered of what a server lists: names, bounds, schemas."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.mcp.names import server_of, tool_name
from perdure.mcp.offer import (
    LARGEST_SCHEMA,
    LONGEST_DESCRIPTION,
    LONGEST_INSTRUCTIONS,
    MOST_TOOLS,
    Offer,
    read_offer,
)

SERVERS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,23}", fullmatch=True)


def listed(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def offer(*tools: Any, instructions: object = "") -> Offer:
    return read_offer("one", instructions, tools, None)


@given(SERVERS, st.text(min_size=1))
def test_a_name_suits_every_provider_and_says_whose_tool_it_is(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert server_of(name) == server
    assert tool_name(server, tool) == name


@given(SERVERS, st.lists(st.text(min_size=1, max_size=80), unique=True, max_size=20))
def test_two_tools_of_a_server_have_two_names(server: str, tools: list[str]) -> None:
    assert len({tool_name(server, tool) for tool in tools}) == len(tools)


def test_a_plain_name_is_kept() -> None:
    assert tool_name("git-hub", "list_issues") == "mcp_git-hub_list_issues"


@pytest.mark.parametrize("name", ["read", "mcp_", "mcp_one", "mcp__x"])
def test_other_tools_belong_to_no_server(name: str) -> None:
    assert server_of(name) is None


def test_tools_are_sorted_by_name() -> None:
    found = offer(listed("b"), listed("a.c"), listed("a"))
    names = [tool.definition.name for tool in found.tools]
    assert names == sorted(names)


def test_too_many_tools_are_cut_with_a_problem() -> None:
    found = offer(*(listed(f"tool{number}") for number in range(MOST_TOOLS + 10)))
    assert len(found.tools) == MOST_TOOLS
    assert len(found.problems) == 1


def test_long_texts_are_cut_visibly() -> None:
    found = offer(listed("a", description="d" * 10_000), instructions="i" * 10_000)
    assert found.instructions.startswith("i" * LONGEST_INSTRUCTIONS + "\n[cut here:")
    assert found.tools[0].definition.description.startswith("d" * LONGEST_DESCRIPTION + "\n[cut")
    assert len(found.tools[0].purpose) < 150


def test_text_that_no_store_takes_is_made_storable() -> None:
    found = offer(listed("a", description="x\0\ud800y"), instructions="\0")
    assert "\0" not in found.tools[0].definition.description + found.instructions
    found.tools[0].definition.description.encode()


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (None, "no object"),
        (["type"], "no object"),
        ({"type": "array"}, "does not describe an object"),
        ({"type": "object", "oneOf": []}, "has oneOf at the top"),
        ({"type": "object", "required": "a"}, "is wrong"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, "another document"),
        ({"type": "object", "description": "x" * LARGEST_SCHEMA}, "larger than 16 KiB"),
        ({"type": "object", "default": float("nan")}, "no JSON"),
    ],
)
def test_a_schema_that_a_provider_would_refuse_drops_its_tool(schema: Any, problem: str) -> None:
    found = offer(listed("good"), listed("bad", inputSchema=schema))
    assert [tool.remote for tool in found.tools] == ["good"]
    assert problem in found.problems[0]
    assert "tool bad is left out" in found.problems[0]


def test_a_deeply_nested_schema_drops_its_tool() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(600):
        schema = {"type": "object", "properties": {"a": schema}}
    found = offer(listed("deep", inputSchema=schema))
    assert found.tools == ()
    assert len(found.problems) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON | JSON.map(lambda schema: listed("a", inputSchema=schema)), max_size=5), JSON)
def test_whatever_is_listed_gives_an_offer(items: list[Any], instructions: Any) -> None:
    assert isinstance(read_offer("one", instructions, items, None), Offer)
