"""The tool `apply_patch`: changes to several files at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Annotated

import msgspec
from anyio import to_thread

from perdure.errors import ToolError
from perdure.tools.base import Subject, Tool, ToolContext, ToolOutput
from perdure.tools.confine import Place, confine
from perdure.tools.files import PathLocks, exists, remove_file, replace_file
from perdure.tools.patches import Added, Change, Deleted, Updated, applied, parse, paths_of
from perdure.tools.subjects import place_of
from perdure.tools.texts import load_text


class PatchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change."""

    patch: Annotated[
        str, msgspec.Meta(description="The patch, from '*** Begin Patch' to '*** End Patch'.")
    ]


class _Write(msgspec.Struct, frozen=True):
    """One file as it will be; None takes it away."""

    place: Place
    data: bytes | None
    words: str


def apply_patch_tool(locks: PathLocks) -> Tool[PatchArguments]:
    """Return the tool; `locks` are shared with every tool that changes files."""

    async def run(arguments: PatchArguments, context: ToolContext) -> ToolOutput:
        changes = parse(arguments.patch)
        places = {path: confine(path, context, write=True) for path in paths_of(changes)}
        async with AsyncExitStack() as held:
            # In one order for all, so that two patches never wait for each other.
            for path in sorted({place.path for place in places.values()}):
                await held.enter_async_context(locks.of(path))
            return await to_thread.run_sync(_apply, changes, places)

    return Tool(
        name="apply_patch",
        description=(
            "Change several files at once. Between '*** Begin Patch' and '*** End Patch', each "
            "file begins with '*** Add File: PATH', '*** Delete File: PATH' or '*** Update File: "
            "PATH' (then, to move it, '*** Move to: PATH'). Lines of a new file begin with '+'. An "
            "update has hunks, each after a line '@@', which may name a line above it such as "
            "'@@ def main():'; lines begin with ' ' (kept), '-' (taken out) or '+' (put in). Give "
            "about three kept lines around a change. If one part does not fit, nothing is changed."
        ),
        arguments=PatchArguments,
        run=run,
        subject=_subject,
        default="ask",
    )


def _subject(arguments: PatchArguments, context: ToolContext) -> Subject:
    try:
        paths = paths_of(parse(arguments.patch))
    except ToolError:  # the tool says so itself, and changes nothing
        return Subject(("",))
    return Subject(tuple(place_of(path, context) for path in paths))


def _apply(changes: Sequence[Change], places: dict[str, Place]) -> ToolOutput:
    _require_each_once(changes)
    writes = [write for change in changes for write in _writes(change, places)]
    done: list[str] = []
    for write in writes:
        try:
            if write.data is None:
                remove_file(write.place)
            else:
                replace_file(write.place, write.data)
        except ToolError as error:
            before = ", ".join(done) or "nothing"
            raise ToolError(f"{error}. Done before it: {before}") from error
        done.append(write.words)
    paths = tuple(write.place.path for write in writes if write.data is not None)
    return ToolOutput("\n".join(done), paths)


def _require_each_once(changes: Sequence[Change]) -> None:
    path, times = Counter(paths_of(changes)).most_common(1)[0]
    if times > 1:
        raise ToolError(f"the patch names {path} more than once; put its hunks together")


def _writes(change: Change, places: dict[str, Place]) -> list[_Write]:
    place = places[change.path]
    match change:
        case Added(lines=lines):
            _require_nothing_there(place)
            content = "".join(f"{line}\n" for line in lines)
            return [_Write(place, content.encode(), f"added {place.shown}")]
        case Deleted():
            load_text(place)  # says why it is no file that can be deleted here
            return [_Write(place, None, f"deleted {place.shown}")]
        case Updated(moved_to=moved_to):
            text = load_text(place)
            data = text.with_content(applied(text.content, change))
            if not moved_to:
                return [_Write(place, data, f"changed {place.shown}")]
            target = places[moved_to]
            _require_nothing_there(target)
            words = f"moved {place.shown} to {target.shown}"
            return [_Write(target, data, words), _Write(place, None, f"removed {place.shown}")]


def _require_nothing_there(place: Place) -> None:
    if exists(place):
        raise ToolError(f"{place.shown} exists already; nothing was changed. Update it instead")
