"""Run one tool call to its one settlement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from anyio import create_task_group, to_thread

from perdure.errors import ImageRefused, ToolError
from perdure.history.content import Image, ToolCall
from perdure.history.events import CallOutcome
from perdure.images import images_of
from perdure.tools.base import Tool, ToolContext, ToolOutput
from perdure.tools.bounded import DEFAULT_LIMITS, Bounded, Limits, bound
from perdure.tools.printable import printable, shortened, storable
from perdure.tools.registry import ToolSet

_LONGEST_NOTE = 1000
_NAMES_TOLD = 20


class Settled(msgspec.Struct, frozen=True):
    """The settlement of a call: its outcome and the words that the model reads.

    `file` is the path of the complete output where `output` was cut. `paths` are the files and
    directories that a successful call read, listed or wrote, `entries` the session entries that it
    sets, `images` the pictures that the model gets.
    """

    outcome: CallOutcome
    output: str
    file: str = ""
    paths: tuple[Path, ...] = ()
    entries: Mapping[str, Any] = {}
    images: tuple[Image, ...] = ()


UNKNOWN = Settled(
    "unknown",
    "outcome unknown; it may have run. The process ended while this call was under way, and it was "
    "not run again. Look at what it changed before you repeat it.",
)
"""For a call that was started before a crash and whose end nobody saw."""

NOT_RUN = Settled("not_run", "not run: this call was never started.")
"""For a call that a crash or an interrupt kept from starting."""

INTERRUPTED = Settled("interrupted", "interrupted by the user; it may have run in part.")
"""For a call that was under way when the user interrupted."""


class Prepared(msgspec.Struct, frozen=True):
    """A call that can run: its tool is known and its arguments are valid."""

    tool: Tool[Any]
    arguments: Any


async def settle(
    call: ToolCall, tools: ToolSet, context: ToolContext, *, limits: Limits = DEFAULT_LIMITS
) -> Settled:
    """Run a call and return how it ended.

    An unknown tool, invalid arguments and a tool that raises are outcomes, with words that the
    model can act on; no exception gets out. Cancelling it ends the tool and is passed on.
    """
    prepared = prepare(call, tools)
    if isinstance(prepared, Settled):
        return prepared
    return await run(prepared, context, limits=limits)


def prepare(call: ToolCall, tools: ToolSet) -> Prepared | Settled:
    """Return the call made ready to run, or the settlement that says why it cannot.

    Nothing has happened yet; this is the place to ask for permission.
    """
    tool = tools.find(call.name)
    if tool is None:
        return _failed(_unknown_tool(call.name, tools))
    try:
        # A model that has nothing to pass may send nothing at all.
        arguments = msgspec.json.decode(call.arguments.strip() or "{}", type=tool.arguments)
    except msgspec.ValidationError as error:
        return _failed(f"invalid arguments for {tool.name}: {error}")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _failed(f"the arguments for {tool.name} are not valid JSON: {error}")
    except Exception as error:  # noqa: BLE001 - raised by the Struct of whoever wrote the tool
        return _failed(f"invalid arguments for {tool.name}: {_words(error)}")
    return Prepared(tool, arguments)


async def run(
    prepared: Prepared, context: ToolContext, *, limits: Limits = DEFAULT_LIMITS
) -> Settled:
    """Run a prepared call and return how it ended, like `settle`."""
    try:
        output = await _contained(lambda: prepared.tool.run(prepared.arguments, context))
    except ToolError as error:
        return await _settled("failed", ToolOutput(str(error)), context, limits)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a tool raises is its result
        return await _settled("failed", ToolOutput(_words(error)), context, limits)
    match output:
        case str():
            return await _settled("completed", ToolOutput(output), context, limits)
        case ToolOutput(text=str(), note=str(), file=str(), images=tuple() as images):
            try:
                images = images_of(images, context.directory)
            except (ImageRefused, TypeError, AttributeError) as error:
                return _failed(f"the tool returned an image that cannot be used: {error}")
            output = msgspec.structs.replace(output, images=images)
            return await _settled("completed", output, context, limits)
        case _:
            return _failed(f"the tool is faulty: it returned {type(output).__name__}, not text")


async def _contained(start: Callable[[], Awaitable[Any]]) -> Any:
    # In a task of its own, a tool that only ends itself as if cancelled does not look like an
    # interrupt of the session.
    result: list[Any] = []
    raised: list[BaseException] = []

    async def catch() -> None:
        try:
            result.append(await start())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - handed to the caller below
            raised.append(error)

    async with create_task_group() as group:
        group.start_soon(catch)
    if raised:
        raise _only(raised[0])
    if not result:
        raise ToolError("the tool gave up before it was done (it cancelled itself)")
    return result[0]


def _only(error: BaseException) -> BaseException:
    match error:
        case BaseExceptionGroup(exceptions=(only,)):
            return _only(cast("BaseException", only))
        case _:
            return error


async def _settled(
    outcome: CallOutcome, output: ToolOutput, context: ToolContext, limits: Limits
) -> Settled:
    bounded = await _bounded(output.text, context, limits)
    note = storable(shortened(output.note, _LONGEST_NOTE))
    gap = "\n" if note and bounded.text and not bounded.text.endswith("\n") else ""
    text = f"{bounded.text}{gap}{note}"
    words = text if text.strip() else "(no output)"
    file = bounded.file or output.file
    if outcome != "completed":
        return Settled(outcome, words, file)
    return Settled(outcome, words, file, output.paths, output.entries, output.images)


async def _bounded(text: str, context: ToolContext, limits: Limits) -> Bounded:
    if len(text) * 4 <= limits.size:
        # Too short to need a file unless it is all line ends; not worth a thread.
        return bound(text, context.outputs, context.call, limits)
    return await to_thread.run_sync(bound, text, context.outputs, context.call, limits)


def _failed(words: str) -> Settled:
    return Settled("failed", storable(shortened(words, _LONGEST_NOTE)))


def _unknown_tool(name: str, tools: ToolSet) -> str:
    known = ", ".join(tools.near(name)[:_NAMES_TOLD]) or "none"
    return f"there is no tool named {printable(shortened(name, 100))!r}; the nearest are: {known}"


def _words(error: BaseException) -> str:
    name = type(error).__name__
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot even say what it is
        return name
    return f"{name}: {words}" if words else name
