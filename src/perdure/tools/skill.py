"""The tool `skill`: the instructions of a skill, and the files beside them."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from anyio import to_thread

from perdure.config.location import Location
from perdure.errors import ToolError
from perdure.files import enclosed
from perdure.skills import Skill, SkillIndex, find_skills
from perdure.skills.frontmatter import split
from perdure.skills.resources import resources
from perdure.tools.base import Tool, ToolContext, ToolOutput
from perdure.tools.confine import Place, confine, explained
from perdure.tools.files import open_file, text_encoding
from perdure.tools.printable import printable, shortened
from perdure.tools.subjects import text_subject

_LARGEST = 1024 * 1024
_NAMES_TOLD = 20


class SkillArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which skill."""

    name: Annotated[str, msgspec.Meta(description="The name of the skill.")]
    file: Annotated[
        str, msgspec.Meta(description="One of its other files, to read instead; empty for none.")
    ] = ""


def skill_tool(user: Sequence[Path] = ()) -> Tool[SkillArguments]:
    """Return the tool, which serves every Location.

    `user` are the places of the user's own skills. The definition does not depend on which skills
    there are, since it is a part of the prefix that providers cache.
    """
    places = tuple(user)

    async def run(arguments: SkillArguments, context: ToolContext) -> ToolOutput:
        # It only reads: when it is cancelled, nobody waits for a disk that does not answer.
        return await to_thread.run_sync(_run, arguments, context, places, abandon_on_cancel=True)

    return Tool(
        name="skill",
        description=(
            "Load a skill: instructions for one kind of task. The skills that there are, with what"
            " each is for, are listed under the heading Skills. A skill may come with further"
            " files; they are named with its instructions and read by naming skill and file."
        ),
        arguments=SkillArguments,
        run=run,
        subject=text_subject("name"),
        idempotent=True,
    )


def _run(arguments: SkillArguments, context: ToolContext, user: tuple[Path, ...]) -> ToolOutput:
    index = find_skills(Location(context.directory, context.project), user)
    skill = index.find(arguments.name)
    if skill is None:
        raise ToolError(_unknown(arguments.name, index))
    # No `paths`: to load a skill is no work in its folder, and instruction files that happen to
    # lie there are for those who write the skill.
    return _file(skill, arguments.file, context) if arguments.file else _instructions(skill)


def _instructions(skill: Skill) -> ToolOutput:
    text, notes = _text(Place(skill.root, skill.file, f"{skill.name}/SKILL.md"))
    parts = split(text)
    if parts is None:
        raise ToolError(f"the skill {skill.name} has just changed; load it again")
    body = parts[1]
    shown = [
        _head(skill),
        _tagged(body) if body.strip() else "The skill has no instructions but its description.",
        _resources(skill),
    ]
    return ToolOutput("\n\n".join(filter(None, shown)), note=notes)


def _head(skill: Skill) -> str:
    lines = (
        f"Skill: {skill.name}",
        f"Directory: {printable(str(skill.directory))} (its files are relative to it)",
        f"Compatibility: {skill.compatibility}" if skill.compatibility else "",
    )
    return "\n".join(filter(None, lines))


def _file(skill: Skill, given: str, context: ToolContext) -> ToolOutput:
    inside = msgspec.structs.replace(
        context, directory=skill.folder, project=skill.folder, outputs=skill.folder, allowed=()
    )
    place = confine(given, inside)
    named = f"{skill.name}/{place.shown}"
    text, notes = _text(Place(skill.root, place.path, named))
    shown = _tagged(text) if text else f"{named} is empty."
    return ToolOutput(f"File: {named}\n\n{shown}", note=notes)


def _text(place: Place) -> tuple[str, str]:
    """Return the text of a file, and what there is to remark."""
    with explained(place.shown), open_file(place) as file:
        encoding = text_encoding(file, place)
        size = os.fstat(file.fileno()).st_size
        raw = file.read(_LARGEST)
    # A character cut by the limit is no fault of the file.
    final = size <= _LARGEST
    notes = "" if final else f"Only the first {_LARGEST} of {size} bytes are here."
    try:
        return codecs.getincrementaldecoder(encoding)().decode(raw, final), notes
    except UnicodeDecodeError:
        text = codecs.getincrementaldecoder(encoding)("replace").decode(raw, final)
        return text, f"{notes} What is no UTF-8 in it is shown as \ufffd.".lstrip()


def _tagged(text: str) -> str:
    return enclosed(text, "skill", hashlib.sha256(text.encode()).hexdigest())


def _resources(skill: Skill) -> str:
    files = resources(skill)
    if not files.names:
        return ""
    listed = "\n".join(map(printable, files.names))
    more = "" if files.complete else "\nThere are more."
    return f"Its other files, to be read with this tool and `file`:\n{listed}{more}"


def _unknown(name: str, index: SkillIndex) -> str:
    shown = printable(shortened(name, 100))
    reason = index.reason(name)
    if reason is not None:
        return f"there is no skill named {shown!r}: {reason}"
    near = ", ".join(index.near(name)[:_NAMES_TOLD])
    return f"there is no skill named {shown!r}; " + (
        f"the nearest are: {near}" if near else "there are none here"
    )
