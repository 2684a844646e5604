"""What a plugin may register, and under which names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.config.location import Location
from perdure.config.schema import PluginOptions, ProviderConfig
from perdure.context import Source
from perdure.errors import (
    ConfigurationError,
    DuplicateKey,
    InvalidKey,
    PerdureError,
    UsageError,
)
from perdure.plugins import Scope
from tests.context.context_facts import fact
from tests.plugins.given import LOCAL, Changeable, keys, messages, tool, without_installed

pytestmark = pytest.mark.anyio

HERE = Location(Path("/project/a"), Path("/project"))
THERE = Location(Path("/other"), Path("/other"))


async def test_what_a_function_registers_is_seen_in_the_order_of_keys() -> None:
    def weather(scope: Scope) -> None:
        scope.source(fact("weather/wind", "calm"))
        scope.source(fact("weather.paris/now", "rain"))
        scope.source(fact("weather/air", "good"))
        scope.tool(tool("weather_forecast"))
        scope.provider("forecasts", LOCAL)

    async with without_installed(weather) as registry:
        await registry.prepare()
        view = registry.view()

    assert keys(view) == ("weather.paris/now", "weather/air", "weather/wind")
    assert [each.name for each in view.offer()] == ["weather_forecast"]
    assert dict(view.providers) == {"forecasts": LOCAL}
    assert view.diagnostics == ()
    assert [(each.name, each.status) for each in view.plugins] == [("weather", "loaded")]


async def test_the_sources_of_all_plugins_together_are_in_the_order_of_keys() -> None:
    late = Changeable("b", [fact("b/1", "x"), fact("b.c/1", "x")])
    early = Changeable("a", [fact("a/2", "x"), fact("a/1", "x")])
    async with without_installed(late, early) as registry:
        await registry.prepare()
        assert keys(registry.view()) == ("a/1", "a/2", "b.c/1", "b/1")


async def test_an_async_function_may_register_too() -> None:
    async def weather(scope: Scope) -> None:
        scope.source(fact("weather/now", "sun"))

    async with without_installed(weather) as registry:
        await registry.prepare()
        assert keys(registry.view()) == ("weather/now",)


async def test_nothing_runs_before_it_is_prepared_and_then_once() -> None:
    plugin = Changeable("weather", [fact("weather/now", "sun")])
    async with without_installed(plugin) as registry:
        registry.view()
        assert plugin.runs == 0
        await registry.prepare()
        await registry.prepare()
        registry.view()
    assert plugin.runs == 1


async def test_what_a_plugin_registers_later_is_seen_by_the_next_view() -> None:
    plugin = Changeable("weather", [fact("weather/now", "sun")])
    async with without_installed(plugin) as registry:
        await registry.prepare()
        before = registry.view()
        assert plugin.scope is not None
        plugin.scope.source(fact("weather/later", "rain"))
        assert keys(before) == ("weather/now",)
        assert keys(registry.view()) == ("weather/later", "weather/now")


@pytest.mark.parametrize("key", ["clima/now", "weatherman/now", "perdure/date", "weather-2/now"])
def test_a_key_outside_of_the_plugins_namespace_is_refused(key: str) -> None:
    with pytest.raises(InvalidKey, match="does not belong to plugin weather"):
        Scope("weather").source(fact(key, "x"))


@pytest.mark.parametrize("name", ["forecast", "weatherman", "Weather_now"])
def test_a_tool_outside_of_the_plugins_namespace_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"tool '{name}' does not belong to plugin weather"):
        Scope("weather").tool(tool(name))


def test_two_sources_or_tools_or_providers_of_one_name_in_one_plugin_are_refused() -> None:
    scope = Scope("weather")
    scope.source(fact("weather/now", "sun"))
    scope.tool(tool("weather_now"))
    scope.provider("mine", LOCAL)
    with pytest.raises(DuplicateKey, match="two sources with the key 'weather/now'"):
        scope.source(fact("weather/now", "rain"))
    with pytest.raises(UsageError, match="two tools are named 'weather_now'"):
        scope.tool(tool("weather_now"))
    with pytest.raises(UsageError, match="two providers named mine"):
        scope.provider("mine", LOCAL)


def test_a_provider_may_be_given_as_the_table_of_a_configuration_file() -> None:
    scope = Scope("weather")
    scope.provider("mine", {"protocol": "openai-chat", "base_url": "http://127.0.0.1:1/v1/"})
    assert scope.providers["mine"] == ProviderConfig("openai-chat", "http://127.0.0.1:1/v1")


def test_wrong_settings_of_a_provider_name_the_plugin_and_the_key() -> None:
    with pytest.raises(ConfigurationError, match=r"plugin weather: providers\.mine\.protocol"):
        Scope("weather").provider("mine", {"protocol": "telnet"})
    with pytest.raises(UsageError, match="'a/b' is no name for a provider"):
        Scope("weather").provider("a/b", LOCAL)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("source", ["a fact"]),
        ("tool", [print]),
        ("source_at", [None]),
        ("provider", ["mine", 3]),
    ],
)
def test_what_is_no_source_tool_or_provider_is_refused(method: str, arguments: list[Any]) -> None:
    with pytest.raises(PerdureError):
        getattr(Scope("weather"), method)(*arguments)


async def test_a_closed_scope_takes_nothing_more() -> None:
    plugin = Changeable("weather")
    async with without_installed(plugin) as registry:
        await registry.prepare()
    assert plugin.scope is not None
    with pytest.raises(UsageError, match="the scope of plugin weather is closed"):
        plugin.scope.source(fact("weather/now", "sun"))


async def test_a_source_may_depend_on_the_location() -> None:
    made: list[Location] = []

    def at(location: Location) -> Source[Any]:
        made.append(location)
        return fact("weather/here", str(location.directory))

    async with without_installed(Changeable("x"), with_makers("weather", at)) as registry:
        await registry.prepare()
        here, there = registry.view(location=HERE), registry.view(location=THERE)
        again = registry.view(location=HERE)

    assert (await here.compose().initialize()).baseline == "weather/here is '/project/a'."
    assert (await there.compose().initialize()).baseline == "weather/here is '/other'."
    assert again.sources[0] is here.sources[0]  # it remembers whether its loader hangs
    assert made == [HERE, THERE]


async def test_a_source_that_cannot_be_declared_for_a_location_keeps_what_it_told() -> None:
    def at(location: Location) -> Source[Any]:
        if location == THERE:
            raise SystemExit(3)
        return fact("weather/here", "sun")

    async with without_installed(with_makers("weather", at, always="weather/now")) as registry:
        await registry.prepare()
        view = registry.view(location=THERE)

    assert keys(view, "weather/here", "weather/now") == ("weather/here", "weather/now")
    assert messages(view)[0].startswith(
        "plugin weather (given by the program): a source for /other failed: SystemExit at test_"
    )
    assert [each.status for each in view.plugins] == ["incomplete"]


async def test_a_source_for_a_location_is_held_to_the_same_names() -> None:
    plugin = with_makers(
        "weather",
        always_gives(fact("clima/here", "x")),
        always_gives(fact("weather/now", "x")),
        always_gives("weather/text"),
        always="weather/now",
    )
    async with without_installed(plugin) as registry:
        await registry.prepare()
        view = registry.view(location=HERE)

    assert keys(view) == ("weather/now",)
    words = ["'clima/here' does not belong", "two sources with the key", "a Source is needed"]
    assert all(part in message for part, message in zip(words, messages(view), strict=True))


async def test_without_a_location_a_source_that_needs_one_stands_as_it_was_told() -> None:
    plugin = with_makers("weather", always_gives(fact("weather/here", "x")))
    async with without_installed(plugin) as registry:
        await registry.prepare()
        view = registry.view()
    assert keys(view, "weather/here") == ("weather/here",)


async def test_callbacks_are_called_once_at_the_end_the_last_one_first() -> None:
    closed: list[str] = []

    def weather(scope: Scope) -> None:
        async def later() -> None:
            closed.append("async")

        scope.on_close(lambda: closed.append("sync"))
        scope.on_close(later)

    async with without_installed(weather) as registry:
        await registry.prepare()
        assert closed == []
    assert closed == ["async", "sync"]


async def test_a_closing_callback_that_fails_is_logged_and_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed: list[str] = []

    def weather(scope: Scope) -> None:
        def fail() -> None:
            raise SystemExit("the secret value")

        scope.on_close(lambda: closed.append("first"))
        scope.on_close(fail)

    async with without_installed(weather) as registry:
        await registry.prepare()
    assert closed == ["first"]
    assert "plugin weather: a closing callback failed: SystemExit at test_regist" in caplog.text
    assert "secret" not in caplog.text


async def test_a_disabled_plugin_is_not_run() -> None:
    plugin = Changeable("weather", [fact("weather/now", "sun")])
    options = PluginOptions(disabled=("weather",))
    async with without_installed(plugin) as registry:
        await registry.prepare(options)
        assert keys(registry.view(options), "weather/now") == ()
    assert plugin.runs == 0


def with_makers(name: str, *makers: Any, always: str = "") -> Any:
    """Return a plugin with sources that depend on the Location, and one that does not."""

    def register(scope: Scope) -> None:
        for make in makers:
            scope.source_at(make)
        if always:
            scope.source(fact(always, "x"))

    register.__name__ = name
    return register


def always_gives(declared: Any) -> Any:
    """Return what declares the same at every Location."""

    def make(_: Location) -> Any:
        return declared

    return make


def bad_plugins() -> Iterator[Any]:
    """Yield what somebody may give in the place of a plugin."""

    class Registers:
        def __init__(self, scope: Scope) -> None:
            pass

    def generator(scope: Scope) -> Iterator[None]:
        yield

    Registers.__name__ = generator.__name__ = "bad"
    yield pytest.param(Registers, "the plugin must return None, not bad", id="class")
    yield pytest.param(generator, "the plugin must return None, not generator", id="generator")
    module = type("Module", (), {"name": "bad"})()
    yield pytest.param(module, "it must be a function that takes a scope", id="object")


@pytest.mark.parametrize(("plugin", "words"), list(bad_plugins()))
async def test_what_is_no_plugin_is_a_diagnostic(plugin: Any, words: str) -> None:
    async with without_installed(plugin) as registry:
        await registry.prepare()
        (message,) = messages(registry.view())
    assert message.startswith("plugin bad (given by the program): failed to load: ")
    assert words in message


@pytest.mark.parametrize("name", ["Weather", "my.plugin", "", "-x", "x" * 41, "perdure", "entry"])
async def test_a_name_that_no_plugin_can_have_is_a_diagnostic(name: str) -> None:
    plugin = Changeable(name)
    async with without_installed(plugin) as registry:
        await registry.prepare()
        (message,) = messages(registry.view())
    assert message.startswith(f"plugin {name} (given by the program): this ")
    assert plugin.runs == 0
