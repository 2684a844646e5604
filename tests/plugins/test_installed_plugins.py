"""Plugins of installed packages, found by their entry points."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.config.schema import PluginOptions
from perdure.plugins import Registry
from tests.context.context_facts import fact
from tests.plugins.given import Changeable, keys, messages

pytestmark = pytest.mark.anyio

MODULE = """
from perdure import Source


def say(value):
    return f"It is {value}."


def plugin(scope):
    scope.source(
        Source(
            key="stars/now",
            type=str,
            load=lambda: "night",
            baseline=say,
            update=lambda _, value: say(value),
        )
    )
"""


class Packages:
    """A directory that packages are installed in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def install(self, name: str, module: str, entry_points: str) -> Path:
        (self.directory / f"{name}_module.py").write_text(module, "utf-8")
        info = self.directory / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points, "utf-8")
        return info


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    directory = tmp_path / "site"
    directory.mkdir()
    monkeypatch.setattr(sys, "path", [str(directory), *sys.path])
    before = set(sys.modules)
    yield Packages(directory)
    for name in set(sys.modules) - before:
        if name.endswith("_module"):
            del sys.modules[name]


def stars(packages: Packages) -> Path:
    return packages.install(
        "starry", MODULE, "[perdure.plugins]\nstars = starry_module:plugin\n\n[other]\nx = y:z\n"
    )


async def test_a_plugin_of_an_installed_package_is_found_and_loaded(packages: Packages) -> None:
    stars(packages)
    async with Registry() as registry:
        await registry.prepare()
        view = registry.view()
        assert (await view.compose().initialize()).baseline == "It is night."
    assert [(each.name, each.place) for each in view.plugins] == [
        ("stars", "entry point starry_module:plugin")
    ]


async def test_it_comes_after_what_the_program_gives_and_before_files(
    packages: Packages, tmp_path: Path
) -> None:
    stars(packages)
    (tmp_path / "stars.py").write_text("def plugin(scope): pass\n", "utf-8")
    options = PluginOptions(paths=(tmp_path / "stars.py",))
    given = Changeable("stars", [fact("stars/now", "day")])
    async with Registry([Changeable("z")]) as registry:
        await registry.prepare(options)
        view = registry.view(options)
        assert [each.name for each in view.plugins] == ["z", "stars"]
        assert "(entry point starry_module:plugin) has that name" in messages(view)[0]
    async with Registry([given]) as registry:
        await registry.prepare()
        baseline = (await registry.view().compose().initialize()).baseline
    assert baseline == "stars/now is 'day'."


async def test_one_that_cannot_be_imported_is_a_diagnostic_and_keeps_what_it_told(
    packages: Packages,
) -> None:
    packages.install("starry", "raise SystemExit", "[perdure.plugins]\nstars = starry_module:it")
    packages.install("lost", "", "[perdure.plugins]\nlost = lost_module:it\ngone = no_module:it")
    packages.install("odd", "", "[perdure.plugins]\nodd = not a reference !\n")
    async with Registry() as registry:
        await registry.prepare()
        view = registry.view()
    assert keys(view, "stars/now", "lost/now") == ("lost/now", "stars/now")
    assert [each.plugin for each in view.diagnostics] == ["gone", "lost", "odd", "stars"]
    gone, lost, _, starry = messages(view)
    assert gone.endswith("failed to load: ModuleNotFoundError: No module named 'no_module'")
    assert "failed to load: AttributeError" in lost
    assert starry.endswith("failed to load: SystemExit at starry_module.py:1")


async def test_a_package_with_damaged_metadata_hides_no_other(
    packages: Packages, caplog: pytest.LogCaptureFixture
) -> None:
    stars(packages)
    for name, damage in (("broken", b"\xff["), ("cut", b"[perdure.plugins]\nno equals sign")):
        (packages.install(name, "", "") / "entry_points.txt").write_bytes(damage)
    async with Registry() as registry:
        await registry.prepare()
        assert keys(registry.view()) == ("stars/now",)
    assert caplog.text.count("the metadata of an installed package cannot be read") == 2


async def test_before_anything_is_loaded_what_an_installed_plugin_told_stands(
    packages: Packages,
) -> None:
    stars(packages)
    async with Registry() as registry:
        assert keys(registry.view(), "stars/now") == ("stars/now",)


async def test_replay_finds_what_was_installed_and_uninstalled_meanwhile(
    packages: Packages,
) -> None:
    async with Registry() as registry:
        await registry.prepare()
        info = stars(packages)
        await registry.replay()
        await registry.prepare()
        assert keys(registry.view()) == ("stars/now",)
        (info / "entry_points.txt").unlink()
        await registry.replay()
        assert keys(registry.view(), "stars/now") == ()


async def test_a_reload_registers_anew_without_importing_again(packages: Packages) -> None:
    packages.install(
        "starry",
        "runs = []\n" + MODULE.replace('"night"', 'f"night {len(runs)}"') + "    runs.append(1)\n",
        "[perdure.plugins]\nstars = starry_module:plugin",
    )
    async with Registry() as registry:
        await registry.prepare()
        await registry.reload("stars")
        assert (await registry.view().compose().initialize()).baseline == "It is night 2."
