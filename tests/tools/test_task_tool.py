"""The tool `task`: what it hands over, and how it puts what came of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from perdure.history.content import ToolCall
from perdure.tools import Delegated, Settled, settle
from tests.tools.calling import Bench

pytestmark = pytest.mark.anyio


async def given(tmp_path: Path, done: Delegated | None) -> tuple[list[tuple[str, str]], Settled]:
    """Give a task that ends so; return what was asked for and the settlement."""
    asked: list[tuple[str, str]] = []

    async def delegate(title: str, prompt: str) -> Delegated:
        asked.append((title, prompt))
        assert done is not None
        return done

    bench = Bench(tmp_path)
    context = msgspec.structs.replace(bench.context(), delegate=delegate if done else None)
    call = ToolCall("call", "task", '{"description": " A  part\\n", "prompt": "Do it.\\n"}')
    return asked, await settle(call, bench.tools, context)


async def test_a_result_is_followed_by_the_session_that_it_comes_from(tmp_path: Path) -> None:
    asked, settled = await given(tmp_path, Delegated("abc", "Done.\n"))
    assert asked == [("A part", "Do it.\n")]
    assert settled == Settled("completed", "Done.\n(the task was session abc)")


async def test_a_task_without_last_words_is_completed_all_the_same(tmp_path: Path) -> None:
    _, settled = await given(tmp_path, Delegated("abc", ""))
    assert settled == Settled("completed", "(no answer)\n(the task was session abc)")


async def test_a_problem_comes_before_the_last_words(tmp_path: Path) -> None:
    _, settled = await given(tmp_path, Delegated("abc", "So far.", "the task failed: it broke"))
    words = "the task failed: it broke (session abc). Its last words were:\n\nSo far."
    assert settled == Settled("failed", words)


async def test_where_no_task_can_be_given_the_model_is_told_so(tmp_path: Path) -> None:
    _, settled = await given(tmp_path, None)
    assert settled == Settled("failed", "no task can be given here; do the work yourself")
