"""Search with ripgrep, which is much faster than our own program in a large tree."""

from __future__ import annotations

from perdure.tools._search import cut
from perdure.tools.confine import Place
from perdure.tools.searching import Finds, Search, run_lines

# The same files as our own program looks into, in the same order: git's ignore rules in any
# project, nobody's personal ones, no `.ignore` files, no links; dot files, but not `.git`.
_OPTIONS = (
    "--no-config",
    "--no-messages",
    "--no-ignore-messages",
    "--hidden",
    "--glob=!.git",
    "--no-require-git",
    "--no-ignore-dot",
    "--no-ignore-global",
    "--sort=path",
    "--crlf",
    "--line-number",
    "--no-heading",
    "--with-filename",
    "--null",
    "--color=never",
    "--max-columns=4000",
    "--max-columns-preview",
)


def suits(wanted: Search) -> bool:
    """Tell whether ripgrep would look into exactly the files that our own program looks into.

    For a part of a project outside of a repository it would also read the ignore files above the
    project, and `include` with a slash is about paths, which a type of ripgrep is not.
    """
    place = wanted.place
    whole = place.path == place.root
    return (
        not wanted.file and "/" not in wanted.include and (whole or (place.root / ".git").exists())
    )


async def search_with_ripgrep(program: str, wanted: Search) -> Finds | None:
    """Search with ripgrep. Return None where it does not take the pattern."""
    found: list[str] = []

    def take(line: bytes) -> bool:
        path, separator, rest = line.partition(b"\0")
        # Other lines are remarks, such as that a file is binary.
        if separator:
            found.append(_shown(wanted.shown, path, rest))
        return len(found) <= wanted.limit

    ended = await run_lines(_command(program, wanted), b"", wanted.place.path, wanted.seconds, take)
    if ended.complaint and not found:
        return None
    more = max(len(found) - wanted.limit, 0)
    return Finds(tuple(found[: wanted.limit]), more, complete=not ended.timed_out)


def _command(program: str, wanted: Search) -> list[str]:
    # A `--glob` for the wanted names would bring ignored files back; a type does not.
    types = [f"--type-add=wanted:{wanted.include}", "--type=wanted"] if wanted.include else []
    above = ["--no-ignore-parent"] if _is_whole(wanted.place) else []
    # Searched from inside: given as an argument, a directory of which the rules of the project
    # speak by its path would be searched as if they did not.
    return [program, *_OPTIONS, *types, *above, f"--regexp={wanted.pattern}", "."]


def _is_whole(place: Place) -> bool:
    return place.path == place.root


def _shown(prefix: str, path: bytes, rest: bytes) -> str:
    number, _, line = rest.decode("utf-8", "replace").partition(":")
    name = path.removeprefix(b"./").decode("utf-8", "replace")
    return f"{prefix}{name}:{number}:{cut(line.rstrip(chr(13)))}"
