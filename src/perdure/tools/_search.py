"""Look through a tree of files: what a directory holds, which names match, which lines match.

A program of its own: `python -I _search.py` with a request on its standard input. Patterns, and
the ignore files of a project that somebody else wrote, become regular expressions that can take
for ever; here they block nobody, and whoever asked can put an end to it. It imports nothing of
Perdure, to start fast.

The request is a JSON object, see `Request`. Each line of the answer is one JSON object: one with
`found` for each find, and at last one with `ended`, or one with `error`.

Git's ignore rules hold whether or not the project is under git. The rules of a repository start
anew inside of a nested one. A directory that was asked for by name shows its content even where it
is ignored itself. Links are never followed.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TextIO

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_LARGEST_RULES = 1024 * 1024
_DEEPEST = 200
_SAMPLE = 64 * 1024
_LONGEST_LINE = 1024 * 1024
_SHOWN_LINE = 500


class Request(NamedTuple):
    """What to look for.

    `names` lead from the directory `root` to the one to look at, or to the one that holds `file`
    where that alone is to be looked at. `shown` is put before the path of every result. `limit`
    results are told, and the program ends itself after `seconds`. `path` is where else to look for
    modules.
    """

    task: str
    root: str
    names: list[str]
    shown: str
    pattern: str
    include: str
    file: str
    limit: int
    seconds: int
    path: list[str]


class Entry(NamedTuple):
    """A file in the tree: its path from the directory that was asked for, and its own place."""

    path: str
    name: str
    directory: int


class Rules(NamedTuple):
    """The ignore rules of one directory: `depth` names down from the root, compiled."""

    depth: int
    compiled: Any


class Tree:
    """Walks a tree in the order of its paths and counts what it left out."""

    def __init__(self) -> None:
        self.ignored = 0
        self.deeper = 0

    def children(
        self, directory: int, names: tuple[str, ...], rules: list[Rules]
    ) -> Iterator[os.DirEntry[str]]:
        """Give the entries of an open directory that are not ignored, in order."""
        with os.scandir(directory) as entries:
            ordered = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        for entry in ordered:
            if entry.name == ".git":
                continue
            if is_ignored((*names, entry.name), _is_directory(entry), rules):
                self.ignored += 1
            else:
                yield entry

    def files(
        self, directory: int, names: tuple[str, ...], rules: list[Rules], below: str = ""
    ) -> Iterator[Entry]:
        """Give every file and link below an open directory; `names` lead to it from the root."""
        for entry in self.children(directory, names, rules):
            path = below + entry.name
            if not _is_directory(entry):
                yield Entry(path, entry.name, directory)
            elif len(names) >= _DEEPEST:
                self.deeper += 1
            else:
                yield from self._inside(directory, (*names, entry.name), rules, path)

    def _inside(
        self, parent: int, names: tuple[str, ...], rules: list[Rules], path: str
    ) -> Iterator[Entry]:
        try:
            directory = os.open(names[-1], _DIRECTORY, dir_fd=parent)
        except OSError:
            # It vanished, may not be read, or became a link: nothing of it can be told.
            return
        try:
            yield from self.files(directory, names, with_rules(directory, names, rules), f"{path}/")
        finally:
            os.close(directory)


def is_ignored(names: tuple[str, ...], is_directory: bool, rules: list[Rules]) -> bool:
    """Tell whether the nearest rule about a path, from its own directory upward, ignores it."""
    for own in reversed(rules):
        path = "/".join(names[own.depth :]) + ("/" if is_directory else "")
        verdict = own.compiled.check_file(path).include
        if verdict is not None:
            return bool(verdict)
    return False


def with_rules(directory: int, names: tuple[str, ...], rules: list[Rules]) -> list[Rules]:
    """Return the rules that hold inside an open directory."""
    lines: list[str] = []
    if _exists(".git", directory):
        rules = []
        lines += _lines(".git/info/exclude", directory)
    lines += _lines(".gitignore", directory)
    compiled = _compiled(lines) if lines else None
    return [*rules, Rules(len(names), compiled)] if compiled else rules


def translated(pattern: str) -> str:
    """Return a glob pattern as a regular expression for whole paths.

    `*` and `?` match within a name, `**` any number of directories, `[...]` one character,
    `{a,b}` either. A name that begins with a dot is no exception.
    """
    parts: list[str] = []
    at, depth = 0, 0
    while at < len(pattern):
        piece, at, depth = _next_piece(pattern, at, depth)
        parts.append(piece)
    if depth:
        raise ValueError("a `{` is not closed")
    return "".join(parts)


def _next_piece(pattern: str, at: int, depth: int) -> tuple[str, int, int]:
    rest = pattern[at:]
    if rest.startswith("**/") and (at == 0 or pattern[at - 1] in "/{,"):
        return "(?:.*/)?", at + 3, depth
    if rest.startswith("**"):
        return ".*", at + 2, depth
    if rest[0] == "[" and (end := rest.find("]", 2)) > 0:
        return _character_class(rest[1:end]), at + end + 1, depth
    if rest[0] == "{":
        return "(?:", at + 1, depth + 1
    if depth and rest[0] in ",}":
        return ("|", at + 1, depth) if rest[0] == "," else (")", at + 1, depth - 1)
    if rest[0] == "\\" and len(rest) > 1:
        return re.escape(rest[1]), at + 2, depth
    return {"*": "[^/]*", "?": "[^/]"}.get(rest[0], re.escape(rest[0])), at + 1, depth


def _character_class(inside: str) -> str:
    negated = inside[0] in "!^"
    inside = re.sub(r"([\\\[\]&~|])", r"\\\1", inside[negated:])
    return f"(?!/)[{'^' if negated else ''}{inside}]"


def path_filter(pattern: str) -> Callable[[str], object]:
    """Return the test of a glob pattern; one without a slash is about the name alone."""
    matches = re.compile(translated(pattern), re.DOTALL).fullmatch
    if "/" in pattern:
        return matches
    return lambda path: matches(path.rpartition("/")[2])


def main() -> None:
    """Answer the request on standard input."""
    warnings.simplefilter("ignore")
    request = Request(**json.loads(sys.stdin.buffer.read()))
    # Whoever asked may be gone; an expression without end must not run on.
    signal.alarm(request.seconds)
    sys.path += request.path
    try:
        answer(request)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        tell(error=f"the pattern is not valid: {error}")
    except OSError as error:
        tell(error=f"the directory cannot be read: {error.strerror}")


def answer(request: Request) -> None:
    """Print what was found, up to the limit, and how much more there is."""
    tree = Tree()
    told = more = 0
    for found in TASKS[request.task](request, tree):
        if told < request.limit:
            told += 1
            tell(found=_text(found))
        else:
            more += 1
            if request.task == "grep":
                break
    tell(ended=True, more=more, ignored=tree.ignored, deeper=tree.deeper)


def tell(**line: object) -> None:
    """Print one line of the answer."""
    print(json.dumps(line), flush=True)


def found_by_list(request: Request, tree: Tree) -> Iterator[str]:
    """Give the names in one directory."""
    directory, names, rules = _descend(request)
    for entry in tree.children(directory, names, rules):
        if entry.is_symlink():
            yield _link(entry.name, directory)
        else:
            yield entry.name + ("/" if _is_directory(entry) else "")


def found_by_glob(request: Request, tree: Tree) -> Iterator[str]:
    """Give the paths that match a pattern."""
    matches = re.compile(translated(request.pattern), re.DOTALL).fullmatch
    directory, names, rules = _descend(request)
    for entry in tree.files(directory, names, rules):
        if matches(entry.path):
            yield request.shown + entry.path


def found_by_grep(request: Request, tree: Tree) -> Iterator[str]:
    """Give the lines that match a regular expression, as `path:line:text`."""
    expression = re.compile(request.pattern)
    wanted = path_filter(request.include) if request.include else None
    directory, names, rules = _descend(request)
    one = [Entry(request.file, request.file, directory)]
    for entry in one if request.file else tree.files(directory, names, rules):
        if wanted is None or wanted(entry.path):
            for number, line in _matching(entry, expression):
                yield f"{request.shown}{entry.path}:{number}:{cut(line)}"


TASKS = {"list": found_by_list, "glob": found_by_glob, "grep": found_by_grep}


def cut(line: str) -> str:
    """Return a line no longer than is shown of one."""
    return line if len(line) <= _SHOWN_LINE else f"{line[:_SHOWN_LINE]} [... cut ...]"


def _descend(request: Request) -> tuple[int, tuple[str, ...], list[Rules]]:
    directory = os.open(request.root, _DIRECTORY)
    rules = with_rules(directory, (), [])
    names: tuple[str, ...] = ()
    for name in request.names:
        names = (*names, name)
        directory = os.open(name, _DIRECTORY, dir_fd=directory)
        if is_ignored(names, True, rules):
            rules = []
        rules = with_rules(directory, names, rules)
    return directory, names, rules


def _matching(entry: Entry, expression: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    try:
        descriptor = os.open(entry.name, _FILE, dir_fd=entry.directory)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return
        sample = file.read(_SAMPLE)
        file.seek(0)
        wide = sample.startswith((b"\xff\xfe", b"\xfe\xff"))
        if wide or b"\0" not in sample:
            encoding = "utf-16" if wide else "utf-8-sig"
            text = io.TextIOWrapper(file, encoding, errors="replace", newline="\n")
            yield from _matching_lines(text, expression)


def _matching_lines(text: TextIO, expression: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    number = 0
    while line := text.readline(_LONGEST_LINE):
        number += 1
        if "\0" in line:
            return
        start = line.removesuffix("\n").removesuffix("\r")
        if expression.search(start):
            yield number, start
        while line and not line.endswith("\n"):
            line = text.readline(_LONGEST_LINE)  # the rest of an endless line is passed over


def _is_directory(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True


def _lines(name: str, directory: int) -> list[str]:
    try:
        descriptor = os.open(name, _FILE, dir_fd=directory)
    except OSError:
        return []
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return []
        return file.read(_LARGEST_RULES).decode("utf-8-sig", "replace").splitlines()


def _compiled(lines: list[str]) -> Any:
    # Most trees have no rules at all, and this import costs more than the rest together.
    from pathspec import GitIgnoreSpec

    patterns: list[Any] = []
    for line in lines:
        try:
            patterns += GitIgnoreSpec.from_lines([line]).patterns
        except ValueError:
            continue  # git passes over a line that is no pattern, too
    return GitIgnoreSpec(patterns)


def _link(name: str, directory: int) -> str:
    try:
        return f"{name} -> {os.readlink(name, dir_fd=directory)}"
    except OSError:
        return name


def _text(found: str) -> str:
    return os.fsencode(found).decode("utf-8", "replace")


if __name__ == "__main__":
    main()
