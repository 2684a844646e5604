"""Arguments that several commands take, checked before anything is opened."""

from __future__ import annotations

import sys

import click

from perdure.errors import UsageError


def unicode_text(text: str, what: str) -> str:
    """Return text as it is; raise UsageError where its bytes are not UTF-8."""
    try:
        text.encode()
    except UnicodeError:
        raise UsageError(f"the {what} is not valid UTF-8") from None
    return text


def given_text(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check the text of an option or argument; a callback for click.

    Raises UsageError for text that is empty, as a variable that is not set would give it, and for
    text that is not UTF-8.
    """
    if value is None:
        return None
    name = parameter.make_metavar(context).strip("[]")
    if not value.strip():
        raise UsageError(f"the {name} is empty; give one")
    return unicode_text(value, name)


def prompt_text(argument: str) -> str:
    """Return the prompt that was given, or is to be read where it is `-`; UsageError for none."""
    if argument == "-":
        # Bytes that are no UTF-8 are found below, as those of an argument are.
        argument = sys.stdin.buffer.read().decode(errors="surrogateescape") if sys.stdin else ""
    unicode_text(argument, "prompt")
    if not argument.strip():
        raise UsageError("the prompt is empty; write what the model should do")
    return argument


class WholeNumber(click.IntRange):
    """A number of an option, named in the words of its user where it is none."""

    name = "whole number"


session_id = click.argument("session", metavar="ID", callback=given_text)
"""The id of a session, or a beginning that no other one has."""

look_from = click.option(
    "-C",
    "directory",
    metavar="DIR",
    default=".",
    callback=given_text,
    help="Look from this directory.",
)
"""Where a command that shows what holds looks."""
