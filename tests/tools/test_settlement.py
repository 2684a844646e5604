"""Every call has one settlement, whatever the model, the tool or the disk does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.errors import ToolError
from perdure.history.content import ToolCall
from perdure.tools import Limits, Settled, Tool, ToolContext, ToolOutput, ToolSet, settle
from perdure.tools.settle import INTERRUPTED, NOT_RUN, UNKNOWN, prepare
from tests.tools.calling import Bench

pytestmark = pytest.mark.anyio


class Greeting(msgspec.Struct):
    """Whom to greet."""

    name: str = "you"
    times: int = 1


Run = Callable[[Greeting, ToolContext], Awaitable[Any]]


def use(bench: Bench, run: Run, limits: Limits | None = None) -> None:
    tool = Tool(name="greet", description="Greets.", arguments=Greeting, run=run)
    bench.use([tool], limits or bench.limits)


async def greet(arguments: Greeting, context: ToolContext) -> str:
    return f"hello {arguments.name}" * arguments.times


def raising(error: BaseException) -> Run:
    async def run(arguments: Greeting, context: ToolContext) -> str:
        raise error

    return run


def returning(value: Any) -> Run:
    async def run(arguments: Greeting, context: ToolContext) -> Any:
        return value

    return run


async def test_a_tool_gets_its_arguments_and_its_text_is_the_result(bench: Bench) -> None:
    use(bench, greet)
    assert await bench.call("greet", name="Ada") == Settled("completed", "hello Ada")


async def test_output_with_paths_and_a_note_is_passed_on(bench: Bench) -> None:
    output = ToolOutput("text", (bench.project,), note="a remark", file="kept.txt")
    use(bench, returning(output))
    assert await bench.call("greet") == Settled(
        "completed", "text\na remark", "kept.txt", (bench.project,)
    )


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
async def test_no_arguments_at_all_are_an_empty_object(bench: Bench, arguments: str) -> None:
    use(bench, greet)
    assert (await bench.raw("greet", arguments)).output == "hello you"


async def test_an_empty_result_says_so(bench: Bench) -> None:
    use(bench, returning(" \n"))
    assert await bench.call("greet") == Settled("completed", "(no output)")


async def test_an_unknown_tool_is_told_with_the_nearest_names(bench: Bench) -> None:
    settled = await bench.call("Read_File", path="x")
    assert settled.outcome == "failed"
    assert settled.output.startswith("there is no tool named 'Read_File'; the nearest are: read")


@pytest.mark.parametrize("name", ["", "x" * 10_000, "\x1b[31m\nfake"])
async def test_the_name_of_an_unknown_tool_stays_short_and_on_one_line(
    bench: Bench, name: str
) -> None:
    settled = await bench.call(name)
    assert settled.outcome == "failed"
    assert settled.output.isprintable()
    assert len(settled.output) < 300


async def test_without_any_tool_the_answer_still_makes_sense(bench: Bench) -> None:
    bench.use([])
    assert (await bench.call("read")).output.endswith("the nearest are: none")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"name": ', "the arguments for greet are not valid JSON"),
        ("{'name': 'Ada'}", "the arguments for greet are not valid JSON"),
        ('"Ada"', "invalid arguments for greet: Expected `object`, got `str`"),
        ('["Ada"]', "invalid arguments for greet: Expected `object`, got `array`"),
        ('{"name": 1}', "invalid arguments for greet: Expected `str`, got `int` - at `$.name`"),
        ('{"name": "\\ud800"}', "the arguments for greet are not valid JSON"),
        ("[" * 100_000, "greet"),
    ],
)
async def test_arguments_that_are_wrong_are_told_with_the_reason(
    bench: Bench, arguments: str, words: str
) -> None:
    use(bench, raising(AssertionError("it must not run")))
    settled = await bench.raw("greet", arguments)
    assert settled.outcome == "failed"
    assert words in settled.output


class Particular(msgspec.Struct):
    """Arguments with a check of their own."""

    name: str = ""

    def __post_init__(self) -> None:
        if self.name == "Bob":
            raise ValueError("anybody but Bob")
        if self.name:
            raise LookupError(self.name)


@pytest.mark.parametrize(
    ("name", "words"), [("Bob", "anybody but Bob"), ("Eve", "LookupError: Eve")]
)
async def test_a_check_of_the_tools_own_arguments_is_told(
    bench: Bench, name: str, words: str
) -> None:
    async def run(arguments: Particular, context: ToolContext) -> str:
        raise AssertionError("it must not run")

    bench.use([Tool(name="greet", description="Greets.", arguments=Particular, run=run)])
    settled = await bench.call("greet", name=name)
    assert settled.outcome == "failed"
    assert settled.output == f"invalid arguments for greet: {words}"


class Mute(Exception):
    """An error that fails to say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


async def test_a_parameter_that_a_built_in_tool_does_not_know_is_told(bench: Bench) -> None:
    settled = await bench.call("read", path="a", ofset=3)
    assert settled.output == "invalid arguments for read: Object contains unknown field `ofset`"


async def test_a_tool_that_says_what_failed_is_quoted(bench: Bench) -> None:
    use(bench, raising(ToolError("the door is closed; knock")))
    assert await bench.call("greet") == Settled("failed", "the door is closed; knock")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("bad value"), "ValueError: bad value"),
        (KeyError("name"), "KeyError: 'name'"),
        (RuntimeError(), "RuntimeError"),
        (SystemExit(3), "SystemExit: 3"),
        (ExceptionGroup("all", [ExceptionGroup("more", [OSError("deep")])]), "OSError: deep"),
        (
            ExceptionGroup("all", [OSError("one"), ValueError("two")]),
            "ExceptionGroup: all (2 sub-exceptions)",
        ),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (Mute(), "Mute"),
    ],
)
async def test_whatever_a_tool_raises_is_an_error_result(
    bench: Bench, error: BaseException, words: str
) -> None:
    use(bench, raising(error))
    assert await bench.call("greet") == Settled("failed", words)


async def test_an_error_whose_words_do_not_end_is_bounded(bench: Bench) -> None:
    use(bench, raising(ValueError("x" * 1_000_000)))
    settled = await bench.call("greet")
    assert settled.outcome == "failed"
    assert len(settled.output) < 52_000
    assert Path(settled.file).read_text() == "ValueError: " + "x" * 1_000_000


@pytest.mark.parametrize("value", [None, 3, b"bytes", ToolOutput(3)])  # pyright: ignore[reportArgumentType]
async def test_a_tool_that_returns_no_text_is_at_fault(bench: Bench, value: Any) -> None:
    use(bench, returning(value))
    settled = await bench.call("greet")
    assert settled.outcome == "failed"
    assert settled.output.startswith("the tool is faulty: it returned ")


async def test_long_output_is_bounded_and_its_note_survives(bench: Bench) -> None:
    use(bench, returning(ToolOutput("line\n" * 5000, note="the last word")))
    settled = await bench.call("greet")
    assert Path(settled.file).read_text() == "line\n" * 5000
    assert settled.output.endswith("line\nthe last word")
    assert settled.file in settled.output


async def test_what_no_store_takes_is_replaced(bench: Bench) -> None:
    use(bench, returning(ToolOutput("a\0b\ud800", note="c\0")))
    settled = await bench.call("greet")
    assert settled.output == "a\ufffdb?\nc\ufffd"
    msgspec.json.encode(settled.output)


async def test_cancelling_reaches_the_tool_and_is_passed_on(bench: Bench) -> None:
    events: list[str] = []
    started = anyio.Event()

    async def wait(arguments: Greeting, context: ToolContext) -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            events.append("ended")
        return ""

    async def call() -> None:
        await bench.call("greet")
        events.append("settled")

    use(bench, wait)
    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await started.wait()
        group.cancel_scope.cancel()
    assert events == ["ended"]


async def test_a_tool_that_cancels_only_itself_interrupts_nobody(bench: Bench) -> None:
    use(bench, raising(asyncio.CancelledError()))
    settled = await bench.call("greet")
    assert settled.outcome == "failed"
    assert "it cancelled itself" in settled.output


async def test_preparing_runs_nothing_and_finds_what_is_wrong(bench: Bench) -> None:
    use(bench, raising(AssertionError("it must not run")))
    assert isinstance(prepare(ToolCall("1", "greet", "[]"), bench.tools), Settled)
    assert isinstance(prepare(ToolCall("1", "other", "{}"), bench.tools), Settled)
    assert not isinstance(prepare(ToolCall("1", "greet", "{}"), bench.tools), Settled)


def test_the_words_after_a_crash_say_what_is_known() -> None:
    assert (UNKNOWN.outcome, NOT_RUN.outcome) == ("unknown", "not_run")
    assert "outcome unknown; it may have run" in UNKNOWN.output
    assert "not run" in NOT_RUN.output
    assert (INTERRUPTED.outcome, "may have run" in INTERRUPTED.output) == ("interrupted", True)


@settings(deadline=None, max_examples=60)
@given(name=st.text(max_size=30), arguments=st.text(max_size=60))
def test_nothing_that_a_model_sends_raises(
    tmp_path_factory: pytest.TempPathFactory, name: str, arguments: str
) -> None:
    async def call() -> Settled:
        bench = Bench(tmp_path_factory.mktemp("settle"))
        use(bench, greet)
        context = bench.context(name)
        return await settle(ToolCall(name, "greet", arguments), bench.tools, context)

    settled = anyio.run(call)
    assert settled.outcome in {"completed", "failed"}
    msgspec.json.encode(settled.output)


def test_a_set_can_be_empty() -> None:
    assert ToolSet().definitions() == ()
