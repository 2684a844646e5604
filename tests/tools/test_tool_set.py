"""The set of tools that a session offers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure.errors import UsageError
from perdure.tools import Tool, ToolContext, ToolSet, builtin_tools


class Nothing(msgspec.Struct):
    """No arguments."""


async def run(arguments: Any, context: ToolContext) -> str:
    return "done"


def tool(name: str, arguments: type[Any] = Nothing) -> Tool[Any]:
    return Tool(name=name, description="Does it.", arguments=arguments, run=run)


def test_the_built_in_tools_have_the_names_and_parameters_that_are_documented() -> None:
    described = {
        definition.name: tuple(definition.parameters["properties"])
        for definition in builtin_tools().definitions()
    }
    assert described == {
        "edit": ("path", "old", "new", "all"),
        "apply_patch": ("patch",),
        "fetch": ("url", "timeout"),
        "task": ("description", "prompt"),
        "todo": ("items",),
        "glob": ("pattern", "path"),
        "grep": ("pattern", "path", "include"),
        "list": ("path",),
        "read": ("path", "offset", "limit"),
        "shell": ("command", "timeout"),
        "write": ("path", "content"),
    }


def test_what_a_built_in_tool_needs_is_marked_as_required() -> None:
    required = {
        definition.name: definition.parameters["required"]
        for definition in builtin_tools().definitions()
    }
    assert required == {
        "edit": ["path", "old", "new"],
        "apply_patch": ["patch"],
        "fetch": ["url"],
        "task": ["description", "prompt"],
        "todo": ["items"],
        "glob": ["pattern"],
        "grep": ["pattern"],
        "list": [],
        "read": ["path"],
        "shell": ["command"],
        "write": ["path", "content"],
    }


def test_every_parameter_of_a_built_in_tool_is_described() -> None:
    silent = [
        (definition.name, name)
        for definition in builtin_tools().definitions()
        for name, schema in definition.parameters["properties"].items()
        if not schema.get("description")
    ]
    assert silent == []


def test_only_tools_that_do_nothing_twice_promise_to_be_idempotent() -> None:
    assert {tool.name for tool in builtin_tools() if tool.idempotent} == {
        "glob",
        "grep",
        "list",
        "read",
        "task",
        "todo",
    }


def test_definitions_are_sorted_by_name_whatever_the_order() -> None:
    names = ["b", "c", "a"]
    assert [each.name for each in ToolSet(map(tool, names)).definitions()] == ["a", "b", "c"]


def test_a_tool_is_found_by_its_name_only() -> None:
    tools = ToolSet([tool("a"), tool("b")])
    found = tools.find("b")
    assert found is not None
    assert found.name == "b"
    assert tools.find("B") is None


def test_a_set_without_a_tool_leaves_the_first_as_it_was() -> None:
    first = ToolSet(map(tool, ["a", "b", "c"]))
    second = first.without("b")
    assert [each.name for each in first.definitions()] == ["a", "b", "c"]
    assert [each.name for each in second.definitions()] == ["a", "c"]
    assert [each.name for each in second] == ["a", "c"]
    assert second.find("b") is None
    assert second.without("b") is second


def test_a_larger_set_leaves_the_first_as_it_was() -> None:
    first = ToolSet([tool("a")])
    second = first.with_tools([tool("b")])
    assert ([each.name for each in first], [each.name for each in second]) == (["a"], ["a", "b"])


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools are named 'a'"):
        ToolSet([tool("a"), tool("a")])


@pytest.mark.parametrize("name", ["", "a b", "ä", "a.b", "x" * 65, "a\n"])
def test_a_name_that_a_provider_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a tool"):
        ToolSet([tool(name)])


@pytest.mark.parametrize("arguments", [int, list, complex])
def test_arguments_that_are_no_struct_are_refused(arguments: type[Any]) -> None:
    with pytest.raises(UsageError, match="the arguments of tool 'a'"):
        ToolSet([tool("a", arguments)])
