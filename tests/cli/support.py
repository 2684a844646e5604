"""Commands in processes of their own, against the strict scripted provider."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio

from perdure import Runtime
from perdure.store.contract import SessionRow
from perdure.store.database import Database
from perdure.testing import (
    Finished,
    ReceivedRequest,
    Reply,
    Script,
    ScriptedProvider,
    assert_prefix_kept,
    empty,
    home_of,
    run_cli,
    serve_in_thread,
    start_cli,
    write_config,
)
from perdure.testing.provider import ProtocolName

KEY = "SCRIPTED_API_KEY"


class Shell:
    """One directory in which commands are typed."""

    def __init__(self, directory: Path, provider: ScriptedProvider) -> None:
        self.directory = directory
        self.provider = provider
        self.prefix_may_break = ""

    def run(self, *arguments: str, **options: Any) -> Finished:
        """Run a command to its end."""
        env = {KEY: "scripted-key", **options.pop("env", {})}
        return run_cli(arguments, cwd=self.directory, env=env, **options)

    @contextmanager
    def start(self, *arguments: str) -> Generator[subprocess.Popen[str]]:
        """Start a command and leave it running; what is left at the end is killed."""
        with start_cli(arguments, self.directory, {KEY: "scripted-key"}) as process:
            yield process

    def until_waiting(self) -> None:
        """Wait until a prompt waits in the inbox of a session."""

        async def look() -> None:
            async with Runtime.open(self.store) as runtime:
                with anyio.fail_after(60):
                    while not any(row.pending for row in await runtime.sessions()):
                        await anyio.sleep(0.01)

        anyio.run(look)

    @contextmanager
    def locked_store(self) -> Generator[None]:
        """Keep every other process from writing."""
        database = Database(self.store, busy_timeout=60).connect()
        with closing(database):
            database.execute("BEGIN IMMEDIATE")
            yield

    @property
    def store(self) -> Path:
        """The path of the database."""
        return home_of(self.directory) / "data" / "perdure.db"

    def row(self) -> SessionRow:
        """Return the only session as the store has it."""

        async def look() -> SessionRow:
            async with Runtime.open(self.store) as runtime:
                (row,) = await runtime.sessions()
                return row

        return anyio.run(look)

    def the_session(self) -> str:
        """Return the id of the only session."""
        return self.row().id

    def status(self) -> str:
        """Return what listings say that the only session does."""
        return self.listed()["status"]

    def listed(self) -> dict[str, str]:
        """Return the only session as `perdure sessions list --json` has it."""
        (row,) = json.loads(self.run("sessions", "list", "--json").out)
        return row


@contextmanager
def shell(
    root: Path,
    script: Sequence[Any] | Script = (),
    protocol: ProtocolName = "openai-chat",
    config: Mapping[str, Any] | None = None,
    titles: Script | None = None,
) -> Generator[Shell]:
    """Open a directory with a configured provider, which has no title for a session to say.

    On leaving, each request must begin with the one before it. A test that breaks that on purpose,
    by a second session, a new epoch or a model switch, says why in `prefix_may_break`.
    """
    directory = root / "project"
    directory.mkdir(parents=True, exist_ok=True)
    with serve_in_thread(script, titles=titles or _no_title) as provider:
        settings = provider.config(protocol, api_key_env=KEY)
        write_config(directory, {**settings, **(config or {})})
        opened = Shell(directory, provider)
        yield opened
        if not opened.prefix_may_break:
            assert_prefix_kept(provider.requests)


def _no_title(_request: ReceivedRequest, _number: int) -> Reply:
    return empty()


def until(condition: Callable[[], object]) -> None:
    """Wait until something holds that another process brings about."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def finished(process: subprocess.Popen[str]) -> Finished:
    """Wait until a started command has ended."""
    out, err = process.communicate(timeout=60)
    return Finished(process.returncode, out, err)


def one_line(ended: Finished, code: int) -> str:
    """Return the one line of the error, having checked the exit code and that it is one line."""
    assert ended.code == code, ended
    assert "Traceback" not in ended.err
    lines = [line for line in ended.err.splitlines() if line.startswith("perdure: ")]
    assert len(lines) == 1, ended.err
    return lines[0]
