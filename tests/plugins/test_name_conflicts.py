"""Two of one name: the first keeps it, and a diagnostic names both."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.config.known import KNOWN
from perdure.config.schema import PluginOptions, ProviderConfig
from perdure.plugins import Taken
from tests.context.context_facts import fact
from tests.plugins.given import LOCAL, Changeable, keys, messages, tool, without_installed

pytestmark = pytest.mark.anyio

REMOTE = ProviderConfig("openai-chat", "https://llm.example/v1")


async def test_of_two_plugins_with_one_name_the_first_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "weather.py"
    file.write_text("def plugin(scope): raise RuntimeError", "utf-8")
    options = PluginOptions(paths=(file,))
    first = Changeable("weather", [fact("weather/now", "sun")])
    second = Changeable("weather", [fact("weather/now", "rain")])
    async with without_installed(first, second) as registry:
        await registry.prepare(options)
        view = registry.view(options)
    assert (first.runs, second.runs) == (1, 0)
    assert (await view.compose().initialize()).baseline == "weather/now is 'sun'."
    reason = "is left out: plugin weather (given by the program) has that name; rename this one"
    assert messages(view) == [
        f"plugin weather (given by the program): {reason}",
        f"plugin weather ({file}): {reason}",
    ]


async def test_the_first_keeps_its_name_even_while_it_fails() -> None:
    first, second = Changeable("weather"), Changeable("weather", [fact("weather/now", "rain")])
    first.error = KeyError()
    async with without_installed(first, second) as registry:
        await registry.prepare()
        assert keys(registry.view()) == ()
        assert second.runs == 0


async def test_two_plugins_with_one_key_are_told_apart_by_their_names() -> None:
    first = Changeable("weather", [fact("weather/now", "sun")])
    second = Changeable("clima", [fact("weather/now", "rain")])
    async with without_installed(second, first) as registry:
        await registry.prepare()
        view = registry.view()
    assert (await view.compose().initialize()).baseline == "weather/now is 'sun'."
    (message,) = messages(view)
    assert message.startswith("plugin clima (given by the program): failed to load: ")
    assert "key 'weather/now' does not belong to plugin clima" in message


async def test_of_two_plugins_with_one_tool_the_first_keeps_it() -> None:
    first = Changeable("git", tools=[tool("git_hub_stars", "from git")])
    second = Changeable("git_hub", tools=[tool("git_hub_stars", "from hub"), tool("git_hub_now")])
    async with without_installed(first, second) as registry:
        await registry.prepare()
        view = registry.view()
    assert [each.description for each in view.tools] == ["Answers from git.", "Answers done."]
    (message,) = messages(view)
    assert message == (
        "plugin git_hub (given by the program): tool git_hub_stars is left out:"
        " plugin git (given by the program) has one of that name; rename it"
    )


async def test_of_two_plugins_with_one_provider_the_first_keeps_it() -> None:
    first = Changeable("a", providers={"mine": LOCAL})
    second = Changeable("b", providers={"mine": REMOTE, "other": REMOTE})
    async with without_installed(first, second) as registry:
        await registry.prepare()
        view = registry.view()
    assert dict(view.providers) == {"mine": LOCAL, "other": REMOTE}
    assert [each.plugin for each in view.diagnostics] == ["b"]


async def test_names_of_perdure_and_of_the_program_are_not_for_plugins() -> None:
    plugin = Changeable(
        "read",
        [fact("read/last", "a file"), fact("read/count", 3, int)],
        [tool("read"), tool("read_twice")],
        {"anthropic": LOCAL, "mine": LOCAL},
    )
    taken = Taken(
        keys=frozenset({"read/last"}), tools=frozenset({"read"}), providers=frozenset(KNOWN)
    )
    async with without_installed(plugin, taken=taken) as registry:
        await registry.prepare()
        view = registry.view()
    assert keys(view, "read/last") == ("read/count",)
    assert [each.name for each in view.tools] == ["read_twice"]
    assert list(view.providers) == ["mine"]
    names = ("source read/last", "tool read", "provider anthropic")
    assert messages(view) == [
        f"plugin read (given by the program): {name} is left out:"
        " Perdure or the program has one of that name; rename it"
        for name in names
    ]


async def test_a_failed_plugin_does_not_stand_in_for_what_the_program_itself_tells() -> None:
    plugin = Changeable("weather")
    plugin.error = KeyError()
    taken = Taken(keys=frozenset({"weather/now"}), tools=frozenset({"weather_now"}))
    told = (tool("weather_now").definition(), tool("weather_wind").definition())
    async with without_installed(plugin, taken=taken) as registry:
        await registry.prepare()
        view = registry.view()
    assert keys(view, "weather/now", "weather/wind") == ("weather/wind",)
    assert [each.name for each in view.offer(told)] == ["weather_wind"]
