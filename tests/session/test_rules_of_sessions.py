"""Single rules of the System Context in a running session that no other test shows by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import UNAVAILABLE, Source, Tool, ToolContext
from perdure.history import events as ev
from perdure.history.items import SystemItem
from perdure.testing import call, error, say
from tests.session.support import ask, bench, log_of, of_type, told

pytestmark = pytest.mark.anyio


class NoArguments(msgspec.Struct):
    """Nothing."""


class Fact:
    """A source whose value a test changes; it counts how often it was looked at."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value
        self.loads = 0

    def source(self) -> Source[str]:
        async def load() -> Any:
            self.loads += 1
            return self.value

        return Source(
            key=f"demo/{self.name}",
            type=str,
            load=load,
            baseline=lambda value: f"The {self.name} is {value}.",
            update=lambda _, current: f"The {self.name} is now {current}.",
        )


async def test_the_first_step_starts_an_epoch_and_tells_no_message(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1")]) as b:
        async with b.runtime(sources=[Fact("flag", "up").source()]) as runtime:
            records = await ask(await b.session(runtime), "first")
        (epoch,) = of_type(records, ev.EpochStarted)
        assert epoch.epoch == 1
        assert "The flag is up." in epoch.baseline
        assert told(records) == []


async def test_one_new_epoch_clears_all_that_is_due_and_names_every_reason(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with bench(tmp_path, [say("1"), say("2"), say("3")]) as b:
        b.prefix_may_break = "a move and a model switch"
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.move(other)
            await session.switch_model("scripted/model-2")
            (epoch,) = of_type(await ask(session, "second"), ev.EpochStarted)
            assert epoch.reasons == ("session moved", "model switched")
            assert of_type(await ask(session, "third"), ev.EpochStarted) == []


async def test_a_transcript_hides_system_messages_unless_asked(tmp_path: Path) -> None:
    flag = Fact("flag", "up")
    async with bench(tmp_path, [say("1"), say("2")]) as b:
        async with b.runtime(sources=[flag.source()]) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            flag.value = "down"
            await ask(session, "second")
            shown = await session.messages()
            whole = await session.messages(system=True)
    (message,) = [item for item in whole if item not in shown]
    assert isinstance(message, SystemItem)
    assert message.text == "The flag is now down."


async def test_a_message_outlives_a_compaction_while_the_new_epoch_is_blocked(
    tmp_path: Path,
) -> None:
    flag, weather = Fact("flag", "up"), Fact("weather", "sunny")
    script = [say("long " * 400), say("longer " * 400), say("We spoke."), say("Yes.")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "a compaction"
        b.config["providers"]["scripted"]["models"]["model-1"] = {"context_window": 8000}
        async with b.runtime(sources=[flag.source(), weather.source()]) as runtime:
            session = await b.session(runtime)
            await ask(session, "first question")
            weather.value = "rainy"
            await ask(session, "second question")
            flag.value = UNAVAILABLE
            assert await session.compact()
            assert of_type(await ask(session, "third question"), ev.EpochStarted) == []
        before, *after = b.provider.requests[3].json["messages"]
        assert "The weather is sunny." in str(before)
        assert "first question" not in str(after)
        assert str(after).index("We spoke.") < str(after).index("The weather is now rainy.")


async def test_an_earlier_point_shows_what_had_been_told_by_then(tmp_path: Path) -> None:
    flag = Fact("flag", "up")
    async with bench(tmp_path, [say("1"), say("2")]) as b:
        async with b.runtime(sources=[flag.source()]) as runtime:
            session = await b.session(runtime)
            first = await ask(session, "first")
            flag.value = "down"
            await ask(session, "second")
            earlier = await session.context(at=max(record.seq or 0 for record in first))
            later = await session.context()
    assert [each.told for each in earlier.sources if each.key == "demo/flag"] == ["up"]
    assert [each.told for each in later.sources if each.key == "demo/flag"] == ["down"]


async def test_a_message_told_in_a_failed_step_stays_and_is_told_once(tmp_path: Path) -> None:
    flag = Fact("flag", "up")
    async with bench(tmp_path, [say("1"), error(401), say("3")]) as b:
        async with b.runtime(sources=[flag.source()]) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            flag.value = "down"
            records = await ask(session, "second")
            assert of_type(records, ev.StepFinished)[-1].outcome == "failed"
        async with b.runtime(sources=[flag.source()]) as runtime:
            again = await runtime.session(session.id)
            assert told(await ask(again, "third")) == []
        assert b.provider.requests[2].body.count(b"The flag is now down.") == 1


async def test_attempts_of_one_step_observe_once(tmp_path: Path) -> None:
    flag = Fact("flag", "up")
    async with bench(tmp_path, [error(529), error(529), say("1")]) as b:
        async with b.runtime(sources=[flag.source()]) as runtime:
            await ask(await b.session(runtime), "first")
        assert len(b.provider.requests) == 3
        assert flag.loads == 1


async def test_a_change_during_a_call_is_told_behind_its_result(tmp_path: Path) -> None:
    flag = Fact("flag", "up")

    async def lower(_arguments: NoArguments, _context: ToolContext) -> str:
        flag.value = "down"
        return "lowered"

    tool = Tool(name="lower", description="Lower it.", arguments=NoArguments, run=lower)
    async with bench(tmp_path, [call("lower"), say("Done.")]) as b:
        async with b.runtime(sources=[flag.source()], tools=[tool]) as runtime:
            records = await ask(await b.session(runtime), "Lower the flag")
        order = [type(record.data) for record in records]
        assert told(records) == ["The flag is now down."]
        assert order.index(ev.ToolSettled) < order.index(ev.SystemMessage)


async def test_a_wake_with_nothing_to_do_observes_and_writes_nothing(tmp_path: Path) -> None:
    flag = Fact("flag", "up")
    async with bench(tmp_path, [say("1")]) as b:
        async with b.runtime(sources=[flag.source()]) as runtime:
            session = await b.session(runtime)
            await ask(session, "first", id="mine")
            before, loads = await log_of(session), flag.loads
            flag.value = "down"
            await session.prompt("first", id="mine")
            await session.wait()
            assert await log_of(session) == before
            assert flag.loads == loads


async def test_a_change_never_wakes_an_idle_session(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1")]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await session.set_entry("branch", "main")
            await session.wait()
            assert type((await log_of(session))[-1].data) is ev.EntrySet
        assert len(b.provider.requests) == 1


async def test_a_look_at_the_context_writes_nothing(tmp_path: Path) -> None:
    flag = Fact("flag", "up")
    async with bench(tmp_path, [say("1")]) as b, b.runtime(sources=[flag.source()]) as runtime:
        session = await b.session(runtime)
        await ask(session, "first")
        before = await log_of(session)
        flag.value = "down"
        view = await session.context()
        assert view.next_text == "The flag is now down."
        assert await log_of(session) == before


async def test_a_discovered_file_is_part_of_a_later_baseline(tmp_path: Path) -> None:
    script = [call("read", {"path": "deep/a.txt"}), say("ok"), say("yes")]
    async with bench(tmp_path, script) as b:
        b.prefix_may_break = "a model switch"
        (b.project / ".git").mkdir()
        (b.project / "deep").mkdir()
        (b.project / "deep" / "a.txt").write_text("text")
        (b.project / "deep" / "AGENTS.md").write_text("Deep rules.")
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "Read it")
            await session.switch_model("scripted/model-2")
            (epoch,) = of_type(await ask(session, "second"), ev.EpochStarted)
        assert "Deep rules." in epoch.baseline


async def test_a_new_source_is_told_once_at_the_next_boundary(tmp_path: Path) -> None:
    flag, weather = Fact("flag", "up"), Fact("weather", "sunny")
    async with bench(tmp_path, [say("1"), say("2"), say("3")]) as b:
        async with b.runtime(sources=[flag.source()]) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
        async with b.runtime(sources=[flag.source(), weather.source()]) as runtime:
            again = await runtime.session(session.id)
            assert told(await ask(again, "second")) == ["The weather is sunny."]
            assert told(await ask(again, "third")) == []
