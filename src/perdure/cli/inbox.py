"""`perdure inbox`: the prompts that wait in a session."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import anyio
import click
import msgspec

from perdure.cli.arguments import session_id, unicode_text
from perdure.cli.listing import shortened
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.page import Block, Words, line, show, table
from perdure.cli.terminal import noted
from perdure.cli.times import ago, iso
from perdure.clock import SystemClock, milliseconds
from perdure.config.location import shown
from perdure.errors import AmbiguousId, PromptConflict, UsageError
from perdure.history.events import Delivery
from perdure.session.handle import Session
from perdure.session.inbox import PendingPrompt
from perdure.session.owner import described, owner_is_gone
from perdure.session.titles import first_words


@click.command(short_help="Show the prompts that wait in a session, and change them.")
@session_id
@click.argument("change", metavar="[steer|queue|withdraw PROMPT]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with the whole texts.")
def inbox(session: str, change: tuple[str, ...], as_json: bool) -> None:
    """List the prompts that wait in session ID, the next one first.

    With `steer PROMPT`, one joins the work that goes on at its next step; with `queue PROMPT`, it
    waits for the end of the work; with `withdraw PROMPT`, it is taken back. PROMPT is the id of a
    prompt, or a beginning that no other one here has.

    \b
    Examples:
      perdure inbox 7k2m9q
      perdure inbox 7k2m9q --json
      perdure inbox 7k2m9q steer 4f1k0z
      perdure inbox 7k2m9q withdraw 4f1k0z
    """
    match change:
        case ():
            anyio.run(_list, session, as_json)
        case ("withdraw", prompt) if not as_json:
            anyio.run(_withdraw, session, unicode_text(prompt, "PROMPT"))
        case ("steer" | "queue" as delivery, prompt) if not as_json:
            anyio.run(_redeliver, session, unicode_text(prompt, "PROMPT"), delivery)
        case _:
            raise UsageError(
                "give `steer PROMPT`, `queue PROMPT`, `withdraw PROMPT` or --json; "
                "see `perdure inbox --help`"
            )


async def outlook(session: Session, prompt: str) -> str:
    """Return one line that says who takes a prompt, and when."""
    pending = (await session.state()).pending.get(prompt)
    if pending is None:
        return f"prompt {prompt} no longer waits: it was promoted or withdrawn"
    steers = pending.delivery == "steer"
    if pending.holder and not steers and not owner_is_gone(pending.holder):
        return f"the prompt waits for {described(pending.holder)}"
    if owner := (await session.row()).owner:
        moment = "at its next step" if steers else "when its work is done"
        return f"{described(owner)} works on session {session.id} and takes the prompt {moment}"
    return (
        f"nobody works on session {session.id}; the prompt waits until "
        f"`perdure run -s {session.id} PROMPT` or a program goes on with it"
    )


async def _list(prefix: str, as_json: bool) -> None:
    async with opened() as runtime:
        waiting = await (await runtime.session(prefix)).inbox()
    out = Output(sys.stdout)
    if as_json:
        out.write_bytes(msgspec.json.encode([*map(_data, waiting)]) + b"\n")
    else:
        show(out, [inbox_page(waiting) if waiting else line("no prompt waits")])


async def _withdraw(prefix: str, prompt: str) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        whole = resolved(session.id, await session.inbox(), prompt)
        await session.withdraw(whole)
        noted(f"prompt {whole} was withdrawn from session {session.id}")


async def _redeliver(prefix: str, prompt: str, delivery: Delivery) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        whole = resolved(session.id, await session.inbox(), prompt)
        await session.redeliver(whole, delivery, wake=False)
        noted(f"prompt {whole}: {delivery}; {await outlook(session, whole)}")


def resolved(session: str, waiting: Sequence[PendingPrompt], prefix: str) -> str:
    """Return the one id that is the prefix, or begins with it."""
    ids = [each.id for each in waiting]
    found = [prefix] if prefix in ids else [each for each in ids if each.startswith(prefix)]
    if not prefix.strip() or not found:
        raise PromptConflict(
            f"session {session}: no prompt {prefix!r} waits; `perdure inbox {session}` lists them"
        )
    if len(found) > 1:
        several = shown(", ".join(found[:5]))
        raise AmbiguousId(f"{prefix!r} begins several prompt ids ({several}); give more of it")
    return found[0]


def _data(each: PendingPrompt) -> dict[str, Any]:
    return {
        "id": each.id,
        "delivery": each.delivery,
        "seq": each.seq,
        "admitted": iso(each.time),
        "text": each.text,
        "images": [image.described for image in each.images],
    }


def _words(each: PendingPrompt) -> str:
    images = f"(images: {len(each.images)})" if each.images else ""
    return f"{first_words(each.text)} {images}".strip()


def inbox_page(waiting: Sequence[PendingPrompt]) -> Block:
    """Return a table of the prompts that wait, the next one first."""
    now = milliseconds(SystemClock().now())
    short = shortened(each.id for each in waiting)
    rows = [
        (
            Words(shown(short[each.id]), "strong"),
            each.delivery,
            ago(each.time, now),
            _words(each),
        )
        for each in waiting
    ]
    return table(("ID", "DELIVERY", "SENT", "PROMPT"), rows)
