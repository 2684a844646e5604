"""What ends a Context Epoch, what does not, and what the model is told across the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import UNAVAILABLE, PerdureError, Source, Unavailable
from perdure.history import events as ev
from perdure.testing import call, empty, error, keeps_prefix, say
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.session.support import Bench, ask, bench, log_of, of_type, told

pytestmark = pytest.mark.anyio


def flag(value: list[Any], key: str = "demo/flag") -> Source[str]:
    """A source that holds what the list holds; None is Unavailable."""

    async def load() -> str | Unavailable:
        return UNAVAILABLE if value[0] is None else value[0]

    return Source(
        key=key,
        type=str,
        load=load,
        baseline=lambda value: f"The flag is {value}.",
        update=lambda _, current: f"The flag is now {current}.",
    )


def system_of(b: Bench, index: int) -> str:
    """Return the Baseline of a request, whichever protocol it is."""
    body = b.provider.requests[index].json
    first = (body.get("messages") or body["input"])[0]
    return str(body.get("system") or first["content"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_model_switch_starts_an_epoch_and_keeps_the_history(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    async with bench(tmp_path, [say("one"), say("two")], protocol) as b:
        b.prefix_may_break = "a model switch"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.switch_model("scripted/model-2")
            records = await ask(session, "second")
        (epoch,) = of_type(records, ev.EpochStarted)
        assert epoch.reasons == ("model switched",)
        assert b.provider.requests[1].model == "model-2"
        assert b"first" in b.provider.requests[1].body
        assert told(records) == []


async def test_switching_away_and_back_without_a_step_changes_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.switch_model("scripted/model-2")
            await session.switch_model("scripted/model-1")
            assert of_type(await ask(session, "second"), ev.EpochStarted) == []


async def test_a_move_finds_the_instructions_of_the_destination(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b:
        b.prefix_may_break = "a move"
        (b.project / "AGENTS.md").write_text("Here we speak French.")
        other = tmp_path / "other"
        other.mkdir()
        (other / "AGENTS.md").write_text("Here we speak Danish.")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.move(other)
            (epoch,) = of_type(await ask(session, "second"), ev.EpochStarted)
        assert epoch.reasons == ("session moved",)
        assert "Danish" in epoch.baseline
        assert "French" not in epoch.baseline
        assert str(other) in system_of(b, 1)


async def test_a_move_can_be_told_as_a_message_instead(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("one"), say("two")]) as b:
        b.config["on_move"] = "update"
        (b.project / "AGENTS.md").write_text("Here we speak French.")
        other = tmp_path / "other"
        other.mkdir()
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.move(other)
            (text,) = told(await ask(session, "second"))
        assert str(other) in text
        assert "no longer" in text


async def test_a_nested_instruction_file_is_told_after_a_read_and_survives_a_restart(
    tmp_path: Path,
) -> None:
    script = [call("read", {"path": "deep/down/a.txt"}), say("ok"), say("yes")]
    async with bench(tmp_path, script) as b:
        (b.project / ".git").mkdir()
        below = b.project / "deep" / "down"
        below.mkdir(parents=True)
        (below / "a.txt").write_text("text")
        (b.project / "deep" / "AGENTS.md").write_text("Deep rules.")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            records = await ask(session, "Read it")
            (text,) = told(records)
            assert "Deep rules." in text
            assert len(of_type(records, ev.InstructionsDiscovered)) == 1
        async with b.runtime() as runtime:
            again = await runtime.session(session.id)
            (b.project / "deep" / "AGENTS.md").write_text("Deeper rules.")
            (text,) = told(await ask(again, "And?"))
            assert "Deeper rules." in text


async def test_discoveries_are_forgotten_on_a_move(tmp_path: Path) -> None:
    script = [call("read", {"path": "deep/a.txt"}), say("ok"), say("yes")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "a move"
        (b.project / ".git").mkdir()
        for name in ("deep", "side"):
            (b.project / name).mkdir()
        (b.project / "deep" / "a.txt").write_text("text")
        (b.project / "deep" / "AGENTS.md").write_text("Deep rules.")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Read it")
            await session.move(b.project / "side")
            (epoch,) = of_type(await ask(session, "second"), ev.EpochStarted)
        assert "Deep rules." not in epoch.baseline


async def test_a_blocked_replacement_waits_and_is_done_once(tmp_path: Path) -> None:
    value: list[Any] = ["up"]
    weather = ["sunny"]
    sources = [flag(value), flag(weather, "demo/weather")]
    script = [say(str(number)) for number in range(5)]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "model switches"
        async with b.runtime(sources=sources) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            value[0] = None
            weather[0] = "rainy"
            await session.switch_model("scripted/model-2")
            records = await ask(session, "second")
            assert of_type(records, ev.EpochStarted) == []
            assert told(records) == ["The flag is now rainy."]
            view = await session.context()
            assert view.blocked == ("demo/flag",)
        async with b.runtime(sources=sources) as runtime:
            again = await runtime.session(session.id)
            assert of_type(await ask(again, "third"), ev.EpochStarted) == []
            value[0] = "down"
            (epoch,) = of_type(await ask(again, "fourth"), ev.EpochStarted)
            assert epoch.reasons == ("model switched",)
            assert "The flag is down." in epoch.baseline
            assert "The flag is rainy." in epoch.baseline
            assert of_type(await ask(again, "fifth"), ev.EpochStarted) == []
        assert "The flag is up." in system_of(b, 2)
        assert b"The flag is now rainy." in b.provider.requests[2].body
        assert b"now rainy" not in b.provider.requests[3].body


async def test_an_entry_is_told_changed_and_removed_and_null_is_a_value(tmp_path: Path) -> None:
    async with bench(tmp_path, [say(str(number)) for number in range(4)]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await session.set_entry("branch", "main")
            await ask(session, "first")
            assert '"main"' in system_of(b, 0)
            await session.set_entry("branch", None)
            (text,) = told(await ask(session, "second"))
            assert "null" in text
            await session.set_entry("branch", None)
            assert told(await ask(session, "third")) == []
            await session.remove_entry("branch")
            (text,) = told(await ask(session, "fourth"))
            assert "no longer" in text


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_compaction_by_hand_puts_a_summary_in_the_place_of_the_history(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    script = [say("long " * 400), say("longer " * 400), say("We spoke at length."), say("Yes.")]
    async with bench(tmp_path, script, protocol) as b:
        b.prefix_may_break = "a compaction"
        b.config["providers"]["scripted"]["models"]["model-1"] = {"context_window": 8000}
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first question")
            (b.project / "AGENTS.md").write_text("New rules.")
            await ask(session, "second question")
            assert await session.compact()
            records = await ask(session, "third question")
            (epoch,) = of_type(records, ev.EpochStarted)
            assert epoch.reasons == ("history compacted",)
            assert "New rules." in epoch.baseline
            assert len(await session.messages()) == 6
        summary, after = b.provider.requests[2].json, b.provider.requests[3].json
        assert summary["tools"] == b.provider.requests[1].json["tools"]
        assert b"first question" in b.provider.requests[2].body
        messages = after.get("messages") or after.get("contents") or after["input"]
        assert "We spoke at length." in str(messages)
        assert "first question" not in str(messages)
        assert "New rules." not in str(messages[1:])


@pytest.mark.parametrize("broken", [empty(), error(500), say("cut", stop="length")])
async def test_a_failed_summary_leaves_the_history_as_it_was(tmp_path: Path, broken: Any) -> None:
    script = [say("long " * 900), broken, say("Yes.")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "the request of a summary is no step"
        b.config["providers"]["scripted"]["models"]["model-1"] = {"context_window": 8000}
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first question")
            with pytest.raises(PerdureError):
                await session.compact()
            assert of_type(await ask(session, "second"), ev.EpochStarted) == []
        first, _, second = b.provider.requests
        assert keeps_prefix(first, second)


async def test_a_nearly_full_window_is_compacted_before_the_next_step(tmp_path: Path) -> None:
    script = [say("word " * 3000), say("word " * 3000), say("A summary."), say("Yes.")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "a compaction"
        b.config["providers"]["scripted"]["models"]["model-1"] = {
            "context_window": 10_000,
            "max_output": 1000,
        }
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await ask(session, "second")
            records = await ask(session, "third")
            (started,) = of_type(records, ev.CompactionStarted)
            assert started.reason == "automatic"
            order = [type(record.data) for record in records]
            assert order.index(ev.CompactionFinished) < order.index(ev.PromptPromoted)
        assert len(b.provider.requests) == 4


async def test_an_overflow_is_compacted_and_the_step_done_once_more(tmp_path: Path) -> None:
    words = "This model's maximum context length is 8192 tokens."
    overflow = error(400, "invalid_request_error", words, code="context_length_exceeded")
    script = [say("one " * 500), overflow, say("A summary."), say("Done.")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "a compaction"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            records = await ask(session, "second")
            outcomes = [event.outcome for event in of_type(records, ev.StepFinished)]
            assert outcomes == ["overflowed", "completed"]
            assert len(of_type(records, ev.PromptPromoted)) == 1
        assert b"second" in b.provider.requests[3].body


async def test_an_overflow_after_a_compaction_is_the_original_error(tmp_path: Path) -> None:
    words = "This model's maximum context length is 8192 tokens."
    overflow = error(400, "invalid_request_error", words, code="context_length_exceeded")
    script = [say("one " * 500), overflow, say("A summary."), overflow, say("x")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "a compaction"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            records = await ask(session, "second")
            last = of_type(records, ev.StepFinished)[-1]
            assert last.outcome == "failed"
            assert last.failure.error == "ContextOverflow"
            assert len(of_type(await log_of(session), ev.CompactionFinished)) == 1
