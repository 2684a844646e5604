"""What the commands of a chat do."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from perdure.cli.branches import place
from perdure.cli.chat.conversation import Conversation
from perdure.cli.chat.screen import Screen
from perdure.cli.chat.typed import Command
from perdure.cli.context_page import next_step, source_standing
from perdure.cli.inbox import inbox_page, resolved
from perdure.cli.page import Block, Style, Words, heading, line, paragraphs, table
from perdure.cli.spending import prefix_words, spending_words, spent_words
from perdure.cli.times import local
from perdure.config.location import find_project, shown
from perdure.errors import PerdureError, ProviderError, UsageError
from perdure.history.events import Record, ToolSettled
from perdure.history.items import AssistantItem, Item, UserItem
from perdure.session.handle import Session
from perdure.session.spending import PrefixPrice, Spent
from perdure.tools.printable import shortened

Action = Callable[["Actions", str], Awaitable[None]]

_SHORT = 0.5
"""Seconds for which what is typed next waits for a command."""

_LONGEST = 2_000_000
"""Characters of a complete output that are put on the screen; the file has all of it."""


class Help(msgspec.Struct, frozen=True):
    """A command: what does it, what stands behind its name, what it does in one line.

    Each word of the `usage` stands for one that may be given; behind a `free` command, any text.
    `idle` commands are refused while the model works, `begun` ones before the first prompt.
    """

    action: Action
    usage: str
    help: str
    idle: bool = False
    begun: bool = True
    free: bool = False

    def takes(self, argument: str) -> bool:
        """Say whether no more stands behind the name than the usage has words for."""
        return self.free or len(argument.split()) <= len(self.usage.split())


class Actions:
    """Runs the commands, one at a time, in a conversation and on its screen."""

    def __init__(self, conversation: Conversation, screen: Screen) -> None:
        self._conversation = conversation
        self._screen = screen
        self._running = ""

    async def start(self, command: Command, group: TaskGroup) -> None:
        """Run a command, or only begin one that takes long; UsageError where it makes no sense."""
        known = COMMANDS[command.name]
        if not known.takes(command.argument):
            more = f"takes no more than that: /{command.name} {known.usage}"
            raise UsageError(f"/{command.name} {more if known.usage else 'stands alone'}")
        if known.action is Actions.leave:  # what runs is no reason to stay
            await self.leave(command.argument)
            return
        if self._running:
            raise UsageError(f"/{self._running} is not done yet")
        if known.begun and self._conversation.session is None:
            raise UsageError(f"/{command.name}: there is no session before the first prompt")
        if known.idle and self._conversation.busy:
            raise UsageError(f"/{command.name} has to wait: the model is at work; Ctrl-C stops it")
        self._running = command.name
        done = anyio.Event()
        group.start_soon(self._run, known.action, command.argument, done)
        # What was typed behind a short one comes after it; nothing waits for a long one.
        with anyio.move_on_after(_SHORT):
            await done.wait()

    async def _run(self, action: Action, argument: str, done: anyio.Event) -> None:
        try:
            await action(self, argument)
        except PerdureError as error:
            self._note(str(error), "bad")
        finally:
            self._running = ""
            done.set()

    async def show_help(self, _: str) -> None:
        """Show the commands and the keys."""
        rows = [(f"/{name} {each.usage}".rstrip(), each.help) for name, each in COMMANDS.items()]
        keys = [
            ("Alt-Enter, Ctrl-J", "begin a new line"),
            ("Up, Down, Ctrl-R", "go through what was typed here before, or search it"),
            ("Tab", "complete a command, or a path behind an @"),
            ("Ctrl-C", "stop what runs; else empty the line"),
            ("Ctrl-D", "leave"),
            ("Ctrl-Z", "stop the whole chat; `fg` in the shell goes on with it"),
        ]
        self._put([table(("COMMAND", "DOES"), rows), line(), table(("KEY", "DOES"), keys)])

    async def switch(self, name: str) -> None:
        """List the models, or switch to one after its price was agreed to."""
        conversation, session = self._conversation, self._conversation.session
        if not name:
            await self._list_models()
        elif session is None:
            await conversation.prefer(name)
            self._note(f"the session will use {conversation.model}")
        else:
            directory = (await session.row()).directory
            wanted = await conversation.runtime.choose_model(directory, name)
            price = await session.prefix_price(model=wanted)
            if await self._agreed(price, f"Switch to {shown(wanted)}?"):
                await session.switch_model(wanted)
                await conversation.look()
                self._note(f"{wanted} answers from the next step on")

    async def _list_models(self) -> None:
        now = self._conversation.model
        lines = [
            line(Words(shown(each), "strong" if each == now else ""), indent=2)
            for each in await self._conversation.models()
        ]
        self._put([line(f"the model is {shown(now)}; /model NAME switches"), *lines])

    async def compact(self, _: str) -> None:
        """Put a summary in the place of the older history."""
        session = self._session
        price = await session.prefix_price(compaction=True)
        if await self._agreed(price, "Compact the history?", compaction=True):
            try:
                if not await session.compact():
                    self._note("there is nothing to summarize")
            except ProviderError:
                pass  # the event of the failure has said so already

    async def move(self, directory: str) -> None:
        """Let the session work in another directory."""
        if not directory:
            raise UsageError("give a directory: /move DIR")
        session = self._session
        there = find_project(_from((await session.row()).directory, directory)).directory
        if await self._agreed(await session.prefix_price(), f"Move to {shown(there)}?"):
            await session.move(there)
            await self._conversation.look()
            self._note(f"the session works in {there} from its next step on")

    async def fork(self, message: str) -> None:
        """Go on in a copy of the session."""
        origin = self._session
        copy = await origin.fork(place(message) if message else None)
        await self._conversation.open(copy)
        self._note(f"this is a copy; `perdure chat -s {origin.id}` goes on with the other one")

    async def undo(self, _: str) -> None:
        """Go back to before the last prompt, and give its text back."""
        session = self._session
        prompts = _last_prompts(await session.messages())
        if not prompts:
            raise UsageError("/undo: there is no prompt to take back")
        await session.revert(prompts[0].seq - 1)
        self._screen.put("\n\n".join(each.text for each in prompts))

    async def cost(self, _: str) -> None:
        """Show tokens and dollars by model."""
        spending = await self._session.spending()
        kinds = {
            "steps": spending.steps,
            "summaries": spending.compactions,
            "titles": spending.titles,
        }
        lines = [_spent(kind, each) for kind, spent in kinds.items() for each in spent]
        self._put([line(Words(spending_words(spending) or "nothing was spent", "strong")), *lines])

    async def context(self, _: str) -> None:
        """Show what the model was told, and what the next step would tell."""
        view = await self._session.context()
        begun: list[Block] = [line("no epoch has begun yet", indent=2)]
        if view.epochs:
            epoch = view.epochs[-1]
            told = sum(each.epoch == epoch.number for each in view.messages)
            about = f"{epoch.number}, since {local(epoch.time)} ({', '.join(epoch.reasons)})"
            news = f"System Messages since: {told}"
            begun = [line(shown(about), indent=2), line(news, indent=2)]
        sources = [source_standing(each, view) for each in view.sources]
        pages = [heading("Epoch")[1:], begun, heading("Sources"), sources]
        self._put([*(b for page in pages for b in page), *heading("Next step"), *next_step(view)])

    async def expand(self, number: str) -> None:
        """Show the complete output of a call."""
        settled = self._conversation.reporter.settled
        wanted = place(number) if number else max(settled, default=0)
        if wanted not in settled:
            raise UsageError(f"no call here has the number {shortened(number or '1', 20)}")
        event = await _settlement(self._session, settled[wanted])
        output = await anyio.to_thread.run_sync(_complete, event)
        self._put([line(Words(f"[{wanted}]", "strong")), *paragraphs(output, "dim", indent=2)])

    async def rename(self, title: str) -> None:
        """Give the session another title."""
        if not (words := " ".join(title.split())):
            raise UsageError("give a title: /rename TITLE")
        await self._session.rename(words)
        await self._conversation.look()
        self._note(f"the title is now {words!r}")

    async def new(self, _: str) -> None:
        """Begin a new session with the next prompt."""
        row = self._conversation.row
        self._conversation.forget()
        if row is not None:
            self._note(f"a new session begins; `perdure chat -s {row.id}` goes on with the last")

    async def queue(self, text: str) -> None:
        """Send a prompt that waits for the end of the work."""
        if not text:
            raise UsageError("give a prompt: /queue TEXT")
        await self._conversation.send(text, "queue")

    async def inbox(self, change: str) -> None:
        """Show the prompts that wait, or change one."""
        session = self._session
        waiting = await session.inbox()
        match change.split():
            case []:
                self._put([inbox_page(waiting) if waiting else line("no prompt waits")])
            case ["withdraw", prefix]:
                await session.withdraw(resolved(session.id, waiting, prefix))
            case ["steer" | "queue" as delivery, prefix]:
                await session.redeliver(resolved(session.id, waiting, prefix), delivery)
                self._conversation.watch()
            case _:
                raise UsageError("/inbox takes withdraw, steer or queue, and the id of a prompt")

    async def leave(self, _: str) -> None:
        """Leave the chat."""
        self._screen.leave()

    @property
    def _session(self) -> Session:
        if self._conversation.session is None:
            raise UsageError("there is no session before the first prompt")
        return self._conversation.session

    async def _agreed(self, price: PrefixPrice, question: str, *, compaction: bool = False) -> bool:
        """Say what breaking the prefix costs, and ask; it is not asked for where it costs none."""
        if not price.tokens:
            return True
        costs = prefix_words(price, compaction=compaction)
        words = line(Words(f"{costs}. {question}", "strong"))
        answer = await self._screen.ask([line(), words], "[y/N]")
        return answer.lower() in {"y", "yes"}

    def _note(self, text: str, style: Style = "dim") -> None:
        self._conversation.reporter.note(text, style)

    def _put(self, blocks: list[Block]) -> None:
        self._conversation.reporter.put(blocks)


def _from(here: str, directory: str) -> Path:
    """Return a directory as a shell in another one would take it."""
    return Path(here) / os.path.expanduser(directory)  # noqa: PTH111 - Path raises without a home


def _last_prompts(items: list[Item]) -> list[UserItem]:
    """Return the prompts that were promoted last, together."""
    found: list[UserItem] = []
    for item in reversed(items):
        if isinstance(item, UserItem):
            found.insert(0, item)
        elif found and isinstance(item, AssistantItem):
            break
    return found


def _spent(kind: str, spent: Spent) -> Block:
    return line(f"{kind}: ", shown(spent.model), Words(f"  {spent_words(spent)}", "dim"), indent=2)


async def _settlement(session: Session, seq: int) -> ToolSettled:
    async with aclosing(session.events(after=seq - 1)) as records:
        async for record in records:
            if isinstance(record, Record) and isinstance(record.data, ToolSettled):
                return record.data
            break
    raise UsageError("this call is no longer in the log")


def _complete(event: ToolSettled) -> str:
    """Return the whole output of a call, from its file where it was cut."""
    if not event.file:
        return event.output or "no output"
    try:
        with Path(event.file).open("rb") as file:
            text = file.read(_LONGEST).decode("utf-8", "replace")
            more = file.read(1)
    except OSError:
        return event.output
    return f"{text}\n... the rest is in {event.file}" if more else text


COMMANDS: Mapping[str, Help] = {
    "help": Help(Actions.show_help, "", "show the commands and keys", begun=False),
    "model": Help(
        Actions.switch, "[PROVIDER/MODEL]", "list the models, or switch to one", begun=False
    ),
    "compact": Help(
        Actions.compact, "", "put a summary in the place of the older history", idle=True
    ),
    "context": Help(Actions.context, "", "show what the model was told, and what comes next"),
    "cost": Help(Actions.cost, "", "show tokens and dollars by model"),
    "expand": Help(Actions.expand, "[N]", "show the complete output of a call, or of the last"),
    "output": Help(Actions.expand, "[N]", "the same as /expand"),
    "move": Help(Actions.move, "DIR", "let the session work in another directory", free=True),
    "fork": Help(Actions.fork, "[MESSAGE]", "go on in a copy, up to a message", idle=True),
    "undo": Help(Actions.undo, "", "go back to before the last prompt", idle=True),
    "queue": Help(
        Actions.queue, "TEXT", "send a prompt for when the work is done", begun=False, free=True
    ),
    "inbox": Help(Actions.inbox, "[withdraw|steer|queue ID]", "show or change what waits"),
    "rename": Help(Actions.rename, "TITLE", "give the session another title", free=True),
    "new": Help(Actions.new, "", "begin a new session with the next prompt", idle=True),
    "quit": Help(Actions.leave, "", "leave; Ctrl-D does the same", begun=False),
}
"""The commands by name, in the order of /help."""
