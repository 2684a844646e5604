"""The parts of a chat that need no terminal."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from perdure.cli.chat.completion import Completions
from perdure.cli.chat.folding import Fold, folded, result, subject
from perdure.cli.chat.history import InputHistory
from perdure.cli.chat.live import Live, Waiting
from perdure.cli.chat.markdown import Blocks
from perdure.cli.chat.reporter import ChatReporter
from perdure.cli.chat.typed import Command, understood
from perdure.cli.page import Block, Markdown
from perdure.errors import UsageError
from perdure.history import events as ev
from perdure.history.content import Text, ToolCall

NAMES = ("help", "model", "compact")
MARKDOWN = st.text(st.sampled_from("ab \t\r\n`~#-1.>"), max_size=80)


@given(st.lists(MARKDOWN, max_size=12))
def test_blocks_of_an_answer_joined_are_the_answer_however_it_comes(chunks: list[str]) -> None:
    blocks = Blocks()
    parts = [part for chunk in chunks for part in blocks.feed(chunk)]
    assert "".join([*parts, *blocks.finish()]) == "".join(chunks)
    assert blocks.finish() == []


@given(MARKDOWN, st.integers(1, 5))
def test_where_an_answer_is_cut_into_blocks_does_not_hang_on_the_chunks(
    text: str, size: int
) -> None:
    whole, pieces = Blocks(), Blocks()
    at_once = [*whole.feed(text), *whole.finish()]
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    assert [b for chunk in chunks for b in pieces.feed(chunk)] + pieces.finish() == at_once


@given(st.lists(MARKDOWN, max_size=8), st.integers(1, 200))
def test_the_tail_of_the_open_block_is_its_end(chunks: list[str], length: int) -> None:
    blocks = Blocks()
    for chunk in chunks:
        blocks.feed(chunk)
    tail = blocks.tail(length)
    (whole,) = blocks.finish() or [""]
    assert whole.endswith(tail)
    assert len(tail) >= min(length, len(whole))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One.\n\nTwo.\n\nThree.", 3),
        ("```\na\n\nb\n```\n", 1),
        ("1. one\n\n   more of it\n\n2. two", 2),
        ("~~~~ python\n~~~\n\n~~~~\nafter", 2),
        ("a\nb\nc", 1),
    ],
)
def test_a_block_ends_at_a_blank_line_outside_of_code(text: str, count: int) -> None:
    blocks = Blocks()
    assert len([*blocks.feed(text), *blocks.finish()]) == count


def said(*records: ev.Event | ev.Live) -> str:
    """Return the Markdown that a reporter puts on the screen, joined."""
    pages: list[Block] = []
    reporter = ChatReporter(pages.extend, Live())
    seq = 0
    for data in records:
        if isinstance(data, ev.Event):
            seq += 1
            reporter.show(ev.Record(seq, 0, data))
        else:
            reporter.show(ev.LiveRecord(0, data))
    return "\n\n".join(each.text for each in pages if isinstance(each, Markdown))


def test_an_answer_whose_fragments_were_lost_is_shown_whole() -> None:
    text = "One.\n\nTwo.\n\nThree.\n\nFour."
    answer = ev.AssistantMessage(1, (Text(text),), "end")
    first, last = ev.TextDelta(1, "One.\n\nTw"), ev.TextDelta(1, "ee.\n\nFo")
    assert said(answer) == said(first, answer) == text
    assert said(first, ev.TextDelta(1, "Fo"), answer) == text
    assert said(first, last, answer).endswith(text)


def test_words_of_a_failed_attempt_are_not_joined_with_those_of_the_next() -> None:
    failed = ev.AttemptFailed(1, 1, ev.Failure("BrokenStream", "broken"), wait=0.5)
    answer = ev.AssistantMessage(1, (Text("The whole."),), "end", attempt=2)
    assert said(ev.TextDelta(1, "The"), failed, ev.TextDelta(1, "The w"), answer) == (
        "The\n\nThe whole."
    )


@pytest.mark.parametrize(
    ("name", "arguments", "about"),
    [
        ("read", '{"path": "src/app.py"}', "src/app.py"),
        ("shell", '{"command": "make\\n  test"}', "make test"),
        ("grep", '{"pattern": "x", "include": "*.py"}', "x"),
        ("time", '{"zone": "UTC"}', '{"zone":"UTC"}'),
        ("read", "{broken", ""),
        ("read", '{"path": "a\\u001b[2J"}', "a\\x1b[2J"),
    ],
)
def test_a_call_is_named_by_what_it_is_about(name: str, arguments: str, about: str) -> None:
    assert subject(ToolCall("1", name, arguments)) == about


@pytest.mark.parametrize(
    ("outcome", "output", "expected"),
    [
        ("completed", "out\nexit code 0", (True, "out")),
        ("completed", "exit code 0", (True, "no output")),
        ("completed", "a\tb\x1b\nexit code 0", (True, "a       b\\x1b")),
        ("completed", "a\nb\nexit code 2", (False, "exit code 2")),
        ("failed", "not run: no.", (False, "not run: no.")),
        ("failed", f"denied in /{'p' * 100}.toml.", (False, f"denied in /{'p' * 100}.toml.")),
        ("declined", "not run", (False, "declined")),
        ("unknown", "outcome", (False, "outcome unknown; it may have run")),
    ],
)
def test_a_result_is_a_few_words(
    outcome: ev.CallOutcome, output: str, expected: tuple[bool, str]
) -> None:
    assert result(ev.ToolSettled(1, "1", outcome, output), "shell") == expected


def test_a_folded_call_is_one_line_with_its_number() -> None:
    settled = ev.ToolSettled(1, "1", "completed", "1\n2\n3")
    line = folded(Fold(4, ToolCall("1", "read", '{"path": "a"}'), settled))
    assert "".join(each.text for each in line.words) == "✓ read a · 3 lines  [4]"


@pytest.mark.parametrize(
    "text", ["hello", "/usr/bin is what?", "// a comment", "/* a comment */", "/", "a /help"]
)
def test_what_is_no_slash_and_a_word_is_a_prompt(text: str) -> None:
    assert understood(text, NAMES) == text


def test_a_slash_and_a_word_is_a_command() -> None:
    assert understood("/model a/b", NAMES) == Command("model", "a/b")
    assert understood(" /HELP ", NAMES) == Command("help")
    with pytest.raises(UsageError, match="did you mean /compact"):
        understood("/compct now", NAMES)


def test_rows_fit_the_screen_and_wide_characters_count_twice() -> None:
    live = Live(lambda: 0.0)
    live.blocks.feed("日本語" * 100)
    live.start(ToolCall("1", "shell", '{"command": "x"}'))
    live.waiting["p"] = Waiting("Later." * 50, "queue")
    rows = live.rows(20, 6)
    assert len(rows) == 6
    assert all(len(row.text) <= 10 for row in rows[:4])
    assert [row.text[:9] for row in rows[4:]] == ["… shell x", "queued: L"]


def test_typed_lines_are_kept_bounded_and_private(tmp_path: Path) -> None:
    env = {"PERDURE_DATA_DIR": str(tmp_path)}
    for number in range(1001):
        InputHistory(Path("/p"), env).store_string(f"line\n{number}")
    InputHistory(Path("/other"), env).store_string("elsewhere")
    InputHistory(Path("/p"), env).store_string("x" * 100_000)
    kept = list(InputHistory(Path("/p"), env).load_history_strings())
    assert (kept[0], kept[-1], len(kept)) == ("line\n1000", "line\n501", 500)
    assert list(InputHistory(Path("/p"), env).load_history_strings()) == kept
    files = list((tmp_path / "typed").iterdir())
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}


def test_a_damaged_or_missing_history_is_an_empty_one(tmp_path: Path) -> None:
    env = {"PERDURE_DATA_DIR": str(tmp_path)}
    InputHistory(Path("/p"), env).store_string("good \udc80")
    (file,) = (tmp_path / "typed").iterdir()
    file.write_bytes(b"\xff broken\n{}\n" + file.read_bytes())
    assert list(InputHistory(Path("/p"), env).load_history_strings()) == ["good ?"]
    assert list(InputHistory(Path("/p"), {"PERDURE_DATA_DIR": "\0"}).load_history_strings()) == []


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("/mo", ["model", "move"]),
        ("/model scripted/m", ["scripted/model-1"]),
        ("look at @rea", ["dme.md"]),
        ("/move s", ["rc"]),
        ("mail me@rea", []),
        ("plain", []),
    ],
)
def test_completions(tmp_path: Path, typed: str, completed: list[str]) -> None:
    (tmp_path / "readme.md").touch()
    (tmp_path / "src").mkdir()
    completions = Completions(
        {"model": "", "move": "", "undo": ""}, lambda: tmp_path, lambda: ["scripted/model-1"]
    )
    found = completions.get_completions(Document(typed), CompleteEvent())
    assert sorted(each.text for each in found) == completed
