"""Rules by tool and resource, and answers that are remembered, as whole sessions meet them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from perdure import PermissionAnswer, PermissionRequest, Runtime
from perdure.config.answers import NAME
from perdure.config.paths import data_dir
from perdure.history import events as ev
from perdure.testing import call, calls, isolated_environment, say, write_config
from perdure.tools.permissions import Ask
from tests.session.support import KEY, ask, bench, log_of, of_type, up_to

pytestmark = pytest.mark.anyio


def write(path: str) -> dict[str, object]:
    return {"path": path, "content": "new\n"}


def always(word: str, asked: list[PermissionRequest]) -> Ask:
    async def answer(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request)
        return PermissionAnswer(allowed=True, always=word)  # pyright: ignore[reportArgumentType]

    return answer


async def test_a_rule_for_paths_judges_where_a_path_leads(tmp_path: Path) -> None:
    rules = {"write": {"*": "allow", "secrets/*": "deny"}}
    paths = ["a.txt", "secrets/key", "link/key", "docs/../secrets/other"]
    script = [calls(*(("write", write(path)) for path in paths)), say("Done.")]
    async with bench(tmp_path, script) as b:
        (b.project / "secrets").mkdir()
        (b.project / "docs").mkdir()
        (b.project / "link").symlink_to("secrets")
        async with b.runtime(config={"permissions": rules}) as runtime:
            records = await ask(await b.session(runtime), "Write them.")
        outcomes = [each.outcome for each in of_type(records, ev.ToolSettled)]
        assert sorted(outcomes) == ["completed", "failed", "failed", "failed"]
        assert (b.project / "a.txt").exists()
        assert list((b.project / "secrets").iterdir()) == []


async def test_a_rule_for_commands_lets_no_other_command_pass(tmp_path: Path) -> None:
    rules = {"shell": {"echo *": "allow"}}
    commands = ["echo one", "echo two; touch made", "echo $(touch made)"]
    script = [calls(*(("shell", {"command": each}) for each in commands)), say("Done.")]
    async with (
        bench(tmp_path, script) as b,
        b.runtime(config={"permissions": rules}) as runtime,
    ):
        records = await ask(await b.session(runtime), "Run them.")
        assert len(of_type(records, ev.ToolStarted)) == 1
        assert not (b.project / "made").exists()


@pytest.mark.parametrize("word", ["call", "tool"])
async def test_an_answer_for_good_allows_no_other_tool(tmp_path: Path, word: str) -> None:
    asked: list[PermissionRequest] = []
    script = [call("write", write("a")), call("read", {"path": "a"}), say("Done.")]
    async with (
        bench(tmp_path, script) as b,
        b.runtime(ask=always(word, asked), config={"permissions": {"read": "ask"}}) as runtime,
    ):
        await ask(await b.session(runtime), "Write and read.")
    assert [request.tool for request in asked] == ["write", "read"]


@pytest.mark.parametrize(("word", "questions"), [("call", 2), ("tool", 1), ("", 3)])
async def test_an_answer_for_good_is_not_asked_for_again(
    tmp_path: Path, word: str, questions: int
) -> None:
    asked: list[PermissionRequest] = []
    script = [call("write", write(path)) for path in ("a", "a", "b")]
    async with (
        bench(tmp_path, [*script, say("Done.")]) as b,
        b.runtime(ask=always(word, asked)) as runtime,
    ):
        records = await ask(await b.session(runtime), "Write them.")
        assert [each.outcome for each in of_type(records, ev.ToolSettled)] == ["completed"] * 3
    assert len(asked) == questions


async def test_what_was_allowed_for_good_still_is_after_a_restart_and_where_nobody_answers(
    tmp_path: Path,
) -> None:
    script = [call("write", write("a")), say("Done."), call("write", write("a")), say("Again.")]
    async with bench(tmp_path, script) as b:
        write_config(tmp_path, b.config)
        environ = isolated_environment(tmp_path) | {KEY: "scripted-key"}
        async with Runtime.open(b.store, environ=environ, ask=always("call", [])) as runtime:
            session = await b.session(runtime)
            await ask(session, "Write it.")
        async with Runtime.open(b.store, environ=environ) as runtime:
            records = await ask(await runtime.session(session.id), "Write it again.")
    assert of_type(records, ev.ToolSettled)[-1].outcome == "completed"


async def test_an_answer_for_good_overrules_no_denial(tmp_path: Path) -> None:
    script = [call("write", write("a")), say("Done."), call("write", write("a")), say("No.")]
    async with bench(tmp_path, script) as b, b.runtime(ask=always("tool", [])) as runtime:
        session = await b.session(runtime)
        await ask(session, "Write it.")
        (b.project / "a").unlink()
        b.config["permissions"] = {"write": "deny"}
        async with b.runtime(ask=always("tool", [])) as other:
            await ask(await other.session(session.id), "Write it again.")
        assert not (b.project / "a").exists()


async def test_a_damaged_file_of_answers_is_asked_again_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[PermissionRequest] = []
    async with bench(tmp_path, [call("write", write("a")), say("Done.")]) as b:
        write_config(tmp_path, b.config)
        environ = isolated_environment(tmp_path) | {KEY: "scripted-key"}
        data_dir(environ).mkdir(parents=True, exist_ok=True)
        (data_dir(environ) / NAME).write_text("{")
        with caplog.at_level(logging.WARNING):
            async with Runtime.open(b.store, environ=environ, ask=always("call", asked)) as runtime:
                await ask(await b.session(runtime), "Write it.")
    assert len(asked) == 1
    assert "is damaged; delete it and answer the questions again" in caplog.text


@pytest.mark.parametrize(
    ("permission", "outcome"), [("allow", "completed"), ("ask", "completed"), ("deny", "unknown")]
)
async def test_nobody_is_asked_again_about_a_call_that_a_crash_ended(
    tmp_path: Path, permission: str, outcome: str
) -> None:
    async def decline(request: PermissionRequest) -> PermissionAnswer:
        return PermissionAnswer(allowed=False)

    async with bench(tmp_path, [call("list", {"path": "."}), say("I see."), say("I see.")]) as b:
        b.prefix_may_break = "the same session goes on twice"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Look.")
            records = await log_of(session)
        await b.crash({session.id: up_to(records, ev.ToolStarted)})
        rules = {"permissions": {"list": permission}}
        async with b.runtime(config=rules, ask=decline) as runtime:
            assert [*await runtime.recover()] == [session.id]
            again = await runtime.session(session.id)
            await again.wait()
            settled = of_type(await log_of(again), ev.ToolSettled)
        assert [each.outcome for each in settled] == [outcome]
