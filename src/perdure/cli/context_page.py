"""The page of `perdure context`: a time line of epochs, then the sources, then what comes next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, cast

import msgspec

from perdure.cli.listing import session_head
from perdure.cli.page import Block, Style, Words, heading, line, paragraphs
from perdure.cli.times import iso, local
from perdure.config.location import shown
from perdure.session.view import ContextView, EpochView, MessageView, SourceView
from perdure.tools.printable import shortened

_VALUE = 100
"""Characters of a member of a value that are shown; --json has all of it."""

_DIGEST = 16
"""Characters of a digest that are shown: enough to see that it is another one."""

_HEX = re.compile(r"[0-9a-f]{32,}")
_NOTHING = object()

_STANDINGS: dict[str, tuple[str, Style]] = {
    "current": ("as told", "good"),
    "changed": ("changed", "warn"),
    "new": ("not told yet", "warn"),
    "removed": ("gone", "warn"),
    "unavailable": ("cannot be observed now; what was told stands", "bad"),
    "never told": ("nothing to tell", "dim"),
    "told": ("as told", "good"),
}


def context_data(view: ContextView) -> dict[str, Any]:
    """Return the view as JSON data, with times in UTC."""
    data: dict[str, Any] = msgspec.to_builtins(view)
    for timed in (*data["epochs"], *data["messages"]):
        timed["time"] = iso(timed["time"])
    return data


def context_page(view: ContextView, moment: str, *, history: bool) -> Iterator[Block]:
    """Yield the page; with `history`, each Baseline and System Message in full.

    `moment` says what the session is doing, or of which moment this is.
    """
    yield from session_head(view.title, view.session, view.model, view.directory, moment)
    yield from heading("Epochs")
    if not view.epochs:
        yield line("none yet: the first step begins one", indent=2)
    for epoch in view.epochs:
        yield from _epoch(epoch, history)
        for message in view.messages:
            if message.epoch == epoch.number:
                yield from _message(message, history)
    yield from heading("Sources")
    for source in view.sources:
        yield from _source(source, view)
    if view.next != "past":
        yield from heading("Next step")
        yield from next_step(view)
    if view.diagnostics:
        yield from heading("Diagnostics")
    for each in view.diagnostics:
        yield line(Words(shown(f"{each.key}: {each.message} ({each.stage})"), "bad"), indent=2)


def _epoch(epoch: EpochView, history: bool) -> Iterator[Block]:
    begun = f"{local(epoch.time)}  {', '.join(epoch.reasons)}"
    yield line(Words(f"{epoch.number}  ", "strong"), shown(begun), indent=2)
    facts = (
        f"{epoch.model}, seq {epoch.seq}, {len(epoch.tools)} tools, "
        f"a Baseline of {len(epoch.baseline):,} characters"
    )
    yield line(Words(shown(facts), "dim"), indent=5)
    if history:
        yield from _text(epoch.baseline)


def _message(message: MessageView, history: bool) -> Iterator[Block]:
    told = f"told at seq {message.seq}: {', '.join(message.keys)}"
    yield line(Words(f"{local(message.time)}  ", "dim"), shown(told), indent=5)
    if history:
        yield from _text(message.text)


def _text(text: str) -> Iterator[Block]:
    yield from paragraphs(text, indent=9)
    yield line()


def source_standing(source: SourceView, view: ContextView) -> Block:
    """Return one line that says how what holds now stands to what was told."""
    words, style = _STANDINGS[source.standing]
    standing = Words(f"  {words}{_when(source, view)}", style)
    return line(Words(shown(source.key), "strong"), standing, indent=2)


def _source(source: SourceView, view: ContextView) -> Iterator[Block]:
    yield source_standing(source, view)
    if source.standing == "changed":
        yield from _difference(source)
    elif source.standing != "never told":
        held = source.now if source.standing == "new" else source.told
        members = _members(held)
        width = max(map(len, members), default=0)
        for name, member in members.items():
            text = f"{name.ljust(width)}  {_short(member)}".strip()
            yield line(Words(text, "dim"), indent=4)


def _difference(source: SourceView) -> Iterator[Block]:
    """Yield only the members that differ, each as it was told and as it is."""
    told, now = _members(source.told), _members(source.now)
    for name in dict.fromkeys([*told, *now]):
        before, after = told.get(name, _NOTHING), now.get(name, _NOTHING)
        if before != after:
            if name:
                yield line(name, indent=4)
            yield line(Words("told  ", "dim"), _beside(before, after), indent=6)
            yield line(Words("now   ", "dim"), _beside(after, before), indent=6)


def _when(source: SourceView, view: ContextView) -> str:
    """Return whether the next step tells what is different."""
    if source.standing not in {"changed", "new", "removed"}:
        return ""
    if view.next in {"message", "epoch"}:
        return "; the next step tells it"
    return "; told once nothing blocks the new epoch"


def _members(value: object) -> dict[str, object]:
    """Return the members of a value; a plain value is one without a name."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {shown(name): member for name, member in members.items()}
    return {"": value}


def _beside(value: object, other: object) -> str:
    """Return a value on one line, with what is not in the other one where that can be told."""
    if value is _NOTHING:
        return "(nothing)"
    short = _short(value)
    if isinstance(value, str) and isinstance(other, str):
        return _short(value, _first_difference(value, other))
    if isinstance(value, list) and isinstance(other, list):
        items, others = cast("list[object]", value), cast("list[object]", other)
        apart = [each for each in items if each not in others] or items
        return shortened(shown(msgspec.json.encode(apart).decode()), _VALUE)
    return short


def _first_difference(text: str, other: str) -> int:
    """Return the number of the first line, from 0, that the other text has not there."""
    pairs = zip_longest(text.splitlines(), other.splitlines())
    return next((number for number, (one, two) in enumerate(pairs) if one != two), 0)


def _short(value: object, place: int = 0) -> str:
    """Return a value on one line; of a text of several lines the one at `place`, or after it."""
    if isinstance(value, list) and value:
        named = [each for each in cast("list[object]", value) if _name(each)]
        if len(named) == len(cast("list[object]", value)):
            return shortened(", ".join(map(_name, named)), _VALUE)
    if not isinstance(value, str) or not value:  # empty text would leave nothing to see
        value = msgspec.json.encode(value).decode()
    if _HEX.fullmatch(value):
        return f"{value[:_DIGEST]}..."
    lines = value.splitlines()
    if len(lines) < 2:
        return shortened(shown(value), _VALUE)
    telling = next((each for each in lines[place:] if each.strip()), "(ends)")
    return f"{shortened(shown(telling), _VALUE)}  ({len(lines)} lines)"


def _name(value: object) -> str:
    """Return the name of an object in a list that has one."""
    name = cast("dict[str, object]", value).get("name") if isinstance(value, dict) else None
    return shown(name) if isinstance(name, str) else ""


def next_step(view: ContextView) -> Iterator[Block]:
    """Yield what the next step would tell."""
    reasons, blocked = shown(", ".join(view.reasons)), shown(", ".join(view.blocked))
    match view.next:
        case "unchanged":
            yield line("tells nothing: the model knows what holds", indent=2)
        case "message":
            yield line("tells, in one System Message:", indent=2)
            yield from paragraphs(view.next_text, indent=4)
        case "epoch":
            yield line(f"begins a new epoch: {reasons}", indent=2)
        case "past":
            pass
        case "blocked":
            yield line(f"cannot begin the epoch that is due ({reasons})", indent=2)
    if view.blocked:
        yield line(Words(f"cannot be observed, and blocks it: {blocked}", "bad"), indent=2)
