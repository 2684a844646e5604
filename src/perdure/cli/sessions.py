"""`perdure sessions`: list, show, change, copy, carry and delete."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

import anyio
import click
import msgspec

from perdure.cli.arguments import given_text, session_id, unicode_text
from perdure.cli.asking import can_ask
from perdure.cli.branches import fork, revert
from perdure.cli.listing import families, session_head, shortened
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.page import Block, Style, Words, line, show, table
from perdure.cli.spending import spending_words
from perdure.cli.terminal import noted, waiting_for
from perdure.cli.times import ago, iso
from perdure.cli.transcript import item_data, transcript_blocks
from perdure.cli.transfer import export, import_
from perdure.clock import SystemClock, milliseconds
from perdure.config.location import shown
from perdure.errors import PerdureError, UsageError
from perdure.session.standing import Standing
from perdure.store.contract import SessionRow

_LOOKS: dict[str, Style] = {
    "running": "good",
    "waiting": "warn",
    "interrupted": "warn",
    "failed": "bad",
    "blocked": "bad",
}


@click.group(short_help="List, show, change and delete sessions.")
def sessions() -> None:
    """List, show, copy, change and delete sessions.

    An ID may be shortened as long as no other begins so.

    \b
    Example:
      perdure sessions list
    """


@sessions.command("list", short_help="List all sessions, the latest first.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_(as_json: bool) -> None:
    """List all sessions, the one updated last first, and why those stand still that do.

    \b
    Examples:
      perdure sessions list
      perdure sessions list --json | jq -r '.[].id'
    """
    anyio.run(_list, as_json)


@sessions.command("show", short_help="Print the transcript of a session.")
@session_id
@click.option("--system", is_flag=True, help="Show System Messages too.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of messages.")
def show_(session: str, system: bool, as_json: bool) -> None:
    """Print the transcript of session ID; what was reverted is left out.

    The number beside each message is the one that `fork` and `revert` take.

    \b
    Examples:
      perdure sessions show 7k2m9q
      perdure sessions show 7k2m9q --system --json
    """
    anyio.run(_show, session, system, as_json)


@sessions.command("rename", short_help="Give a session another title.")
@session_id
@click.argument("title")
def rename(session: str, title: str) -> None:
    """Give session ID the title TITLE.

    \b
    Example:
      perdure sessions rename 7k2m9q "Broken build"
    """
    anyio.run(_rename, session, _one_line(title))


@sessions.command("move", short_help="Let a session work in another directory.")
@session_id
@click.argument("directory", metavar="DIR", callback=given_text)
def move(session: str, directory: str) -> None:
    """Let session ID work in DIR from its next step on.

    Its instructions, tools and environment are found anew there, and a new epoch begins.

    \b
    Example:
      perdure sessions move 7k2m9q ~/src/other
    """
    anyio.run(_move, session, directory)


@sessions.command("model", short_help="Let a session use another model.")
@session_id
@click.argument("model", metavar="PROVIDER/MODEL", callback=given_text)
def model(session: str, model: str) -> None:
    """Let session ID use another model from its next step on, which begins a new epoch.

    \b
    Example:
      perdure sessions model 7k2m9q anthropic/claude-opus-5
    """
    anyio.run(_switch, session, model)


@sessions.command("compact", short_help="Put a summary in the place of the older history.")
@session_id
def compact(session: str) -> None:
    """Let the model of session ID write a summary that takes the place of the older history.

    The whole transcript stays readable. The next step begins a new epoch.

    \b
    Example:
      perdure sessions compact 7k2m9q
    """
    anyio.run(_compact, session)


@sessions.command("delete", short_help="Remove a session for good.")
@session_id
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(session: str, yes: bool) -> None:
    """Remove session ID with its whole history and its tasks, after a question.

    \b
    Examples:
      perdure sessions delete 7k2m9q
      perdure sessions delete 7k2m9q --yes
    """
    row, tasks = anyio.run(_doomed, session)
    if not yes and not _agreed(row, tasks):
        raise PerdureError(f"session {row.id} was not deleted")
    anyio.run(_delete, row.id)


sessions.add_command(fork)
sessions.add_command(revert)
sessions.add_command(export)
sessions.add_command(import_)


async def _list(as_json: bool) -> None:
    async with opened() as runtime:
        listed = [(row, await runtime.standing(row)) for row in await runtime.sessions()]
    out = Output(sys.stdout)
    if as_json:
        out.write_bytes(msgspec.json.encode([_row_data(*each) for each in listed]) + b"\n")
    elif listed:
        columns = shutil.get_terminal_size().columns
        show(out, _listing(listed, columns // 4 if out.is_terminal else sys.maxsize))
    else:
        show(out, [line("no sessions yet; `perdure run PROMPT` begins one")])


def _row_data(row: SessionRow, standing: Standing) -> dict[str, str]:
    return {
        "id": row.id,
        "title": row.title,
        "directory": row.directory,
        "model": row.model,
        "status": standing.status,
        "reason": standing.reason,
        "updated": iso(row.updated),
        "parent": row.parent,
    }


def _listing(listed: Sequence[tuple[SessionRow, Standing]], room: int) -> list[Block]:
    """Return a table of sessions, and below it the reasons, which would not fit into a column.

    Tasks are indented below their session. Directories have `room` characters.
    """
    now = milliseconds(SystemClock().now())
    short = shortened(row.id for row, _ in listed)
    headers = ("ID", "UPDATED", "STATUS", "TITLE", "MODEL", "DIRECTORY")
    standings = {row.id: standing for row, standing in listed}
    rows = [
        _cells(row, standings[row.id], f"{'  ' * task}{short[row.id]}", now, room)
        for row, task in families([row for row, _ in listed])
    ]
    reasons: list[Block] = [
        line(Words(short[row.id], "strong"), f"  {standing.status}: {shown(standing.reason)}")
        for row, standing in listed
        if standing.reason
    ]
    return [table(headers, rows), *([line(), *reasons] if reasons else [])]


def _cells(
    row: SessionRow, standing: Standing, short: str, now: int, room: int
) -> tuple[str | Words, ...]:
    return (
        Words(short, "strong"),
        ago(row.updated, now),
        Words(standing.status, _LOOKS.get(standing.status, "")),
        shown(row.title),
        shown(row.model),
        Words(_fitted(shown(row.directory), room), "dim"),
    )


def _fitted(path: str, room: int) -> str:
    """Return a path with its middle left out where it is longer than the room for it."""
    if len(path) <= room:
        return path
    tail = max(8, room * 2 // 3)
    return f"{path[: max(1, room - tail - 3)]}...{path[-tail:]}"


async def _show(prefix: str, system: bool, as_json: bool) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        row = await session.row()
        standing = await runtime.standing(row)
        tasks = [(each, await runtime.standing(each)) for each in await session.children()]
        items = await session.messages(system=system)
        spent = "" if as_json else spending_words(await session.spending())
    out = Output(sys.stdout)
    if as_json:
        out.write_bytes(msgspec.json.encode([item_data(item) for item in items]) + b"\n")
    else:
        costs = [line(Words(shown(spent), "dim"))] if spent else []
        family = _family(row, tasks)
        head = session_head(row.title, row.id, row.model, row.directory, standing_words(standing))
        show(out, [*head, *costs, *family, *transcript_blocks(items)])


def _family(row: SessionRow, tasks: Sequence[tuple[SessionRow, Standing]]) -> list[Block]:
    """Return a line on whose task a session works on, and one for each task that it gave."""
    giver = f"a task of session {row.parent}"
    return [
        *([line(Words(shown(giver), "dim"))] if row.parent else []),
        *(
            line(Words(f"task {each.id}", "strong"), f"  {standing.status}  {shown(each.title)}")
            for each, standing in tasks
        ),
    ]


def standing_words(standing: Standing) -> str:
    """Return what a session is doing, with the reason where there is one."""
    return f"{standing.status}: {standing.reason}" if standing.reason else standing.status


async def _rename(prefix: str, title: str) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        await session.rename(title)
    noted(f"session {session.id} has the title {title!r}")


async def _move(prefix: str, directory: str) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        await session.move(directory)
        where = (await session.state()).directory
    noted(f"session {session.id} works in {where} from its next step on")


async def _switch(prefix: str, model: str) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        await session.switch_model(model)
    noted(f"session {session.id} uses {model} from its next step on")


async def _compact(prefix: str) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        async with waiting_for("the summary"):
            done = await session.compact()
        if not done:
            raise PerdureError(f"session {session.id} was not compacted; try again")
    noted(f"session {session.id}: a summary stands in the place of the older history")


async def _doomed(prefix: str) -> tuple[SessionRow, int]:
    """Return the session that is to be deleted, and how many tasks go with it."""
    async with opened() as runtime:
        session = await runtime.session(prefix)
        return await session.row(), len(await session.children())


async def _delete(session: str) -> None:
    async with opened() as runtime:
        await runtime.delete_session(session)
    noted(f"session {session} is deleted")


def _agreed(row: SessionRow, tasks: int) -> bool:
    if not can_ask():
        raise UsageError("deleting cannot be undone and nobody can be asked; give --yes")
    further = {0: "", 1: " and its task"}.get(tasks, f" and its {tasks} tasks")
    question = f"Delete session {row.id} ({shown(row.title)}){further} for good?"
    return click.confirm(question, default=False, err=True)


def _one_line(title: str) -> str:
    words = " ".join(unicode_text(title, "title").split())
    if not words:
        raise UsageError("the title is empty")
    return words
