"""Write the database of the corpus for the schema of this version.

    python -m tests.store.corpus.write

Run it once for every new step of the schema, before that version is given to anybody, and never
change the file again: it is what users of that version have on their disks. It holds, once for each
protocol, a plain session, one with tool calls and System Messages, one that was compacted, one with
prompts that wait, and one whose step was open when its process died; one that went from model
to model and from place to place; and, from schema 2 on, one that works on a task of another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import apsw
import msgspec

from perdure import Runtime, Session, Tool, ToolContext
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.store.contract import Store
from perdure.store.schema import MIGRATIONS
from perdure.store.sqlite import open_sqlite
from perdure.testing import ScriptedProvider, call, calls, isolated_environment, say, think

CORPUS = Path(__file__).parent
MODELS = ("chat/model-1", "claude/claude-opus-5")

# Everywhere there, and nowhere the home of a project with instructions of its own.
DIRECTORY, ELSEWHERE = "/", "/usr"


class Word(msgspec.Struct):
    """The arguments of both tools."""

    word: str


class Crash:
    """Lets tool calls run until the database was copied, as a crash would leave it."""

    def __init__(self) -> None:
        self.running = 0
        self.copied = anyio.Event()

    async def wait(self, _arguments: Word, _context: ToolContext) -> str:
        """Run until the copy is made."""
        self.running += 1
        await self.copied.wait()
        return "too late"


async def _look_up(arguments: Word, _context: ToolContext) -> str:
    return f"{arguments.word} means {arguments.word}"


def tools(crash: Crash) -> list[Tool[Any]]:
    """Return the tools that the sessions know."""
    return [
        Tool(name="look_up", description="Look a word up.", arguments=Word, run=_look_up),
        Tool(name="wait", description="Wait for a word.", arguments=Word, run=crash.wait),
    ]


def config(provider: ScriptedProvider) -> Mapping[str, Any]:
    """Return a configuration with both protocols."""
    chat = provider.config("openai-chat", name="chat")
    claude = provider.config("anthropic", name="claude", model="claude-opus-5")
    allowed = {"look_up": "allow", "wait": "allow"}
    both = {**chat["providers"], **claude["providers"]}
    return {"model": MODELS[0], "providers": both, "permissions": allowed}


async def ask(session: Session, text: str) -> None:
    """Prompt, and wait until it is answered."""
    await session.prompt(text)
    await session.wait()


async def _plain(session: Session) -> None:
    await ask(session, "What lasts?")


async def _with_tools(session: Session) -> None:
    await ask(session, "What do these two words mean?")
    await session.set_entry("mood", {"now": "curious"})
    await ask(session, "And now?")
    await session.remove_entry("mood")
    await ask(session, "And then?")


async def _compacted(session: Session) -> None:
    for number in ("one", "two", "three"):
        await ask(session, f"Question {number}?")
    await session.compact()
    await ask(session, "What was said?")


async def _waiting(session: Session, store: Store) -> None:
    await ask(session, "Anything?")
    model = (await session.state()).model
    ids = [f"{model}-{number}" for number in (1, 2, 3)]
    await store.append(
        session.id,
        [
            ev.PromptAdmitted(ids[0], "The first that waits."),
            ev.PromptAdmitted(ids[1], "The second.", delivery="queue"),
            ev.PromptAdmitted(ids[2], "Never mind."),
            ev.PromptWithdrawn(ids[2]),
        ],
    )


async def _task(parent: Session, runtime: Runtime, store: Store) -> None:
    created = ev.SessionCreated(
        directory=DIRECTORY,
        project=DIRECTORY,
        model=MODELS[0],
        marker="lasting",
        title="task",
        parent=parent.id,
        call="call-1",
    )
    await store.create(f"task-of-{parent.id}", [created])
    await ask(await runtime.session(f"task-of-{parent.id}"), "What is to be done?")


async def _travelled(session: Session) -> None:
    await ask(session, "Where are we?")
    await session.switch_model(MODELS[1])
    await ask(session, "And who are you now?")
    await session.move(ELSEWHERE)
    await session.rename("travelled far")
    await ask(session, "And where are we now?")


SCRIPT = [
    *(say("What is written down."), think("What does?") + say("The log.")),
    *[
        reply
        for _ in MODELS
        for reply in (
            think("Two words.") + calls(("look_up", {"word": "a"}), ("look_up", {"word": "b"})),
            *(say("They mean themselves."), say("Curious."), say("Not any more.")),
        )
    ],
    *[
        say(text)
        for _ in MODELS
        for text in ("One.", "Two.", "Three.", "Three questions were asked.", "All of it.")
    ],
    *(say("Nothing.") for _ in MODELS),
    *(say("Here."), say("Another."), say("Elsewhere.")),
    say("It is done."),
    *(think("Wait.") + call("wait", {"word": "long"}) for _ in MODELS),
]


async def write(path: Path) -> None:
    """Write a database with one of each kind of session."""
    crash = Crash()
    with tempfile.TemporaryDirectory() as home:
        async with (
            ScriptedProvider(SCRIPT) as provider,
            await open_sqlite(
                Path(home) / "store.db", clock=SystemClock(), lease_seconds=0.2
            ) as store,
            Runtime.open(
                store,
                config=config(provider),
                environ=isolated_environment(Path(home)),
                tools=tools(crash),
            ) as runtime,
        ):
            await _fill(runtime, store)
            await _crash(runtime, crash, Path(home) / "store.db", path)
            if provider.refused or provider.unexpected or provider.remaining:
                raise RuntimeError(f"the script does not fit: {provider.refused}")


async def _fill(runtime: Runtime, store: Store) -> None:
    async def begin(title: str, model: str) -> Session:
        return await runtime.create_session(
            directory=DIRECTORY, model=model, title=title, instructions="Be short."
        )

    for model in MODELS:
        await _plain(await begin("plain", model))
    for model in MODELS:
        await _with_tools(await begin("tools", model))
    for model in MODELS:
        await _compacted(await begin("compacted", model))
    for model in MODELS:
        await _waiting(await begin("waiting", model), store)
    travelled = await begin("travelled", MODELS[0])
    await _travelled(travelled)
    await _task(travelled, runtime, store)


async def _crash(runtime: Runtime, crash: Crash, source: Path, target: Path) -> None:
    for model in MODELS:
        session = await runtime.create_session(directory=DIRECTORY, model=model, title="open step")
        await session.prompt("Wait for it.")
    with anyio.fail_after(60):
        while crash.running < len(MODELS):
            await anyio.sleep(0.01)
    _copy(source, target)
    crash.copied.set()


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    read, written = apsw.Connection(str(source)), apsw.Connection(str(target))
    with written.backup("main", read, "main") as copying:
        while not copying.done:
            copying.step()
    written.close()
    read.close()


def main() -> None:
    """Write the file, unless it is there: what was given out is never changed."""
    path = CORPUS / f"schema-{len(MIGRATIONS)}.sqlite3"
    if path.exists():
        raise SystemExit(f"{path.name} is there already and must stay as it is")
    anyio.run(write, path)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
