"""What a server offers, read from what it sent: bounded, and without what would do harm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from perdure.config.values import json_text
from perdure.history.content import ToolDefinition
from perdure.mcp.names import tool_name
from perdure.tools.printable import printable, shortened, storable

MOST_TOOLS = 128
LARGEST_SCHEMA = 16 * 1024
LONGEST_DESCRIPTION = 4 * 1024
LONGEST_INSTRUCTIONS = 8 * 1024
_LONGEST_NAME = 256
_LONGEST_PURPOSE = 100
_UNWANTED_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "enum")


class RemoteTool(msgspec.Struct, frozen=True):
    """One tool of a server. `remote` is what the server calls it.

    `reads_only`: the server says that it changes nothing.
    """

    remote: str
    definition: ToolDefinition
    reads_only: bool = False

    @property
    def purpose(self) -> str:
        """The first line of its description, shortened."""
        first = self.definition.description.strip().partition("\n")[0]
        return shortened(printable(first), _LONGEST_PURPOSE)


class Offer(msgspec.Struct, frozen=True):
    """What a server offers at one moment. `problems` are lines on what was left out."""

    instructions: str = ""
    tools: tuple[RemoteTool, ...] = ()
    problems: tuple[str, ...] = ()


def read_offer(
    server: str, instructions: object, listed: Iterable[Any], allowed: Iterable[str] | None
) -> Offer:
    """Return what can be offered of what a server listed, sorted by name.

    `listed` are the tools as JSON data, not checked yet; `allowed` the names that count, None for
    all. A tool that cannot be offered is left out with a problem. Slow for a long list.
    """
    wanted = None if allowed is None else set(allowed)
    kept: dict[str, RemoteTool] = {}
    problems: list[str] = []
    for item in listed:
        fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        if wanted is not None and fields.get("name") not in wanted:
            continue
        tool = _read_tool(server, fields)
        if isinstance(tool, str):
            problems.append(tool)
        elif tool.definition.name in kept:
            problems.append(f"tool {_shown(tool.remote)} is left out: it is listed twice")
        elif len(kept) == MOST_TOOLS:
            problems.append(f"more than {MOST_TOOLS} tools; the rest is left out: list some")
            break
        else:
            kept[tool.definition.name] = tool
    text = instructions if isinstance(instructions, str) else ""
    return Offer(
        _cut(storable(text).strip(), LONGEST_INSTRUCTIONS),
        tuple(kept[name] for name in sorted(kept)),
        tuple(problems),
    )


def _read_tool(server: str, fields: Mapping[str, Any]) -> RemoteTool | str:
    name = fields.get("name")
    if not isinstance(name, str) or not name or len(name) > _LONGEST_NAME:
        return "a tool is left out: it has no usable name"
    schema = _schema(fields.get("inputSchema"))
    if isinstance(schema, str):
        return f"tool {_shown(name)} is left out: {schema}"
    description = fields.get("description")
    text = storable(description) if isinstance(description, str) else ""
    hints = fields.get("annotations")
    reads_only = isinstance(hints, dict) and cast("Any", hints).get("readOnlyHint") is True
    definition = ToolDefinition(
        tool_name(server, name), _cut(text, LONGEST_DESCRIPTION) or _shown(name), schema
    )
    return RemoteTool(name, definition, reads_only)


def _schema(given: object) -> dict[str, Any] | str:
    """Return the schema of a tool's arguments, or what is wrong with it.

    Providers refuse a whole request for one wrong schema, so what they would refuse stays out.
    """
    if not isinstance(given, dict):
        return "its input schema is no object"
    encoded = json_text(cast("object", given))
    if encoded is None:
        return "its input schema is no JSON"
    if len(encoded) > LARGEST_SCHEMA:
        return f"its input schema is larger than {LARGEST_SCHEMA // 1024} KiB"
    schema: dict[str, Any] = msgspec.json.decode(encoded)
    if schema.get("type") != "object":
        return "its input schema does not describe an object"
    if unwanted := [key for key in _UNWANTED_AT_TOP if key in schema]:
        return f"its input schema has {unwanted[0]} at the top, which providers refuse"
    if problem := _fault(schema):
        return f"its input schema is wrong: {problem}"
    schema.setdefault("properties", {})
    schema.pop("$schema", None)
    return schema


def _fault(schema: Mapping[str, Any]) -> str | None:
    # Comes with the MCP package; only who configures a server pays for it.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return shortened(printable(error.message), 200)
    except RecursionError:
        return "it is nested too deeply"
    if any(not reference.startswith("#") for reference in _references(schema)):
        return "it refers to another document"
    return None


def _references(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            if key == "$ref" and isinstance(inner, str):
                yield inner
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _references(inner)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut here: {len(text) - limit} more characters]"


def _shown(name: str) -> str:
    return shortened(printable(storable(name)), 80)
