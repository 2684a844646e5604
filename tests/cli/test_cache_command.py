"""`perdure cache`: what a person and a program read of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.cli.cache_page import cache_data, cache_page
from perdure.cli.page import Line, Table
from perdure.history.content import Usage
from perdure.session.caching import CachedRequest, CacheReport
from perdure.testing import say
from tests.cli.support import one_line, shell
from tests.cli.terminal import at_terminal

LONG = "Mind the gap. " * 2000


def texts(report: CacheReport) -> str:
    """Return all words of the page, each block on its line."""
    lines: list[str] = []
    for block in cache_page(report, "A title"):
        match block:
            case Line(words):
                lines.append("".join(each.text for each in words))
            case Table(headers, rows):
                lines.append(" | ".join(headers))
                lines += [" | ".join(cell.text for cell in row) for row in rows]
            case _:
                pass
    return "\n".join(lines)


def unstyled(seen: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", seen)


def request(step: int, usage: Usage | None = None, **members: Any) -> CachedRequest:
    plain = CachedRequest("step", step, step, 0, 1, "p/m", "kept", 3, 4, usage=usage)
    return replace(plain, **members)


def test_the_command_shows_requests_and_sums(tmp_path: Path) -> None:
    lost = say("two", usage=Usage(input=9000, output=1, cache_read=128))
    with shell(tmp_path, [say("one"), lost, say("three")]) as sh:
        sh.run("run", LONG)
        sh.run("run", "-c", "again")
        sh.run("run", "-c", "and again")
        ended = sh.run("cache", sh.the_session()[:8])
        assert ended.code == 0, ended.err
        assert "Context Epoch 1, scripted/model-1" in ended.out
        assert "first request: nothing is cached yet" in ended.out
        assert "missed the cache: no reason given" in ended.out
        assert "1 request missed the cache" in ended.out
        assert "saved: scripted/model-1: price unknown" in ended.out
        assert "\x1b" not in ended.out


def test_json_holds_every_request_and_the_sums(tmp_path: Path) -> None:
    with shell(tmp_path, [say("one"), say("two")], "anthropic") as sh:
        sh.run("run", LONG)
        sh.run("run", "-c", "again")
        found = json.loads(sh.run("cache", sh.the_session(), "--json").out)
    first, second = found["requests"]
    assert (first["standing"], second["standing"]) == ("first", "kept")
    assert second["kept"] == first["blocks"]
    assert second["usage"]["cache_read"] >= second["predicted"] > 0
    assert first["usage"]["cache_read"] == 0
    assert second["fresh"] == 0
    assert second["time"].endswith("Z")
    assert found["totals"]["requests"] == 2
    assert found["totals"]["missed"] == 0
    assert found["totals"]["cached"] == second["usage"]["cache_read"]
    assert found["totals"]["unpriced"] == ["scripted/model-1"]


def test_a_terminal_sees_the_table_in_its_width(tmp_path: Path) -> None:
    with shell(tmp_path, [say("one")]) as sh:
        sh.run("run", LONG)
        with at_terminal(["cache", sh.the_session()], sh.directory, columns=100) as person:
            assert person.end() == 0
    assert max(map(len, unstyled(person.seen).splitlines())) <= 100
    assert "blocks" in person.seen
    assert "first request" in " ".join(person.seen.split())
    assert "Traceback" not in person.seen


def test_an_unknown_session_is_exit_2(tmp_path: Path) -> None:
    with shell(tmp_path) as sh:
        assert "no session" in one_line(sh.run("cache", "nosuch"), 2)


def test_a_session_without_steps_says_so() -> None:
    page = texts(CacheReport("s1", ()))
    assert "No step yet: nothing has been sent." in page


def test_a_provider_that_reports_nothing_is_said_to_report_nothing() -> None:
    report = CacheReport("s1", (request(1, Usage(input=2000, output=1)),))
    page = texts(report)
    assert "not reported: no provider named any cached tokens" in page
    assert "1 | " in page
    assert "| 2,000 | - | - | - | - |" in page
    assert cache_data(report)["totals"]["reported"] is False


def test_a_request_without_an_answer_and_its_failures_are_said() -> None:
    page = texts(CacheReport("s1", (request(1, failed=2),)))
    assert "no answer came; 2 attempts failed" in page


def test_money_is_shown_or_said_to_be_unknown() -> None:
    used = Usage(input=2000, output=1, cache_read=1500)
    known = request(1, used, reported=True, saved=1.5)
    written = request(2, used, reported=True, saved=-0.25)
    unknown = request(3, used, reported=True, saved=None, model="q/n")
    assert "the cache saved $1.50" in texts(CacheReport("s", (known,)))
    assert "the cache cost $0.2500 more than it saved" in texts(CacheReport("s", (written,)))
    mixed = texts(CacheReport("s", (known, unknown)))
    assert "the cache saved $1.50, beside that of q/n: price unknown" in mixed
    assert cache_data(CacheReport("s", (known, unknown)))["totals"]["saved"] is None


def test_a_fork_says_where_the_rest_is() -> None:
    page = texts(CacheReport("s2", (request(3, Usage(input=5, output=1)),), "s1"))
    assert "What session s1 sent before the fork is shown there." in page


@pytest.mark.parametrize("reason", ["\x1b[2Jgone", "two\nlines", "\u202eback"])
def test_what_a_provider_says_cannot_change_the_page(reason: str) -> None:
    said = request(1, Usage(input=5, output=1), reason=reason)
    page = texts(CacheReport("s", (said,)))
    assert reason not in page
    assert "the provider says " in page
