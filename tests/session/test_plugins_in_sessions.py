"""Plugins in a running session: registered, reloaded, failing, removed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from perdure import Source, Tool, ToolContext
from perdure.history import events as ev
from perdure.plugins import Scope
from perdure.testing import call, say
from tests.session.support import ask, bench, of_type, told

pytestmark = pytest.mark.anyio


class NoArguments(msgspec.Struct):
    """Nothing."""


class Weather:
    """A plugin with one source and one tool; what it says can be changed before a reload."""

    name = "weather"

    def __init__(self) -> None:
        self.words = "sunny"
        self.broken = False

    def register(self, scope: Scope) -> None:
        if self.broken:
            raise RuntimeError("no sensors")
        words = self.words

        async def load() -> str:
            return words

        async def look(_arguments: NoArguments, _context: ToolContext) -> str:
            return f"It looks {words}."

        scope.source(
            Source(
                key="weather/now",
                type=str,
                load=load,
                baseline=lambda value: f"The weather is {value}.",
                update=lambda _, current: f"The weather is now {current}.",
                removed=lambda _: "The weather is no longer watched.",
            )
        )
        scope.tool(
            Tool(name="weather_look", description="Look out.", arguments=NoArguments, run=look)
        )


async def test_a_plugins_source_and_tool_are_part_of_the_session(tmp_path: Path) -> None:
    async with bench(tmp_path, [call("weather_look"), say("Sunny.")]) as b:
        async with b.runtime(plugins=[Weather()]) as runtime:
            await ask(await b.session(runtime), "Look")
        assert "The weather is sunny." in b.provider.requests[0].json["messages"][0]["content"]
        assert b"It looks sunny." in b.provider.requests[1].body


async def test_a_reload_is_told_at_the_next_boundary_without_a_gap(tmp_path: Path) -> None:
    plugin = Weather()
    async with bench(tmp_path, [say("1"), say("2"), say("3")]) as b:
        async with b.runtime(plugins=[plugin]) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            plugin.words = "rainy"
            assert await runtime.plugins.reload("weather") == ()
            assert told(await ask(session, "second")) == ["The weather is now rainy."]
            assert told(await ask(session, "third")) == []


async def test_a_plugin_that_fails_to_reload_takes_nothing_away(tmp_path: Path) -> None:
    plugin = Weather()
    script = [say("1"), call("weather_look"), say("2")]
    async with bench(tmp_path, script) as b:
        async with b.runtime(plugins=[plugin]) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            plugin.broken = True
            (problem,) = await runtime.plugins.reload("weather")
            assert "no sensors" in str(problem) or "RuntimeError" in str(problem)
            records = await ask(session, "second")
            assert told(records) == []
            assert of_type(records, ev.EpochStarted) == []
        assert b.provider.requests[1].json["tools"] == b.provider.requests[0].json["tools"]


async def test_a_plugin_that_fails_after_a_restart_keeps_what_it_told(tmp_path: Path) -> None:
    plugin = Weather()
    async with bench(tmp_path, [say("1"), say("2"), say("3")]) as b:
        async with b.runtime(plugins=[plugin]) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
        plugin.broken = True
        async with b.runtime(plugins=[plugin]) as runtime:
            again = await runtime.session(session.id)
            records = await ask(again, "second")
            assert told(records) == []
            assert of_type(records, ev.EpochStarted) == []


async def test_a_removed_plugin_ends_the_epoch_with_its_tools(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("1"), say("2")]) as b:
        b.prefix_may_break = "a tool was removed"
        async with b.runtime(plugins=[Weather()]) as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            await runtime.plugins.remove("weather")
            (epoch,) = of_type(await ask(session, "second"), ev.EpochStarted)
        assert epoch.reasons == ("tools changed",)
        assert "weather" not in epoch.baseline


async def test_a_plugin_file_of_the_configuration_is_loaded(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "plugins" / "branch.py"
    async with bench(tmp_path, [say("1")]) as b:
        b.config["plugins"] = {"paths": [str(example)]}
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            assert "branch" in str((await session.context()).sources)
