"""Plugins in files that the configuration names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from perdure.config.load import load
from perdure.config.schema import PluginOptions
from perdure.config.trust import trust
from tests.plugins.given import keys, messages, without_installed

pytestmark = pytest.mark.anyio

WEATHER = """
from __future__ import annotations

from dataclasses import dataclass

import msgspec

from perdure import Source, Tool


class Reading(msgspec.Struct):
    degrees: int
    place: Place


@dataclass
class Place:
    name: str


class Nothing(msgspec.Struct):
    pass


async def run(arguments, context):
    return "DEGREES degrees"


def plugin(scope):
    scope.source(
        Source(
            key="weather/now",
            type=Reading,
            load=lambda: Reading(DEGREES, Place("here")),
            baseline=lambda reading: f"It is {reading.degrees} degrees {reading.place.name}.",
            update=lambda _, reading: f"Now it is {reading.degrees} degrees.",
        )
    )
    scope.tool(Tool(name="weather_now", description="The weather.", arguments=Nothing, run=run))
"""


class Files:
    """A directory with the file of one plugin."""

    def __init__(self, directory: Path) -> None:
        self.weather = directory / "weather.py"
        self.options = PluginOptions(paths=(self.weather,))

    def write(self, degrees: int | str) -> None:
        self.weather.write_text(WEATHER.replace("DEGREES", str(degrees)), "utf-8")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    found = Files(tmp_path)
    found.write(20)
    return found


def counting(file: Path) -> str:
    """Return code that writes one letter to a file each time it runs."""
    return f"with open({str(file)!r}, 'a') as runs: runs.write('x')\n"


async def test_a_file_is_loaded_under_the_name_that_it_has(files: Files) -> None:
    async with without_installed() as registry:
        await registry.prepare(files.options)
        view = registry.view(files.options)
        generation = await view.compose().initialize()
    assert generation.baseline == "It is 20 degrees here."
    assert generation.snapshot["weather/now"].value == {"degrees": 20, "place": {"name": "here"}}
    assert [each.name for each in view.tools] == ["weather_now"]
    assert [(each.name, each.place) for each in view.plugins] == [("weather", str(files.weather))]


async def test_a_file_is_loaded_once_for_all_who_want_it_and_only_for_them(
    files: Files, tmp_path: Path
) -> None:
    files.weather.write_text(counting(tmp_path / "runs") + "def plugin(scope): pass", "utf-8")
    other = PluginOptions(paths=(tmp_path / "other.py", files.weather))
    async with without_installed() as registry:
        for options in (PluginOptions(), files.options, other, files.options):
            await registry.prepare(options)
        assert [each.name for each in registry.view(files.options).plugins] == ["weather"]
        assert [each.name for each in registry.view(other).plugins] == ["other", "weather"]
        assert registry.view().plugins == ()
    assert (tmp_path / "runs").read_text("utf-8") == "x"


async def test_a_reload_runs_the_file_as_it_is_now_however_quick_the_edit(files: Files) -> None:
    before = files.weather.stat()
    async with without_installed() as registry:
        await registry.prepare(files.options)
        for degrees in (21, 22):
            files.write(degrees)
            os.utime(files.weather, ns=(before.st_atime_ns, before.st_mtime_ns))
            assert await registry.reload("weather") == ()
            generation = await registry.view(files.options).compose().initialize()
            assert generation.baseline == f"It is {degrees} degrees here."


async def test_a_module_leaves_no_trace_when_its_scope_is_closed(files: Files) -> None:
    modules, path = set(sys.modules), list(sys.path)
    async with without_installed() as registry:
        await registry.prepare(files.options)
        await registry.reload("weather")
        assert len({name for name in set(sys.modules) - modules if "weather" in name}) == 1
        files.write("not a number (")
        await registry.reload("weather")
        assert not [name for name in set(sys.modules) - modules if "weather" in name]
    assert sys.path == path
    assert [each.name for each in files.weather.parent.iterdir()] == ["weather.py"]


async def test_a_deleted_file_is_a_failure_and_no_removal(files: Files) -> None:
    async with without_installed() as registry:
        await registry.prepare(files.options)
        files.weather.unlink()
        await registry.reload("weather")
        view = registry.view(files.options)
        assert keys(view, "weather/now") == ("weather/now",)
        assert keys(registry.view(PluginOptions()), "weather/now") == ()
    assert messages(view) == [
        f"plugin weather ({files.weather}): failed to load: there is no such file"
    ]


async def test_a_file_that_failed_is_tried_again_when_it_has_changed(files: Files) -> None:
    good = files.weather.read_text("utf-8")
    files.weather.write_text("runs = []\nraise KeyError\n", "utf-8")
    async with without_installed() as registry:
        await registry.prepare(files.options)
        (message,) = messages(registry.view(files.options))
        files.weather.write_text(good, "utf-8")
        await registry.prepare(files.options)
        assert keys(registry.view(files.options)) == ("weather/now",)
    assert message.endswith("failed to load: KeyError at weather.py:2")


async def test_a_file_that_failed_and_has_not_changed_is_not_run_again(tmp_path: Path) -> None:
    file, runs = tmp_path / "weather.py", tmp_path / "runs"
    file.write_text(counting(runs), "utf-8")
    options = PluginOptions(paths=(file,))
    async with without_installed() as registry:
        await registry.prepare(options)
        await registry.prepare(options)
        assert runs.read_text("utf-8") == "x"
        await registry.reload("weather")
    assert runs.read_text("utf-8") == "xx"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "the file defines no `plugin`"),
        ("plugin = 3", "the plugin is a int; it must be a function"),
        ("import no_such_module_at_all", "ModuleNotFoundError at weather.py:1: No module named"),
        ("x = (", "SyntaxError: '(' was never closed (weather.py, line 1)"),
        ("raise SystemExit('secret')", "failed to load: SystemExit at weather.py:1"),
        ("import json\n\njson.loads('secret')", "JSONDecodeError at weather.py:3"),
        ("def plugin(scope):\n    scope.source(1)", "a Source is needed, not int (weather.py:2)"),
        ("x = '\0'", "null bytes"),
        ("x = 'é'".encode("latin-1"), "failed to load: SyntaxError: "),
    ],
)
async def test_a_bad_file_is_a_diagnostic_that_names_the_line(
    files: Files, text: str | bytes, words: str
) -> None:
    files.weather.write_bytes(text if isinstance(text, bytes) else text.encode())
    async with without_installed() as registry:
        await registry.prepare(files.options)
        (message,) = messages(registry.view(files.options))
    assert words in message
    assert "secret" not in message
    assert message.isprintable()


async def test_a_fifo_or_a_directory_in_the_place_of_the_file_never_blocks(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "directory.py").mkdir()
    options = PluginOptions(paths=(tmp_path / "fifo.py", tmp_path / "directory.py"))
    async with without_installed() as registry:
        await registry.prepare(options)
        found = messages(registry.view(options))
    assert [message.endswith("there is no such file") for message in found] == [True, True]


async def test_a_file_whose_name_no_plugin_can_have_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "My Weather.py"
    file.write_text("raise SystemExit", "utf-8")
    options = PluginOptions(paths=(file,))
    async with without_installed() as registry:
        await registry.prepare(options)
        (message,) = messages(registry.view(options))
    assert message.startswith(f"plugin My Weather ({file}): this is not a usable name; rename it")


async def test_a_project_that_is_not_trusted_runs_no_plugin(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    Files(project).write(20)
    (project / "perdure.toml").write_text('[plugins]\npaths = ["weather.py"]', "utf-8")
    env = {"HOME": str(tmp_path), "PERDURE_DATA_DIR": str(tmp_path / "data")}

    before = load(project, env).plugins
    trust(project, env)
    after = load(project, env).plugins

    async with without_installed() as registry:
        await registry.prepare(before)
        assert keys(registry.view(before)) == ()
        await registry.prepare(after)
        assert keys(registry.view(after)) == ("weather/now",)
