"""`perdure run`: one prompt, answered."""

from __future__ import annotations

import sys
from contextlib import aclosing, suppress
from pathlib import Path

import anyio
import click
import msgspec

from perdure.background import background
from perdure.cli.arguments import prompt_text
from perdure.cli.asking import Asker, can_ask
from perdure.cli.attaching import (
    image_option,
    read_files,
    unless_refused,
    went_along,
    with_named,
)
from perdure.cli.choosing import Choice, choice_options, choose
from perdure.cli.listing import short_id
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.report import Ending, JsonReporter, Reporter, TextReporter
from perdure.cli.stopping import Stop
from perdure.cli.terminal import Terminal, Warnings
from perdure.errors import PerdureError
from perdure.history.content import Image
from perdure.history.events import InterruptAsked, PromptWithdrawn
from perdure.runtime import Runtime
from perdure.session.handle import Admission, Session


class Sent(msgspec.Struct, frozen=True):
    """What is sent: the text, the files of --image; `named` where the text may name images too."""

    text: str
    files: list[Path]
    named: bool


@click.command(short_help="Send one prompt and print the answer.")
@click.argument("prompt")
@choice_options
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@image_option
@click.option("--yes", is_flag=True, help="Answer yes to every permission question.")
def run(prompt: str, choice: Choice, format_: str, files: list[Path], yes: bool) -> int:
    """Send PROMPT, in a new session or another one, and print the answer.

    A PROMPT of - is read from standard input. Images that PROMPT names are sent with it, where the
    model takes images. The answer goes to standard output, all else to standard error.

    \b
    Examples:
      perdure run "Why does the build fail?"
      perdure run -c "And on Python 3.13?"
      perdure run "What is wrong in @shot.png?"
      git diff | perdure run --format json -
    """
    text = prompt_text(prompt)
    sent = Sent(text, files, named=prompt != "-")
    asking = prompt != "-" and can_ask()
    return anyio.run(_run, sent, choice, format_ == "json", yes, asking)


async def _run(sent: Sent, choice: Choice, json: bool, yes: bool, asking: bool) -> int:
    out, err = Output(sys.stdout), Output(sys.stderr)
    terminal = Terminal(out, err)
    answering = _Answering(out, terminal, json=json)
    ask = answering.asker if asking else None
    ending = Ending()
    with Warnings(terminal):
        async with opened(ask=ask, allow_all=yes) as runtime:
            session, images = await _begin(runtime, sent, choice, terminal)
            if not err.is_terminal:
                terminal.note(f"session: {session.id}")
            if words := went_along(images):
                terminal.note(words)
            ending = await answering.answer(session, sent.text, images)
            terminal.end_line()
            if err.is_terminal:
                terminal.note(f"go on with: perdure run -s {await short_id(runtime, session.id)}")
    return answering.stop.code or _code(session, ending)


async def _begin(
    runtime: Runtime, sent: Sent, choice: Choice, terminal: Terminal
) -> tuple[Session, tuple[Image, ...]]:
    """Return the session and the images of its prompt; for refused ones, none is begun."""
    images = await read_files(sent.files)
    session = await choose(runtime, choice, sent.text, terminal)
    async with unless_refused(runtime, session, begun=not (choice.session or choice.again)):
        if sent.named or images:
            images = await with_named(session, sent.text if sent.named else "", images, terminal)
    return session, images


class _Answering:
    """One prompt on its way from the inbox to its settlement, before the eyes of a person."""

    def __init__(self, out: Output, terminal: Terminal, *, json: bool) -> None:
        self._terminal = terminal
        self._reporter: Reporter = JsonReporter(out) if json else TextReporter(out, terminal)
        # What is shown and what is asked take turns on the screen.
        self._turn = anyio.Lock()
        self.asker = Asker(terminal, self._turn)
        self.stop = Stop()

    async def answer(self, session: Session, text: str, images: tuple[Image, ...]) -> Ending:
        """Admit the prompt and show what becomes of it; return how it ended."""
        ending = Ending()
        async with background() as group:
            await group.start(self.stop.watch, session)
            group.start_soon(self._terminal.show_progress)
            admission = await session.prompt(text, images=images, delivery="queue", hold=True)
            ending = await self._follow(session, admission)
            await self._answer_others(session)
        return ending

    async def _answer_others(self, session: Session) -> None:
        """Let the drain go on to the end: leaving would interrupt what was sent meanwhile."""
        self._terminal.wait_for("the answer to what was sent meanwhile")
        with suppress(PerdureError):  # `perdure sessions list` says why the rest still waits
            await session.wait(only_here=True)

    async def _follow(self, session: Session, admission: Admission) -> Ending:
        ending = Ending()
        with self.stop.reading():
            records = session.events(after=admission.seq, prompt=admission.id)
            async with aclosing(records):
                async for record in records:
                    async with self._turn:
                        self._reporter.show(record)
                    self.asker.saw(record)
                    ending = ending.after(record)
                    if record.data == PromptWithdrawn(admission.id):
                        ending = msgspec.structs.replace(ending, outcome="withdrawn")
        if not self.stop.code and await _interrupted_elsewhere(session, admission, ending):
            self._terminal.note("interrupted by `perdure interrupt` or another program")
            ending = msgspec.structs.replace(ending, outcome="interrupted")
        if not ending.promoted and (self.stop.code or ending.outcome == "interrupted"):
            self._terminal.note("the prompt is kept: the next run of this session answers it first")
        return ending


async def _interrupted_elsewhere(session: Session, admission: Admission, ending: Ending) -> bool:
    """Say whether the prompt has no answer because somebody asked its drain to stop."""
    if ending.outcome == "interrupted":
        return True
    if ending.outcome and not ending.open_calls:
        return False
    # Asked while the prompt still waited, it left no settlement behind.
    last = (await session.state()).last_seq
    async with aclosing(session.events(after=admission.seq - 1)) as records:
        async for record in records:
            if isinstance(record.data, InterruptAsked) or record.seq == last:
                return isinstance(record.data, InterruptAsked)
    return False


def _code(session: Session, ending: Ending) -> int:
    """Return the exit code for how the prompt ended; raise what the user must read."""
    match ending.outcome:
        case "completed" if not ending.open_calls:
            return 0
        case "completed":
            raise PerdureError(f"the step limit is reached; `perdure run -s {session.id}` goes on")
        case "interrupted":
            return 130
        case "declined":
            raise PerdureError("a tool call was declined, so the run ended there")
        case "withdrawn":
            raise PerdureError("the prompt was withdrawn before its turn came")
        case _:
            reason = ending.failure.message if ending.failure else "the prompt was not answered"
            raise PerdureError(reason)
