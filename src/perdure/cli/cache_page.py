"""The page of `perdure cache`: a table for each Context Epoch, then the sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from perdure.cli.listing import session_head
from perdure.cli.page import Block, Style, Words, heading, line, table
from perdure.cli.spending import dollars
from perdure.cli.times import iso, local
from perdure.config.location import shown
from perdure.session.caching import CachedRequest, CacheReport

_HEADERS = ("step", "time", "blocks kept", "input", "cached", "expected", "written", "fresh", "")


def cache_data(report: CacheReport) -> dict[str, Any]:
    """Return the report as JSON data, with times in UTC and its sums."""
    requests = [_request_data(each) for each in report.requests]
    usage = report.usage
    totals = {
        "requests": len(requests),
        "blocks": report.blocks,
        "kept": report.kept,
        "reported": report.reported,
        "input": usage.input,
        "cached": usage.cache_read,
        "written": usage.cache_write,
        "missed": len(report.missed),
        "saved": None if report.unpriced else report.saved,
        "unpriced": report.unpriced,
    }
    return {
        "session": report.session,
        "origin": report.origin,
        "requests": requests,
        "totals": totals,
    }


def _request_data(request: CachedRequest) -> dict[str, Any]:
    usage = msgspec.structs.asdict(request.usage) if request.usage else None
    found: dict[str, Any] = {**msgspec.structs.asdict(request), "usage": usage}
    return {**found, "time": iso(request.time), "fresh": request.fresh}


def cache_page(report: CacheReport, title: str) -> Iterator[Block]:
    """Yield the page."""
    yield from session_head(title, report.session)
    if report.origin:
        yield line(f"What session {shown(report.origin)} sent before the fork is shown there.")
    if not report.requests:
        yield line("No step yet: nothing has been sent.")
        return
    for (epoch, model), group in groupby(report.requests, lambda each: (each.epoch, each.model)):
        yield from heading(shown(f"Context Epoch {epoch}, {model}"))
        yield table(_HEADERS, map(_row, group))
    yield from heading("In all")
    yield from (line(each, indent=2) for each in _sums(report))


def _row(request: CachedRequest) -> Sequence[str | Words]:
    words, style = _words(request)
    return (
        str(request.step) if request.kind == "step" else "summary",
        local(request.time),
        str(request.kept) if request.blocks is None else f"{request.kept} of {request.blocks}",
        *_tokens(request),
        Words(shown(words), style),
    )


def _tokens(request: CachedRequest) -> Iterator[str | Words]:
    usage = request.usage
    if usage is None or not usage.input:
        yield from ("-",) * 5
    elif not request.reported:
        yield from (f"{usage.input:,}", *("-",) * 4)
    else:
        cached = Words(f"{usage.cache_read:,}", "bad" if request.missed else "good")
        yield from (f"{usage.input:,}", cached, f"{request.predicted:,}")
        yield from (f"{usage.cache_write:,}", f"{request.fresh:,}")


def _words(request: CachedRequest) -> tuple[str, Style]:
    words = [request.cause] if request.cause else []
    if request.usage is None:
        words.append("no answer came")
    if request.failed:
        words.append(f"{request.failed} attempt{'s' * (request.failed != 1)} failed")
    if request.reason and not request.missed:
        words.append(f"the provider says {request.reason}")
    if request.missed:
        return "; ".join(words), "bad"
    broken = request.expired or request.standing in {"new", "changed", "part"}
    return "; ".join(words), "warn" if broken else "dim"


def _sums(report: CacheReport) -> Iterator[str | Words]:
    count = len(report.requests)
    yield f"{count} request{'s' * (count != 1)}"
    yield f"{_share(report.kept, report.blocks)} of all blocks had been sent before"
    if not report.reported:
        yield "not reported: no provider named any cached tokens"
        return
    usage = report.usage
    yield f"{_share(usage.cache_read, usage.input)} of all input tokens came from the cache"
    missed = len(report.missed)
    if missed:
        yield Words(f"{missed} request{'s' * (missed != 1)} missed the cache", "bad")
    else:
        yield "no request missed the cache"
    yield shown(_saved(report))


def _saved(report: CacheReport) -> str:
    unknown = ", ".join(report.unpriced)
    if not unknown:
        return _saving(report.saved)
    known = f"{_saving(report.saved)}, beside that of " if report.saved else "saved: "
    return f"{known}{unknown}: price unknown"


def _saving(amount: float) -> str:
    if amount < 0:
        return f"the cache cost {dollars(-amount)} more than it saved"
    return f"the cache saved {dollars(amount)}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"
