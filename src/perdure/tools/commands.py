"""What a command line does, as far as permission rules need to know it.

A rule for `git status` must not let `git status; rm -r .` pass. So a command line is taken apart
into its simple commands, and where it holds anything that is not understood here, no rule for a
certain command can allow it.
"""

from __future__ import annotations

import re

from perdure.tools.base import Subject

_SEPARATING = frozenset(";&|\n")
_OPERATORS = _SEPARATING | frozenset("()<>{}")
_TOKEN = re.compile(r"[ \t]+|[;&|\n(){}<>]+|(?:'[^']*'|\"[^\"]*\"|[^ \t;&|\n(){}<>'\"])+")
_HARMLESS = re.compile(r"\s(?:[12]?>&[12]|[12&]?>\s?/dev/null)(?=[\s;&|]|$)")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_ASSIGNMENT = re.compile(r"\w+\+?=")
_BEGINNING = re.compile(r"(?:^|[\s;&|(){}`!'\"=/\\])(?=[^\s;&|(){}`!'\"=])")

# fmt: off
_WRAPPERS = frozenset({
    "!", ".", "[[", "bash", "builtin", "busybox", "case", "chroot", "command", "coproc", "dash",
    "do", "doas", "elif", "else", "env", "eval", "exec", "find", "flock", "for", "function", "if",
    "ionice", "ksh", "nice", "nohup", "parallel", "runuser", "script", "select", "setsid", "sh",
    "source", "ssh", "stdbuf", "strace", "su", "sudo", "taskset", "then", "time", "timeout",
    "trap", "unshare", "until", "watch", "while", "xargs", "zsh",
})
# fmt: on
"""Words before which, or as whose arguments, other commands stand."""


def command_subject(command: str) -> Subject:
    """Return the simple commands of a command line; inexact where it is not wholly understood."""
    parts = _simple_commands(_HARMLESS.sub(" ", command))
    return Subject((command.strip(),), exact=False) if parts is None else Subject(tuple(parts))


def could_begin(command: str) -> list[str]:
    """Return every end of a command line that might be run as a command of its own."""
    plain = re.sub(r"['\"\\]", "", command)  # as the shell reads r''m and r\m
    return [text[found.end() :] for text in (command, plain) for found in _BEGINNING.finditer(text)]


def _simple_commands(command: str) -> list[str] | None:
    tokens = _tokens(command)
    if tokens is None:
        return None
    commands: list[list[str]] = [[]]
    for token in tokens:
        if _SEPARATING.issuperset(token):
            commands.append([])
        elif _is_understood(token, first=not commands[-1]):
            commands[-1].append(_unquoted(token))
        else:
            return None
    return [" ".join(words) for words in commands if words] or None


def _tokens(command: str) -> list[str] | None:
    found = list(_TOKEN.finditer(command))
    if sum(len(each[0]) for each in found) < len(command):  # a quotation that never ends
        return None
    return [each[0] for each in found if each[0].strip(" \t")]


def _unquoted(token: str) -> str:
    return _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", token)


def _is_understood(token: str, *, first: bool) -> bool:
    if token[0] in _OPERATORS or "\n" in token or "\\" in token:
        return False
    if first and (_program(token) in _WRAPPERS or _ASSIGNMENT.match(token)):
        return False
    # Within single quotes nothing is expanded.
    return not re.search(r"[$`]", _QUOTED.sub(lambda quoted: quoted[2] or "", token))


def _program(token: str) -> str:
    return _unquoted(token).rpartition("/")[2]
