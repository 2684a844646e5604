"""The group of all commands, and what becomes of an error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import cast

import click

from perdure.cli.commands import CommandTable
from perdure.cli.output import Output, OutputGone
from perdure.cli.problems import ProblemLog
from perdure.errors import PerdureError, UsageError

_HINT = re.compile(r"\.? \(?Did you mean (.+)\?\)?$")
"""How click ends a message with the nearest names."""

_INTERRUPTED = 130
_OUTPUT_GONE = 141
"""What a shell reports for a program that wrote into a closed pipe."""


@click.group(cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="perdure", message="%(prog)s %(version)s")
def perdure() -> None:
    """Durable sessions with language models that always know the facts of now."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code.

    0: done. 1: it failed. 2: it was asked for in a way that cannot be, or the configuration is
    wrong. 130, 141, 143: ended by Ctrl-C, by a reader that left, by a request to terminate.
    Whatever goes wrong is one line on standard error.
    """
    problems = ProblemLog(os.environ)
    with problems.installed():
        try:
            return perdure.main(arguments, prog_name="perdure", standalone_mode=False) or 0
        except Exception as error:  # noqa: BLE001 - no traceback reaches a user
            return _settle(_first(error), problems)
        except KeyboardInterrupt:
            return _INTERRUPTED
        except SystemExit:
            return _OUTPUT_GONE  # how click ends when nobody reads its help


def _settle(error: BaseException, problems: ProblemLog) -> int:
    """Say in one line what went wrong; return the exit code."""
    match error:
        case OutputGone():
            return _OUTPUT_GONE
        case click.Abort() | KeyboardInterrupt():
            return _INTERRUPTED
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return error.exit_code
        case click.ClickException():
            return _fail(_usage(error), 2)
        case PerdureError():
            return _fail(str(error) + _details(problems), 2 if isinstance(error, UsageError) else 1)
        case OSError() if error.filename is None:
            return _fail(f"cannot read or write: {error.strerror or error}", 1)
        case _:
            problems.keep(error)
            kind = type(error).__name__
            return _fail(f"internal error ({kind}); please report it{_details(problems)}", 1)


def _fail(message: str, code: int) -> int:
    # Where nobody is there to read it, the exit code still tells.
    with suppress(OutputGone, OSError):
        Output(sys.stderr).write(f"perdure: {' '.join(message.split())}\n")
    return code


def _usage(error: click.ClickException) -> str:
    message = error.format_message().strip()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return message
    message = _HINT.sub(r"; did you mean \1?", f"{message[0].lower()}{message[1:].rstrip('.')}")
    return f"{message}{'' if message[-1] == '?' else ';'} see `{context.command_path} --help`"


def _details(problems: ProblemLog) -> str:
    return f"; the details are in {problems.file}" if problems.file else ""


def _first(error: BaseException) -> BaseException:
    """Return the error that says most among those that concurrent tasks have raised."""
    leaves = list(_leaves(error))
    return next(
        (leaf for leaf in leaves if isinstance(leaf, (PerdureError, OutputGone))), leaves[0]
    )


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for inner in group.exceptions:
            yield from _leaves(inner)
    else:
        yield error
