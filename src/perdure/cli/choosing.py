"""Which session a prompt goes to."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click
import msgspec

from perdure.cli.arguments import given_text
from perdure.cli.terminal import Warned
from perdure.config.load import load
from perdure.config.location import find_project, shown
from perdure.errors import DirectoryNotFound, SessionNotFound, UsageError
from perdure.runtime import Runtime
from perdure.session.handle import Session
from perdure.session.titles import first_words
from perdure.store.contract import SessionRow


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for: a session by its id, the latest one (`again`), or a new one."""

    session: str | None
    again: bool
    model: str | None
    directory: str | None


R = TypeVar("R")

_OPTIONS = (
    click.option(
        "-s", "--session", metavar="ID", callback=given_text, help="Go on with this session."
    ),
    click.option(
        "-c", "--continue", "again", is_flag=True, help="Go on with the latest session here."
    ),
    click.option(
        "-m",
        "--model",
        metavar="PROVIDER/MODEL",
        callback=given_text,
        help="Use this model from now on.",
    ),
    click.option(
        "-C",
        "directory",
        metavar="DIR",
        callback=given_text,
        help="Where a new session works; where -c looks.",
    ),
)


def choice_options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that choose its session; it gets them as one `choice`."""

    @wraps(command)
    def chosen(
        *, session: str | None, again: bool, model: str | None, directory: str | None, **others: Any
    ) -> R:
        if session and again:
            raise UsageError(
                "-s names a session and -c takes the latest one; give only one of them"
            )
        choice = Choice(session=session, again=again, model=model, directory=directory)
        return command(choice=choice, **others)

    for option in reversed(_OPTIONS):
        chosen = option(chosen)
    return chosen


async def choose(runtime: Runtime, choice: Choice, prompt: str, terminal: Warned) -> Session:
    """Return the session that the choice means, begun or switched to another model where needed.

    Warns of what does not count: keys of a project that is not trusted, a directory that an
    existing session does not use. Raises UsageError and those below it.
    """
    row = await _existing(runtime, choice)
    if row is None:
        directory = choice.directory or "."
        _warn_of_ignored(directory, terminal)
        return await runtime.create_session(
            directory=directory, model=choice.model, title=first_words(prompt)
        )
    if choice.session and choice.directory and not _same(choice.directory, row.directory):
        terminal.warn(f"session {row.id} works in {row.directory}; -C is for a new session")
    try:
        _warn_of_ignored(row.directory, terminal)
    except DirectoryNotFound as error:
        hint = f"`perdure sessions move {row.id} DIR` lets the session work elsewhere"
        raise DirectoryNotFound(f"{error}; {hint}") from error
    session = await runtime.session(row.id)
    if choice.model:
        await session.switch_model(choice.model)
    return session


async def _existing(runtime: Runtime, choice: Choice) -> SessionRow | None:
    if choice.session is not None:
        return await (await runtime.session(choice.session)).row()
    if not choice.again:
        return None
    here = str(find_project(choice.directory or ".").directory)
    for row in await runtime.sessions():
        if row.directory == here and not row.parent:
            return row
    raise SessionNotFound(f"no session works in {here} yet; leave out -c to begin one")


def _same(directory: str, other: str) -> bool:
    return str(find_project(directory).directory) == other


def _warn_of_ignored(directory: str, terminal: Warned) -> None:
    ignored = load(directory, os.environ).ignored
    for file in dict.fromkeys(each.file for each in ignored):
        keys = ", ".join(each.key for each in ignored if each.file == file)
        project = shown(find_project(directory).project)
        terminal.warn(f"{file}: {keys} left out; `perdure trust {project}` makes it count")
