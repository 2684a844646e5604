"""A plugin: which git branch is checked out where a session works, and what was committed last.

Copy it into a project as `plugins/branch.py` and name it in the project's `perdure.toml`:

    [plugins]
    paths = ["plugins/branch.py"]

It counts after `perdure trust`. From then on the model knows the branch in every session of that
project, is told when another one is checked out, and can ask for the last commits.

Run this file in a repository to see what a model would be told there.
"""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import CompletedProcess
from typing import Annotated, Any

import anyio
import msgspec

from perdure import ABSENT, UNAVAILABLE, Source, Tool, ToolContext, ToolError
from perdure.config.location import Location, find_project
from perdure.config.schema import PluginOptions
from perdure.plugins import Registry, Scope


class Branch(msgspec.Struct, frozen=True):
    """What is checked out: a branch, or without one a commit."""

    name: str = ""
    commit: str = ""


class Commits(msgspec.Struct, forbid_unknown_fields=True):
    """Which commits to list."""

    count: Annotated[int, msgspec.Meta(ge=1, le=100, description="How many, at most.")] = 10


def plugin(scope: Scope) -> None:
    """Register the source and the tool. This is what Perdure looks for in the file."""
    scope.source_at(branch_source)
    scope.tool(
        Tool(
            name="branch_commits",
            description="List the last commits of the branch that is checked out, newest first.",
            arguments=Commits,
            run=list_commits,
        )
    )


def branch_source(location: Location) -> Source[Branch]:
    """Declare what a session at that Location is told."""

    async def load() -> Any:
        return await checked_out(location.directory)

    return Source(
        key="branch/current",
        type=Branch,
        load=load,
        baseline=state,
        # An update states what holds now. What held before stands in the history already.
        update=lambda _, current: state(current),
        removed=lambda _: "# Git branch\n\nThis directory is no longer in a git repository.",
    )


def state(branch: Branch) -> str:
    """Put the value into words, with nothing but the value to go by."""
    if branch.name:
        return f"# Git branch\n\nThe branch {branch.name} is checked out."
    return f"# Git branch\n\nNo branch is checked out; HEAD is at commit {branch.commit}."


async def checked_out(directory: Path) -> Any:
    """Observe: a Branch, ABSENT where there is no repository, UNAVAILABLE if git cannot say."""
    try:
        found = await git(directory, "symbolic-ref", "--quiet", "--short", "HEAD")
        if found.returncode == 1:
            found = await git(directory, "rev-parse", "--short=12", "HEAD")
            return Branch(commit=words(found.stdout)) if found.returncode == 0 else UNAVAILABLE
    except OSError:  # there is no git, or no such directory just now
        return UNAVAILABLE
    if found.returncode == 0:
        return Branch(name=words(found.stdout))
    return ABSENT if "not a git repository" in words(found.stderr) else UNAVAILABLE


async def list_commits(arguments: Commits, context: ToolContext) -> str:
    """Run the tool. A ToolError tells the model what went wrong."""
    wanted = ["log", "--oneline", "--no-show-signature", f"--max-count={arguments.count}"]
    try:
        found = await git(context.directory, *wanted)
    except OSError as error:
        raise ToolError(f"git cannot be run: {error.strerror}") from error
    if found.returncode != 0:
        raise ToolError(words(found.stderr) or "git could not list the commits")
    return words(found.stdout)


async def git(directory: Path, *arguments: str) -> CompletedProcess[bytes]:
    """Run git in a directory; cancelling ends it."""
    in_english = {**os.environ, "LC_ALL": "C"}
    return await anyio.run_process(
        ["git", "--no-pager", *arguments], cwd=directory, check=False, env=in_english
    )


def words(output: bytes) -> str:
    """Return what a program wrote."""
    return output.decode(errors="replace").strip()


THIS_FILE = Path(__file__).resolve()


async def main() -> None:
    """Show what a model would be told here."""
    here = find_project(".")
    options = PluginOptions(paths=(THIS_FILE,))
    async with Registry() as registry:
        await registry.prepare(options)
        view = registry.view(options, here)
        print((await view.compose().initialize()).baseline or "Nothing: this is no repository.")
        print("Tools:", *(tool.name for tool in view.offer()))


if __name__ == "__main__":
    anyio.run(main)
