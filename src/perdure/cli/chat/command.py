"""`perdure chat`: a session on a terminal."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import click

from perdure.cli.asking import Sight
from perdure.cli.choosing import Choice, choice_options
from perdure.cli.listing import short_id
from perdure.cli.opening import opened
from perdure.cli.output import Output, OutputGone
from perdure.cli.terminal import Warnings, noted
from perdure.errors import UsageError


@click.command(short_help="Talk with a model in this terminal.")
@choice_options
@click.option("--yes", is_flag=True, help="Answer yes to every permission question.")
def chat(choice: Choice, yes: bool) -> int:
    """Talk with a model, in a new session or another one.

    What is typed while it works joins the work at its next step. Ctrl-C stops what runs, Ctrl-D
    leaves; /help lists the commands.

    \b
    Examples:
      perdure chat
      perdure chat -c
      perdure chat -s 7k2m9q -m local/qwen3
    """
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise UsageError("a chat needs a terminal; `perdure run PROMPT` works without one")
    return anyio.run(_chat, choice, yes)


async def _chat(choice: Choice, yes: bool) -> int:
    # prompt_toolkit is slow to import, and only a chat needs it.
    from perdure.cli.chat.conversation import Conversation
    from perdure.cli.chat.face import Chat
    from perdure.cli.chat.permitting import ChatAsker
    from perdure.cli.chat.screen import Screen

    code, sight = 0, Sight()
    screen = Screen(Output(sys.stdout))
    with Warnings(screen):
        async with (
            opened(ask=ChatAsker(screen, sight), allow_all=yes, titles=True) as runtime,
            anyio.create_task_group() as group,
        ):
            conversation = Conversation(runtime, screen, sight, choice, group)
            await conversation.begin()
            chat = Chat(conversation, screen, group)
            await chat.run(Path(choice.directory or "."))
            if conversation.session is not None and chat.code != 128 + signal.SIGHUP:
                short = await short_id(runtime, conversation.session.id)
                with suppress(OutputGone, OSError):
                    noted(f"go on with: perdure chat -s {short}")
            code = chat.code
            group.cancel_scope.cancel()
    return code
