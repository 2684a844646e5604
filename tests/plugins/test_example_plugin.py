"""The example plugin, used as a project would use it, on a real repository."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.config.load import load
from perdure.config.location import find_project
from perdure.config.trust import trust
from perdure.context import Snapshot, SystemContext, Unchanged, Updated
from perdure.history.content import ToolCall
from perdure.plugins import Registry
from perdure.tools import Settled, ToolContext, ToolSet, settle
from tests.plugins.given import without_installed

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "branch.py"


class Project:
    """A repository with the plugin in it, trusted."""

    def __init__(self, root: Path, registry: Registry) -> None:
        self.directory = root / "project"
        self.registry = registry
        (self.directory / "plugins").mkdir(parents=True)
        shutil.copy(EXAMPLE, self.directory / "plugins" / "branch.py")
        (self.directory / "perdure.toml").write_text(
            '[plugins]\npaths = ["plugins/branch.py"]\n', "utf-8"
        )
        self.git("init", "--quiet", "--initial-branch=main")
        self.env = {"HOME": str(root), "PERDURE_DATA_DIR": str(root / "data")}
        trust(self.directory, self.env)
        self.location = find_project(self.directory)
        self.options = load(self.directory, self.env).plugins

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=self.directory, check=True, timeout=60)

    def commit(self, message: str) -> None:
        self.git("commit", "--quiet", "--allow-empty", "--no-gpg-sign", f"--message={message}")

    async def context(self, told: Snapshot) -> SystemContext:
        await self.registry.prepare(self.options)
        return self.registry.view(self.options, self.location).compose(told.keys())

    async def commits(self, arguments: str) -> Settled:
        await self.registry.prepare(self.options)
        tools = ToolSet(self.registry.view(self.options, self.location).offer())
        here = self.directory
        context = ToolContext("s", "c", here, here, here / "outputs", print)
        return await settle(ToolCall("c", "branch_commits", arguments), tools, context)


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[Project]:
    async with without_installed() as registry:
        yield Project(tmp_path, registry)


async def test_the_model_is_told_the_branch_and_each_change_of_it(project: Project) -> None:
    first = await (await project.context({})).initialize()
    assert first.baseline == "# Git branch\n\nThe branch main is checked out."

    project.git("checkout", "--quiet", "-b", "fix/parser")
    second = await (await project.context(first.snapshot)).reconcile(first.snapshot)
    assert isinstance(second, Updated)
    assert second.text == "# Git branch\n\nThe branch fix/parser is checked out."

    project.commit("one")
    third = await (await project.context(second.snapshot)).reconcile(second.snapshot)
    assert third == Unchanged()

    project.git("checkout", "--quiet", "--detach")
    fourth = await (await project.context(second.snapshot)).reconcile(second.snapshot)
    assert isinstance(fourth, Updated)
    assert fourth.text.startswith("# Git branch\n\nNo branch is checked out; HEAD is at commit ")


async def test_a_repository_that_is_gone_is_told(project: Project) -> None:
    first = await (await project.context({})).initialize()
    shutil.rmtree(project.directory / ".git")
    second = await (await project.context(first.snapshot)).reconcile(first.snapshot)
    assert isinstance(second, Updated)
    assert second.text == "# Git branch\n\nThis directory is no longer in a git repository."


async def test_without_git_what_was_told_stands(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await (await project.context({})).initialize()
    monkeypatch.setenv("PATH", "")
    context = await project.context(first.snapshot)
    assert await context.reconcile(first.snapshot) == Unchanged()
    assert (await project.commits("{}")).output == "git cannot be run: No such file or directory"


async def test_a_plugin_file_that_is_broken_while_it_is_edited_changes_nothing(
    project: Project,
) -> None:
    first = await (await project.context({})).initialize()
    file = project.directory / "plugins" / "branch.py"
    good = file.read_text("utf-8")

    file.write_text(good.replace("def plugin", "deff plugin"), "utf-8")
    (problem,) = await project.registry.reload("branch")
    context = await project.context(first.snapshot)
    assert "SyntaxError: invalid syntax (branch.py, line " in str(problem)
    assert await context.reconcile(first.snapshot) == Unchanged()

    file.write_text(good.replace("is checked out.", "is in use."), "utf-8")
    project.git("checkout", "--quiet", "-b", "next")
    second = await (await project.context(first.snapshot)).reconcile(first.snapshot)
    assert isinstance(second, Updated)
    assert second.text == "# Git branch\n\nThe branch next is in use."


async def test_the_tool_lists_the_last_commits(project: Project) -> None:
    none = await project.commits("{}")
    assert (none.outcome, "does not have any commits yet" in none.output) == ("failed", True)
    for message in ("one", "two", "three"):
        project.commit(message)
    settled = await project.commits('{"count": 2}')
    assert [line.split(" ", 1)[1] for line in settled.output.splitlines()] == ["three", "two"]
    assert (await project.commits('{"count": 0}')).outcome == "failed"
