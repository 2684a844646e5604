"""The tool `shell`: one command line, run in the Location."""

from __future__ import annotations

import codecs
import os
import shutil
import signal
from collections.abc import Mapping
from typing import Annotated

import msgspec
from anyio import to_thread

from perdure.errors import ToolError
from perdure.tools.base import Tool, ToolContext, ToolOutput
from perdure.tools.bounded import Limits, Spool
from perdure.tools.commands import command_subject
from perdure.tools.supervised import Ended, run_supervised


class ShellArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to run."""

    command: Annotated[str, msgspec.Meta(description="The command line.")]
    timeout: Annotated[
        float, msgspec.Meta(gt=0, le=600, description="Seconds until the command is ended.")
    ] = 120


def shell_tool(limits: Limits, hidden: frozenset[str]) -> Tool[ShellArguments]:
    """Return the tool; commands do not see the environment variables named in `hidden`."""

    async def run(arguments: ShellArguments, context: ToolContext) -> ToolOutput:
        if "\0" in arguments.command:
            raise ToolError("the command holds a NUL character; leave it out")
        with Spool(context.outputs, context.call, limits) as spool:
            output = _Output(spool, context)
            ended = await run_supervised(
                [shell_program(), "-c", arguments.command],
                context.directory,
                _environment(hidden),
                arguments.timeout,
                output.take,
            )
            output.end()
            bounded = await to_thread.run_sync(spool.finish)
        return ToolOutput(bounded.text, note=_note(ended, arguments.timeout), file=bounded.file)

    return Tool(
        name="shell",
        description=(
            "Run a command line with bash (sh where there is no bash) in the working directory. "
            "Output and errors come back together, with the exit code. There is no input. "
            "Processes left in the background are ended when the command ends."
        ),
        arguments=ShellArguments,
        run=run,
        subject=lambda arguments, _: command_subject(arguments.command),
        default="ask",
    )


class _Output:
    """Bytes of a command on their way to the reader who watches and to the result."""

    def __init__(self, spool: Spool, context: ToolContext) -> None:
        self._spool = spool
        self._progress = context.progress
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, piece: bytes) -> None:
        self._pass_on(self._decoder.decode(piece))

    def end(self) -> None:
        self._pass_on(self._decoder.decode(b"", final=True))

    def _pass_on(self, text: str) -> None:
        if text:
            self._spool.write(text)
            self._progress(text)


def shell_program() -> str:
    """Return the program that runs command lines on this machine."""
    return shutil.which("bash") or "/bin/sh"


def _environment(hidden: frozenset[str]) -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if name not in hidden}


def _note(ended: Ended, timeout: float) -> str:
    if ended.timed_out:
        return f"Timed out after {timeout:g} seconds; the command and all it started were ended."
    note = f"exit code {ended.status}"
    if ended.status < 0:
        note = f"exit code {128 - ended.status} ({_signal_name(-ended.status)})"
    if ended.left:
        note += "\nProcesses that the command left in the background were ended."
    return note


def _signal_name(number: int) -> str:
    try:
        return f"ended by {signal.Signals(number).name}"
    except ValueError:
        return f"ended by signal {number}"
