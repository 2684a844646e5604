"""The page of `perdure context`: a time line of epochs, then the sources, then what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from perdure.cli.page import Block, Style, Words, heading, line, paragraphs
from perdure.cli.times import iso, local
from perdure.config.location import shown
from perdure.session.view import ContextView, EpochView, MessageView, SourceView
from perdure.tools.printable import shortened

_VALUE = 160
"""Characters of a value, or of one member of it, that are shown; --json has all of it."""

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


def context_page(view: ContextView, *, history: bool) -> Iterator[Block]:
    """Yield the page; with `history`, each Baseline and System Message in full."""
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
        yield from _next(view)
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


def _source(source: SourceView, view: ContextView) -> Iterator[Block]:
    words, style = _STANDINGS[source.standing]
    standing = Words(f"  {words}{_when(source, view)}", style)
    yield line(Words(shown(source.key), "strong"), standing, indent=2)
    if source.standing == "changed":
        yield from _difference(source)
    elif source.standing != "never told":
        held = source.now if source.standing == "new" else source.told
        members = (f"{name} {text}".strip() for name, text in _members(held).items())
        yield line(Words("; ".join(members), "dim"), indent=4)


def _difference(source: SourceView) -> Iterator[Block]:
    """Yield only the members that differ, each as it was told and as it is."""
    told, now = _members(source.told), _members(source.now)
    for name in dict.fromkeys([*told, *now]):
        if told.get(name) != now.get(name):
            if name:
                yield line(name, indent=4)
            yield line(Words("told  ", "dim"), told.get(name, "(nothing)"), indent=6)
            yield line(Words("now   ", "dim"), now.get(name, "(nothing)"), indent=6)


def _when(source: SourceView, view: ContextView) -> str:
    """Return whether the next step tells what is different."""
    if source.standing not in {"changed", "new", "removed"}:
        return ""
    if view.next in {"message", "epoch"}:
        return "; the next step tells it"
    return "; told once nothing blocks the new epoch"


def _members(value: object) -> dict[str, str]:
    """Return the members of a value, each shortened; a plain value is one without a name."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {shown(name): _short(member) for name, member in members.items()}
    return {"": _short(value)}


def _short(value: object) -> str:
    if not isinstance(value, str) or not value:  # empty text would leave nothing to see
        value = msgspec.json.encode(value).decode()
    return shortened(shown(value), _VALUE)


def _next(view: ContextView) -> Iterator[Block]:
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
