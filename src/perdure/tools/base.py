"""What a tool is, and what it is given when it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from perdure.config.schema import Permission
from perdure.history.content import Image, ToolDefinition

Arguments = TypeVar("Arguments")


class Delegated(msgspec.Struct, frozen=True):
    """What came of a task: the id of the session that worked on it, and its last words.

    `problem` says why they are no result, empty where they are one.
    """

    session: str
    answer: str
    problem: str = ""


class Delegate(Protocol):
    """Gives a task to a session of its own and waits for what comes of it.

    A call has one such session: calling again returns what came of the first time. Cancelling it
    interrupts the session, and returns when that is settled.
    """

    async def __call__(self, title: str, prompt: str) -> Delegated: ...


class ToolContext(msgspec.Struct, frozen=True):
    """What a running call knows of its surroundings.

    `directory` is the session's Location, `project` its project root; both are absolute and
    resolved. `outputs` is the directory for complete outputs of this session; it may not exist
    yet. `progress` shows text live and returns at once. `idempotency_key` is the same for every
    execution of the same call, to pass to the outside world. `allowed` lists further directories
    that the configuration opens, `hosts` the private hosts. `delegate` gives a task to a session of
    its own, None where that is not possible. `images` says whether the model takes pictures.
    """

    session: str
    call: str
    directory: Path
    project: Path
    outputs: Path
    progress: Callable[[str], None]
    idempotency_key: str = ""
    allowed: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    images: bool = False
    delegate: Delegate | None = None


class ToolOutput(msgspec.Struct, frozen=True):
    """What a tool returns.

    `text` goes to the model, cut in the middle where it is over the limit; `note` is a short remark
    that follows it and is never cut away, such as an exit code. `paths` are the files or
    directories that the call read, listed or wrote, absolute and resolved. `file` is the managed
    file with the complete text, for a tool that has bounded its own output already. `entries` are
    session entries to set, by name, durable with the result. `images` are pictures for the model;
    where it takes none, it is told their names.
    """

    text: str
    paths: tuple[Path, ...] = ()
    note: str = ""
    file: str = ""
    entries: Mapping[str, Any] = {}
    images: tuple[Image, ...] = ()


class Subject(msgspec.Struct, frozen=True):
    """What a call is about, for permission rules: paths, commands, an address.

    Paths are relative to the project root where they lie in it, else absolute. `parts` are judged
    each for itself, and the strictest judgement counts. Where `exact` is False, the one part may
    do more than its words say, and only a rule for everything can allow it.
    """

    parts: tuple[str, ...]
    exact: bool = True


class Tool(msgspec.Struct, Generic[Arguments], frozen=True, kw_only=True):
    """One tool that a model may call.

    `arguments` is a msgspec Struct; the JSON Schema that the model sees is made from it, with the
    Struct's docstring and `msgspec.Meta(description=...)`. `run` gets the decoded arguments; it
    raises ToolError to tell the model what went wrong, and any other exception becomes an error
    result too. Cancelling it must end whatever it started. `idempotent` promises that running a
    call twice does no more than running it once. `subject` says what a call is about, which is
    what permission rules by resource are matched against; without it they see empty text.
    `default` is its permission where no rule of the configuration fits.
    """

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Arguments, ToolContext], Awaitable[ToolOutput | str]]
    idempotent: bool = False
    subject: Callable[[Arguments, ToolContext], Subject] | None = None
    default: Permission = "allow"

    def definition(self) -> ToolDefinition:
        """Return the tool as the model is told of it."""
        return ToolDefinition(self.name, self.description, _parameters(self.arguments))

    async def permission(self) -> Permission:
        """Return its permission where no rule of the configuration fits."""
        return self.default


class ToldTool(Tool[dict[str, Any]], frozen=True, kw_only=True):
    """A tool whose definition is known from elsewhere, such as a server or an earlier process."""

    told: ToolDefinition

    def definition(self) -> ToolDefinition:
        """Return the tool as the model is, or was, told of it."""
        return self.told


def _parameters(arguments: type[Any]) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components(
        [arguments], ref_template="#/$defs/{name}"
    )
    own = components.pop(arguments.__name__, schema)
    parameters = {key: value for key, value in own.items() if key not in {"title", "description"}}
    if components:
        parameters["$defs"] = components
    return parameters
