"""Reloading, failing and removing: what was told stands until it is taken out for good."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from perdure.config.schema import PluginOptions
from perdure.context import SourceSnapshot, Unchanged, Updated
from perdure.errors import UsageError
from perdure.history.content import ToolCall
from perdure.plugins import PluginView
from perdure.tools import Settled, ToolContext, ToolSet, settle
from tests.context.context_facts import fact
from tests.plugins.given import LOCAL, Changeable, keys, messages, tool, without_installed

pytestmark = pytest.mark.anyio

TOLD = {
    "weather/now": SourceSnapshot("sun", "weather/now no longer applies."),
    "weather/wind": SourceSnapshot("calm", "weather/wind no longer applies."),
}


def weather(now: str = "sun", wind: str = "calm") -> Changeable:
    return Changeable("weather", [fact("weather/now", now), fact("weather/wind", wind)])


async def call(view: PluginView, name: str, tmp_path: Path) -> Settled:
    """Call a tool of a view as a session would."""
    context = ToolContext("s", "c", tmp_path, tmp_path, tmp_path / "outputs", print)
    return await settle(ToolCall("c", name, '{"any": 1}'), ToolSet(view.offer()), context)


async def test_a_reload_takes_effect_in_the_next_view_and_not_in_one_taken_before() -> None:
    plugin = weather()
    async with without_installed(plugin) as registry:
        await registry.prepare()
        before = registry.view()
        plugin.sources = [fact("weather/now", "rain"), fact("weather/air", "good")]
        assert await registry.reload("weather") == ()
        after = registry.view()

    assert await before.compose(TOLD).reconcile(TOLD) == Unchanged()
    decided = await after.compose(TOLD).reconcile(TOLD)
    assert isinstance(decided, Updated)
    assert decided.text == (
        "weather/air is 'good'.\n\nweather/now is now 'rain'.\n\nweather/wind no longer applies."
    )


async def test_while_the_new_registration_runs_the_old_one_is_in_force() -> None:
    plugin = weather()
    seen: list[tuple[str, ...]] = []

    async def look() -> None:
        seen.append(keys(registry.view()))

    async with without_installed(plugin) as registry:
        await registry.prepare()
        plugin.sources.reverse()
        plugin.meanwhile = look
        await registry.reload("weather")
    assert seen == [("weather/now", "weather/wind")]


async def test_before_it_is_loaded_what_a_plugin_told_stands() -> None:
    async with without_installed(weather()) as registry:
        assert await registry.view().compose(TOLD).reconcile(TOLD) == Unchanged()


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), GeneratorExit(), BaseException()])
async def test_a_plugin_that_fails_to_load_keeps_what_it_told_and_tells_nothing_new(
    error: BaseException,
) -> None:
    plugin = weather("rain")
    plugin.error = error
    async with without_installed(plugin) as registry:
        await registry.prepare()
        view = registry.view()

    assert await view.compose(TOLD).reconcile(TOLD) == Unchanged()
    assert keys(view) == ()
    (message,) = messages(view)
    assert message.startswith(
        "plugin weather (given by the program): failed to load: "
        f"{type(error).__name__} at given.py:"
    )
    assert plugin.closed == [1]


async def test_a_plugin_that_fails_to_reload_keeps_what_it_told() -> None:
    plugin = weather()
    async with without_installed(plugin) as registry:
        await registry.prepare()
        plugin.sources = [fact("weather/now", "rain")]
        plugin.error = ValueError("a secret")
        (problem,) = await registry.reload("weather")
        failed = registry.view()
        plugin.error = None
        assert await registry.reload("weather") == ()
        mended = registry.view()

    assert await failed.compose(TOLD).reconcile(TOLD) == Unchanged()
    assert failed.diagnostics == (problem,)
    assert "secret" not in str(problem)
    decided = await mended.compose(TOLD).reconcile(TOLD)
    assert isinstance(decided, Updated)
    assert decided.text == "weather/now is now 'rain'.\n\nweather/wind no longer applies."
    assert mended.diagnostics == ()


async def test_a_failed_plugin_keeps_only_what_lies_in_its_own_namespace() -> None:
    plugin = Changeable("git")
    plugin.error = OSError()
    async with without_installed(plugin, Changeable("ok")) as registry:
        await registry.prepare()
        told = ("git/branch", "git.remote/url", "github/stars", "git-hub/x", "ok/gone", "entry/git")
        assert keys(registry.view(), *told) == ("git.remote/url", "git/branch")


async def test_a_removed_plugin_is_told_to_be_gone() -> None:
    plugin = weather()
    async with without_installed(plugin) as registry:
        await registry.prepare()
        await registry.remove("weather")
        view = registry.view()
        await registry.prepare()
    decided = await view.compose(TOLD).reconcile(TOLD)
    assert isinstance(decided, Updated)
    assert decided.text == "weather/now no longer applies.\n\nweather/wind no longer applies."
    assert decided.snapshot == {}
    assert (plugin.runs, plugin.closed) == (1, [1])


async def test_a_failed_plugin_that_is_disabled_is_told_to_be_gone() -> None:
    plugin = weather()
    plugin.error = KeyError()
    async with without_installed(plugin) as registry:
        await registry.prepare()
        assert keys(registry.view(PluginOptions(disabled=("weather",))), *TOLD) == ()


async def test_a_plugin_may_be_added_and_added_again_after_its_removal() -> None:
    async with without_installed() as registry:
        assert await registry.add(weather("sun")) == ()
        assert keys(registry.view()) == ("weather/now", "weather/wind")
        with pytest.raises(UsageError, match="there is a plugin named weather already"):
            await registry.add(weather("rain"))
        await registry.remove("weather")
        assert await registry.add(weather("rain")) == ()
        baseline = (await registry.view().compose().initialize()).baseline
    assert baseline.startswith("weather/now is 'rain'.")


async def test_a_name_that_no_plugin_has_is_an_error_with_those_that_there_are() -> None:
    async with without_installed(Changeable("a"), Changeable("b")) as registry:
        await registry.prepare()
        for change in (registry.reload, registry.remove):
            with pytest.raises(UsageError, match="there is no plugin 'c'; known are: a, b"):
                await change("c")
        with pytest.raises(UsageError, match="this is not a usable name"):
            await registry.add(Changeable("C"))


async def test_replay_runs_every_registration_again() -> None:
    plugins = [Changeable("a"), Changeable("b")]
    async with without_installed(*plugins) as registry:
        await registry.prepare()
        plugins[1].error = KeyError()
        (problem,) = await registry.replay()
    assert problem.plugin == "b"
    assert [plugin.runs for plugin in plugins] == [2, 2]


async def test_a_failed_plugins_tool_stays_as_it_was_told_and_answers_with_an_error(
    tmp_path: Path,
) -> None:
    plugin = Changeable("weather", tools=[tool("weather_now", "sun")])
    async with without_installed(plugin) as registry:
        await registry.prepare()
        told = ToolSet(registry.view().offer()).definitions()
        plugin.error = KeyError()
        await registry.reload("weather")
        tools = ToolSet(registry.view().offer(told))

    assert tools.definitions() == told
    context = ToolContext("s", "c", tmp_path, tmp_path, tmp_path / "outputs", print)
    settled = await settle(ToolCall("c", "weather_now", '{"any": 1}'), tools, context)
    assert settled.outcome == "failed"
    assert settled.output == (
        "weather_now did not run: plugin weather is not loaded now;"
        " go on without it, or tell the user"
    )


async def test_after_a_restart_too_a_failed_plugins_tool_stays_as_it_was_told() -> None:
    told = ToolSet([tool("weather_now"), tool("git_now"), tool("other")]).definitions()
    plugin = Changeable("weather")
    plugin.error = KeyError()
    async with without_installed(plugin, Changeable("git")) as registry:
        await registry.prepare()
        offered = ToolSet(registry.view().offer(told)).definitions()
        await registry.remove("weather")
        assert registry.view().offer(told) == ()
    assert offered == tuple(each for each in told if each.name == "weather_now")


async def test_a_failed_plugins_provider_stays_until_its_removal() -> None:
    plugin = Changeable("weather", providers={"mine": LOCAL})
    async with without_installed(plugin) as registry:
        await registry.prepare()
        plugin.error = KeyError()
        await registry.reload("weather")
        await registry.reload("weather")
        assert dict(registry.view().providers) == {"mine": LOCAL}
        await registry.remove("weather")
        assert dict(registry.view().providers) == {}


async def test_what_a_step_holds_is_closed_when_the_step_lets_go(tmp_path: Path) -> None:
    plugin = Changeable("weather", tools=[tool("weather_now", "old")])
    async with without_installed(plugin) as registry:
        await registry.prepare()
        async with registry.hold() as first, registry.hold() as second:
            plugin.tools = []
            await registry.reload("weather")
            assert plugin.closed == []
            assert (await call(first, "weather_now", tmp_path)).output == "old"
            assert second.tools == first.tools
        assert plugin.closed == [1]
        assert registry.view().tools == ()
    assert plugin.closed == [1, 2]


async def test_a_step_that_is_cancelled_lets_go_too() -> None:
    plugin = weather()
    async with without_installed(plugin) as registry:
        await registry.prepare()
        with anyio.CancelScope() as scope:
            async with registry.hold():
                await registry.remove("weather")
                scope.cancel()
                await anyio.sleep_forever()
        assert plugin.closed == [1]


async def test_a_registration_that_is_cancelled_leaves_the_old_one_in_force() -> None:
    plugin = weather()
    async with without_installed(plugin) as registry:
        await registry.prepare()
        with anyio.CancelScope() as scope:

            async def cancel() -> None:
                scope.cancel()
                await anyio.sleep_forever()

            plugin.meanwhile = cancel
            await registry.reload("weather")
        assert scope.cancelled_caught
        assert plugin.closed == [2]
        assert keys(registry.view()) == ("weather/now", "weather/wind")
        plugin.meanwhile = None
        assert await registry.reload("weather") == ()


async def test_an_async_registration_that_hangs_is_given_up() -> None:
    plugin = weather()
    plugin.meanwhile = anyio.sleep_forever
    async with without_installed(plugin, patience=0.01) as registry:
        await registry.prepare()
        (message,) = messages(registry.view())
    assert message.endswith("failed to load: it took longer than 0.01 s")


async def test_a_registration_that_cancels_only_itself_fails() -> None:
    plugin = weather()

    async def raise_cancelled() -> None:
        raise anyio.get_cancelled_exc_class()

    plugin.meanwhile = raise_cancelled
    async with without_installed(plugin) as registry:
        await registry.prepare()
        (message,) = messages(registry.view())
    assert message.endswith("failed to load: it cancelled itself")


async def test_changes_made_at_once_come_one_after_the_other() -> None:
    plugin = weather()
    running: list[int] = []

    async def alone() -> None:
        running.append(1)
        assert len(running) == 1
        await anyio.lowlevel.checkpoint()
        running.pop()

    plugin.meanwhile = alone
    async with without_installed(plugin) as registry, anyio.create_task_group() as group:
        group.start_soon(registry.prepare)
        group.start_soon(registry.prepare)
        group.start_soon(registry.replay)
        group.start_soon(registry.reload, "weather")
    assert keys(registry.view()) == ("weather/now", "weather/wind")
    assert registry.view().diagnostics == ()


async def test_a_problem_is_logged_once_while_its_cause_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plugin = weather()
    plugin.error = KeyError()
    async with without_installed(plugin) as registry:
        await registry.prepare()
        registry.view()
        registry.view()
        assert len(caplog.records) == 1
        plugin.error = None
        await registry.reload("weather")
        plugin.error = KeyError()
        await registry.reload("weather")
        registry.view()
    assert [record.name for record in caplog.records] == ["perdure.plugins"] * 2


async def test_a_lost_tool_names_the_plugin_that_it_most_likely_belongs_to(tmp_path: Path) -> None:
    plugins = [Changeable("git"), Changeable("git_hub")]
    async with without_installed(*plugins) as registry:
        tools = ToolSet(registry.view().offer([tool("git_hub_stars").definition()]))
    context = ToolContext("s", "c", tmp_path, tmp_path, tmp_path / "outputs", print)
    settled = await settle(ToolCall("c", "git_hub_stars", ""), tools, context)
    assert "plugin git_hub is not loaded" in settled.output
