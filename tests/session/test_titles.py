"""Titles that the model writes: beside the work, never in its way, never instead of the user's."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure import Runtime, Session
from perdure.history import events as ev
from perdure.history.content import Reasoning, Text, Usage
from perdure.history.state import SessionState
from perdure.models.types import Answer
from perdure.session import titles
from perdure.session.titles import INSTRUCTION, LONGEST, clean, first_prompt, first_words, title_in
from perdure.testing import (
    ReceivedRequest,
    Reply,
    asks_for_title,
    call,
    cut,
    empty,
    error,
    hold,
    html,
    say,
    stall,
    think,
)
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.session.support import Bench, ask, bench, log_of, of_type

pytestmark = pytest.mark.anyio

PROMPT = "Why does the build fail on Python 3.13?"
TITLE = "Build failure on Python 3.13"

GivenUp = Callable[..., Awaitable[str]]


async def renamed(session: Session) -> ev.SessionRenamed:
    """Wait for the title of a session."""
    with anyio.fail_after(60):
        async for record in session.events():
            if isinstance(record.data, ev.SessionRenamed):
                return record.data
    raise AssertionError("the events of a session do not end")


async def titled(bench: Bench, runtime: Runtime, prompt: str = PROMPT) -> Session:
    """Begin a session, and return it when it has both an answer and a title."""
    session = await bench.session(runtime)
    await session.prompt(prompt)
    await renamed(session)
    await session.wait()
    return session


async def asked(bench: Bench, count: int = 1) -> None:
    """Wait until so many titles were asked for."""
    with anyio.fail_after(60):
        while len(bench.provider.title_requests) < count:
            await anyio.sleep(0.002)


@pytest.fixture
def given_up(caplog: pytest.LogCaptureFixture) -> GivenUp:
    """Return what waits until so many titles were given up, and returns the last one's line."""
    caplog.set_level(logging.DEBUG, "perdure.session")

    async def wait(count: int = 1) -> str:
        with anyio.fail_after(60):
            while len(lines := [each for each in caplog.messages if "no title" in each]) < count:
                await anyio.sleep(0.002)
        assert {record.levelname for record in caplog.records} == {"DEBUG"}
        return lines[-1]

    return wait


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_session_gets_a_title_from_its_first_prompt(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    usage = Usage(input=90, output=12)
    async with bench(
        tmp_path, [say("It is old.")], protocol, titles=[say(TITLE, usage=usage)]
    ) as b:
        async with b.runtime(titles=True) as runtime:
            session = await b.session(runtime)
            await session.prompt(PROMPT)
            event = await renamed(session)
            await session.wait()
        assert event == ev.SessionRenamed(TITLE, "scripted/model-1", usage)
        async with b.runtime() as runtime:
            assert (await (await runtime.session(session.id)).row()).title == TITLE
        assert b.provider.refused == []
        (request,) = b.provider.title_requests
        assert asks_for_title(request)
        assert not request.json.get("tools")
        assert PROMPT.encode() in request.body
        assert session.id.encode() not in request.body
        assert b"# Environment" not in request.body


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_no_title_is_asked_for_unless_it_is_wanted(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    async with bench(tmp_path, [say("It is old.")], protocol) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, PROMPT)
        assert len(b.provider.requests) == 1
        assert (await session.row()).title == ""


@pytest.mark.parametrize(("configured", "asked"), [(True, False), (False, True)])
async def test_the_configuration_counts_more_than_the_program(
    tmp_path: Path, configured: bool, asked: bool
) -> None:
    async with (
        bench(tmp_path, [say("It is old.")], titles=[say(TITLE)]) as b,
        b.runtime(config={"titles": configured}, titles=asked) as runtime,
    ):
        session = await b.session(runtime)
        await session.prompt(PROMPT)
        if configured:
            await renamed(session)
        await session.wait()
        assert len(b.provider.title_requests) == configured


async def test_nothing_waits_for_a_title(tmp_path: Path) -> None:
    released = anyio.Event()
    async with (
        bench(
            tmp_path,
            [call("list", {"path": "."}), say("It is old.")],
            titles=[hold(released, say(TITLE))],
        ) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await b.session(runtime)
        records = await ask(session, PROMPT)
        await session.wait()
        await asked(b)
        assert len(of_type(records, ev.StepFinished)) == 2
        assert (await session.row()).owner == ""
        assert (await session.row()).title == ""
        released.set()
        assert (await renamed(session)).title == TITLE


async def test_a_title_asks_once_however_many_drains_there_are_meanwhile(tmp_path: Path) -> None:
    released = anyio.Event()
    async with (
        bench(
            tmp_path, [say("One."), say("Two."), say("Three.")], titles=[hold(released, say(TITLE))]
        ) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await b.session(runtime)
        await ask(session, PROMPT)
        await ask(session, "And now?")
        await asked(b)
        released.set()
        await renamed(session)
        await ask(session, "And then?")
        assert len(b.provider.title_requests) == 1
        assert len(of_type(await log_of(session), ev.SessionRenamed)) == 1


async def test_a_name_that_the_user_gives_meanwhile_stays(
    tmp_path: Path, given_up: GivenUp
) -> None:
    released = anyio.Event()
    async with (
        bench(tmp_path, [say("One."), say("Two.")], titles=[hold(released, say(TITLE))]) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await b.session(runtime)
        await ask(session, PROMPT)
        await asked(b)
        await session.rename("Mine")
        released.set()
        assert "it has a title now" in await given_up()
        await ask(session, "And now?")
        assert (await session.row()).title == "Mine"
        assert len(b.provider.title_requests) == 1
        assert len(of_type(await log_of(session), ev.SessionRenamed)) == 1


BAD: dict[str, Reply] = {
    "nothing": empty(),
    "symbols": say("---"),
    "a refusal": say("I cannot help with that.", stop="refusal"),
    "a tool call": say("Build failure") + call("list", {"path": "."}),
    "cut off": say("Build fail", stop="length"),
    "only thinking": think("The build.") + say(" "),
    "an answer": say("The build fails because setuptools is gone. " * 10),
    "escape sequences": say("\x1b]0;owned\x07Build failure"),
    "far too much": say("Build failure " * 20_000),
    "an error": error(500),
    "no key": error(401),
    "a full quota": error(429, headers={"retry-after": "1"}),
    "a page": html(),
    "a broken stream": cut(say("Build failure on Python"), after=2),
}


@pytest.mark.parametrize("reply", BAD.values(), ids=BAD.keys())
async def test_where_no_title_comes_nothing_else_changes(
    tmp_path: Path, reply: Reply, given_up: GivenUp
) -> None:
    async with (
        bench(tmp_path, [say("It is old."), say("It is.")], titles=[reply, say(TITLE)]) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await b.session(runtime)
        records = await ask(session, PROMPT)
        await given_up()
        assert [each.type for each in of_type(records, ev.Event)] == [
            "prompt.admitted",
            "prompt.promoted",
            "epoch.started",
            "step.started",
            "assistant.message",
            "step.finished",
        ]
        assert len(await log_of(session)) == len(of_type(records, ev.Event)) + 1
        # One request for each drain, and no more: the next one may do better.
        assert len(b.provider.title_requests) == 1
        await session.prompt("Is it?")
        assert (await renamed(session)).title == TITLE
        await session.wait()


async def test_a_title_that_takes_too_long_is_given_up(
    tmp_path: Path, given_up: GivenUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(titles, "_PATIENCE", 0.3)
    async with (
        bench(tmp_path, [say("It is old.")], titles=[stall(say(TITLE))]) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await b.session(runtime)
        await ask(session, PROMPT)
        assert "0.3 s" in await given_up()
        assert (await session.row()).title == ""


async def test_titles_are_tried_with_three_prompts_and_then_no_more(
    tmp_path: Path, given_up: GivenUp
) -> None:
    async with (
        bench(tmp_path, [say("Yes.")] * 4, titles=[empty()] * 4) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await b.session(runtime)
        for count in (1, 2, 3, 3):
            await ask(session, PROMPT)
            await given_up(count)
        assert len(b.provider.title_requests) == 3


async def test_closing_the_runtime_cancels_the_request(tmp_path: Path) -> None:
    def script(request: ReceivedRequest, _number: int) -> Reply:
        return stall(say(TITLE)) if asks_for_title(request) else say("It is old.")

    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "the request for the title stands among the others"
        async with b.runtime(titles=True) as runtime:
            session = await b.session(runtime)
            await ask(session, PROMPT)
            await b.provider.received(2)
        (title,) = [each.index for each in b.provider.requests if asks_for_title(each)]
        with anyio.fail_after(60):
            while title not in b.provider.abandoned:
                await anyio.sleep(0.002)
        async with b.runtime() as runtime:
            assert (await (await runtime.session(session.id)).row()).title == ""


async def test_a_title_that_did_not_come_is_tried_again_after_a_restart(tmp_path: Path) -> None:
    async with bench(
        tmp_path, [say("It is old."), say("It is.")], titles=[stall(say("Late")), say(TITLE)]
    ) as b:
        async with b.runtime(titles=True) as runtime:
            session = await b.session(runtime)
            await ask(session, PROMPT)
            await asked(b)
        async with b.runtime(titles=True) as runtime:
            session = await runtime.session(session.id)
            await session.prompt("Is it?")
            assert (await renamed(session)).title == TITLE
            await session.wait()
        assert all(PROMPT.encode() in each.body for each in b.provider.title_requests)


async def test_a_title_of_its_own_is_kept(tmp_path: Path) -> None:
    async with (
        bench(tmp_path, [say("It is old.")], titles=[say(TITLE)]) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await b.session(runtime, title="Mine")
        await ask(session, PROMPT)
        assert (await session.row()).title == "Mine"
        assert b.provider.title_requests == []


async def test_the_beginning_of_the_prompt_is_no_title_of_its_own(tmp_path: Path) -> None:
    async with (
        bench(tmp_path, [say("It is old.")], titles=[say(TITLE)]) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await b.session(runtime, title=first_words(PROMPT))
        await session.prompt(PROMPT)
        assert (await renamed(session)).title == TITLE
        await session.wait()


async def test_a_user_who_names_a_session_like_its_prompt_is_heard(tmp_path: Path) -> None:
    async with (
        bench(tmp_path, [say("It is old.")], titles=[say(TITLE)]) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await b.session(runtime)
        await session.rename(PROMPT)
        await ask(session, PROMPT)
        assert b.provider.title_requests == []


async def test_a_fork_keeps_its_title(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("It is old."), say("It is.")], titles=[say(TITLE)]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime, title=first_words(PROMPT))
            await ask(session, PROMPT)
            copy = await session.fork()
        async with b.runtime(titles=True) as runtime:
            copy = await runtime.session(copy.id)
            await ask(copy, "Is it?")
            assert (await copy.row()).title == first_words(PROMPT)
        assert b.provider.title_requests == []


async def test_the_session_of_a_task_keeps_the_name_that_it_was_given() -> None:
    state = SessionState("child")
    of_parent = ev.SessionCreated("/a", "/a", "m/m", "x", title=first_words(PROMPT), parent="p")
    for seq, event in enumerate(
        [of_parent, ev.PromptAdmitted("1", PROMPT, "steer"), ev.PromptPromoted("1")], 1
    ):
        state.apply(ev.Record(seq, 0, event))
    assert first_prompt(state) is None


async def test_a_title_goes_along_with_an_export(tmp_path: Path) -> None:
    async with (
        bench(tmp_path, [say("It is old.")], titles=[say(TITLE)]) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await titled(b, runtime)
        log = await log_of(session)
        file = await session.export(tmp_path / "session.jsonl")
        await runtime.delete_session(session.id)
        again = await runtime.import_session(file)
        assert await log_of(again) == log
        assert (await again.row()).title == TITLE


def test_a_name_from_a_user_is_written_as_it_ever_was() -> None:
    assert msgspec.json.encode(ev.SessionRenamed("Mine")) == b'{"title":"Mine"}'


async def test_the_session_may_be_deleted_meanwhile(tmp_path: Path, given_up: GivenUp) -> None:
    released = anyio.Event()
    async with (
        bench(tmp_path, [say("It is old.")], titles=[hold(released, say(TITLE))]) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await b.session(runtime)
        await ask(session, PROMPT)
        await asked(b)
        await runtime.delete_session(session.id)
        released.set()
        assert session.id in await given_up()
        assert await runtime.sessions() == []


async def test_a_long_prompt_goes_out_in_part(tmp_path: Path) -> None:
    async with (
        bench(tmp_path, [say("Long.")], titles=[say(TITLE)]) as b,
        b.runtime(titles=True) as runtime,
    ):
        await titled(b, runtime, "word " * 10_000)
        (request,) = b.provider.title_requests
        assert len(request.body) < 3_000


async def test_what_needs_tools_and_thinking_is_fitting_in_the_request(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("It is old.")], "anthropic", titles=[say(TITLE)]) as b:
        b.config["providers"]["scripted"]["models"]["model-1"] = {
            "max_output": 32_000,
            "parameters": {
                "thinking": {"type": "enabled", "budget_tokens": 8_000},
                "tool_choice": {"type": "auto"},
                "metadata": {"user_id": "u"},
            },
        }
        async with b.runtime(titles=True) as runtime:
            await titled(b, runtime)
        assert b.provider.refused == []
        body = b.provider.title_requests[0].json
        assert body["max_tokens"] == 10_000
        assert body["thinking"]["budget_tokens"] == 8_000
        assert body["metadata"] == {"user_id": "u"}
        assert "tool_choice" not in body


async def test_the_cache_key_of_the_session_is_not_used(tmp_path: Path) -> None:
    async with (
        bench(tmp_path, [say("It is old.")], "openai-responses", titles=[say(TITLE)]) as b,
        b.runtime(titles=True) as runtime,
    ):
        session = await titled(b, runtime)
        (step,), (title,) = b.provider.requests, b.provider.title_requests
        assert step.json["prompt_cache_key"] == session.id
        assert title.json["prompt_cache_key"] != session.id


CLEANED = {
    TITLE: TITLE,
    f'"{TITLE}."': TITLE,
    f"# {TITLE}\n": TITLE,
    f"**Title:** {TITLE}": TITLE,
    f"Here is a title:\n\n{TITLE}": TITLE,
    f"<think>\nThe build.\n</think>\n{TITLE}": TITLE,
    f"\n\n  {TITLE}  \nIt says what the build is about.": TITLE,
    "Explain `foo` and “bar”": "Explain foo and bar",
    "Don't use the users' names": "Don't use the users' names",
    "Fix .gitignore": "Fix .gitignore",
    ".gitignore is ignored": ".gitignore is ignored",
    "ビルドが失敗する。": "ビルドが失敗する",
    "a\u202egnp.exe": "agnp.exe",
    "\u0645\u06cc\u200c\u062e": "\u0645\u06cc\u200c\u062e",
    "Two\tparts\u00a0here": "Two parts here",
    "word " * 20: "word word word word word word word word word word word word",
    "x" * 100: "x" * 60,
    "x" * 201: "",
    "<think>\nThe build": "The build",
    "...": "",
    "\U0001f680": "",
    "": "",
    "\x00Build": "",
    "Build \x9b31m": "",
}


@pytest.mark.parametrize(("text", "title"), CLEANED.items(), ids=range(len(CLEANED)))
def test_a_title_is_cleaned(text: str, title: str) -> None:
    assert clean(text) == title


@given(st.text(max_size=300))
@example("\ud800")
@example("#" * 60)
@example('"' * 10_000_000)
@example("* " * 5_000_000)
@example("title:" * 1_000_000)
def test_whatever_a_model_writes_is_one_printable_line_or_nothing(text: str) -> None:
    title = clean(text)
    assert len(title) <= LONGEST
    assert title == title.strip()
    assert all(char.isprintable() or char in "\u200c\u200d" for char in title)
    assert clean(title) == title
    title.encode()


def test_thinking_is_no_part_of_a_title() -> None:
    parts = (Reasoning("What is it about?"), Text("Broken "), Text("build"))
    assert title_in(Answer(parts, "end", Usage())) == "Broken build"


def test_the_instruction_is_told_apart_in_every_encoding() -> None:
    assert INSTRUCTION.isascii()
    assert not set(INSTRUCTION) & set('"\\/\n')
