"""What a command line does, as far as permission rules need to know it.

A rule for `git status` must not let `git status; rm -r .` pass. So a command line is taken apart
into its simple commands, and where it holds anything that is not understood here, no rule for a
certain command can allow it.
"""

from __future__ import annotations

import re
import shlex

from perdure.tools.base import Subject

_SEPARATING = frozenset(";&|\n")
_OPERATORS = frozenset("()<>{}")
_HARMLESS = re.compile(r"\s(?:[12]?>&[12]|[12&]?>\s?/dev/null)(?=[\s;&|]|$)")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_ASSIGNMENT = re.compile(r"\w+\+?=")
_BEGINNING = re.compile(r"(?:^|[\s;&|(){}`!'\"=/\\])(?=[^\s;&|(){}`!'\"=])")

# fmt: off
_WRAPPERS = frozenset({
    "!", ".", "[[", "bash", "builtin", "case", "command", "coproc", "do", "doas", "elif",
    "else", "env", "eval", "exec", "find", "for", "function", "if", "nice", "nohup", "parallel",
    "select", "sh", "source", "ssh", "sudo", "then", "time", "timeout", "until", "watch",
    "while", "xargs", "zsh",
})
# fmt: on
"""Words before which, or as whose arguments, other commands stand."""


def command_subject(command: str) -> Subject:
    """Return the simple commands of a command line; inexact where it is not wholly understood."""
    parts = _simple_commands(_HARMLESS.sub(" ", command))
    return Subject((command.strip(),), exact=False) if parts is None else Subject(tuple(parts))


def could_begin(command: str) -> list[str]:
    """Return every end of a command line that might be run as a command of its own."""
    return [command[found.end() :] for found in _BEGINNING.finditer(command)]


def _simple_commands(command: str) -> list[str] | None:
    tokens = _tokens(command)
    if tokens is None:
        return None
    commands: list[list[str]] = [[]]
    for token in tokens:
        if _SEPARATING.issuperset(token):
            commands.append([])
        elif _is_understood(token, first=not commands[-1]):
            commands[-1].append(_QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", token))
        else:
            return None
    return [" ".join(words) for words in commands if words] or None


def _tokens(command: str) -> list[str] | None:
    # Without posix mode quotes stay, and tell a quoted operator from a real one.
    lexer = shlex.shlex(command, posix=False, punctuation_chars="();<>|&\n{}")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # a quotation that never ends
        return None


def _is_understood(token: str, *, first: bool) -> bool:
    if token[0] in _OPERATORS or "\n" in token or "\\" in token:
        return False
    if re.search("['\"]", token) and not _QUOTED.fullmatch(token):
        return False
    if first and (token in _WRAPPERS or _ASSIGNMENT.match(token)):
        return False
    # Within single quotes nothing is expanded.
    return not re.search(r"[$`]", re.sub(r"'[^']*'", "", token))
