"""How ids, moments, titles and text are shown."""

from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.listing import shortened
from perdure.cli.output import Output, visible
from perdure.cli.page import Line, Markdown, Words, line, table
from perdure.cli.page import show as show_page
from perdure.cli.problems import masked
from perdure.cli.records import json_line
from perdure.cli.times import ago, iso
from perdure.cli.transcript import transcript_blocks
from perdure.history.events import LiveRecord, Note, Record, TextDelta
from perdure.history.items import ResultItem
from perdure.images import make_image
from perdure.session.titles import first_words
from tests.pictures import png

HOUR = 3_600_000
PICTURE = make_image(png(30, 20), "shot.png")
ids = st.text("abc", min_size=8, max_size=12)


@given(st.text())
def test_no_control_character_stays_in_what_a_terminal_is_given(text: str) -> None:
    shown = visible(text)
    assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"]


@given(st.sets(ids, min_size=1))
def test_a_shortened_id_begins_only_its_own_id(all_ids: set[str]) -> None:
    whole = {each for each in all_ids if not any(o != each and o.startswith(each) for o in all_ids)}
    for each, short in shortened(whole).items():
        assert len(short) >= 6
        assert [other for other in whole if other.startswith(short)] == [each]


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("\n\n  Why?  \nBecause.", "Why?"),
        ("a\tb  c", "a b c"),
        ("x" * 70, "x" * 60),
        ("red\x1b[31m", "red\\x1b[31m"),
    ],
)
def test_a_title_is_the_first_line_that_says_something(prompt: str, title: str) -> None:
    assert first_words(prompt) == title


def test_moments_are_utc_with_milliseconds() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1_782_907_200_250) == "2026-07-01T12:00:00.250Z"


@pytest.mark.parametrize(
    ("passed", "words"),
    [
        (-5, "just now"),
        (59_000, "just now"),
        (60_000, "1 minute ago"),
        (2 * HOUR, "2 hours ago"),
        (49 * HOUR, "2 days ago"),
    ],
)
def test_a_listing_says_how_long_ago(passed: int, words: str) -> None:
    assert ago(1_000_000_000, 1_000_000_000 + passed) == words


def test_only_a_durable_record_has_a_seq_in_its_line() -> None:
    durable = msgspec.json.decode(json_line(Record(7, 0, Note("n"))))
    live = msgspec.json.decode(json_line(LiveRecord(0, TextDelta(1, "t"))))
    moment = "1970-01-01T00:00:00.000Z"
    assert durable == {"seq": 7, "type": "note", "time": moment, "data": {"text": "n"}}
    assert live == {"type": "text.delta", "time": moment, "data": {"step": 1, "text": "t"}}


def test_values_that_look_like_credentials_are_masked() -> None:
    env = {"SOME_API_KEY": "sk-123456", "PATH": "/usr/bin", "TOKEN": "abc"}
    text = masked("sent sk-123456 to /usr/bin, abc", env)
    assert text == "sent [SOME_API_KEY] to /usr/bin, abc"


def test_a_page_in_a_pipe_is_plain_text_with_aligned_columns(
    capfd: pytest.CaptureFixture[str],
) -> None:
    rows = [("a", Words("long cell", "bad")), ("bb", "c")]
    with open(1, "w", closefd=False) as stdout:
        show_page(
            Output(stdout), [line("x ", Words("y", "strong"), indent=2), table(("H", "I"), rows)]
        )
        show_page(Output(stdout), [Markdown("# *as it is*\n\n[b]", indent=1)])
    assert capfd.readouterr().out == ("  x y\nH   I\na   long cell\nbb  c\n # *as it is*\n\n [b]\n")


@pytest.mark.parametrize("output", ["Drawn.", f"Drawn: {PICTURE.described}"])
def test_an_image_of_a_result_is_named_once_by_its_tool_or_below_it(output: str) -> None:
    blocks = transcript_blocks([ResultItem(3, "1", "draw", output, "completed", (PICTURE,))])
    page = "\n".join(w.text for each in blocks if isinstance(each, Line) for w in each.words)
    assert page.count(PICTURE.described) == 1
