"""What the model is told when instruction files change, vanish, or cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.context import ReplacementBlocked, Unchanged
from perdure.instructions import InstructionService
from tests.instructions.instruction_project import Project, files

pytestmark = pytest.mark.anyio


async def test_a_changed_file_is_told_with_its_complete_current_contents(project: Project) -> None:
    agents = project.root / "AGENTS.md"
    agents.write_text("Use tabs.\nNever push.\n")
    told = await project.told()
    agents.write_text("Use spaces.\nNever push.\n")

    text = await project.update(told.snapshot)

    assert text.startswith(f"# Instructions from {agents}\n")
    assert "supersede the earlier version from that path" in text
    assert "complete current contents" in text
    assert "\nUse spaces.\nNever push.\n" in text
    assert "tabs" not in text


async def test_an_unchanged_file_tells_nothing(project: Project) -> None:
    agents = project.root / "AGENTS.md"
    agents.write_text("Use tabs.")
    told = await project.told()
    agents.write_text("Use tabs.")
    os.utime(agents, (1, 1))
    assert await project.next(told.snapshot) == Unchanged()


async def test_a_deleted_file_no_longer_applies(project: Project) -> None:
    agents = project.root / "AGENTS.md"
    agents.write_text("Use tabs.")
    told = await project.told()
    agents.unlink()

    text = await project.update(told.snapshot)

    assert text.startswith(f"# Instructions from {agents}\n")
    assert "no longer applies" in text
    assert "tabs" not in text


async def test_a_new_file_is_told_once(project: Project) -> None:
    told = await project.told()
    (project.root / "AGENTS.md").write_text("Use tabs.")
    result = await project.next(told.snapshot)
    assert not isinstance(result, Unchanged)
    assert "Use tabs." in result.text
    assert await project.next(result.snapshot) == Unchanged()


async def test_an_emptied_file_is_told_as_empty(project: Project) -> None:
    agents = project.root / "AGENTS.md"
    agents.write_text("Use tabs.")
    told = await project.told()
    agents.write_text("")
    text = await project.update(told.snapshot)
    assert text.endswith("The file is empty.")


async def test_claude_md_gives_way_to_a_new_agents_md(project: Project) -> None:
    (project.root / "CLAUDE.md").write_text("claude")
    told = await project.told()
    (project.root / "AGENTS.md").write_text("agents")

    text = await project.update(told.snapshot)

    assert f"# Instructions from {project.root / 'AGENTS.md'}" in text
    assert f"{project.root / 'CLAUDE.md'}\n\nThis file no longer applies" in text


def leads_out(path: Path) -> None:
    path.symlink_to("/etc/hosts")


@pytest.mark.parametrize("put", [Path.mkdir, os.mkfifo, leads_out])
async def test_a_file_that_became_something_else_no_longer_applies(
    project: Project, put: Callable[[Path], object]
) -> None:
    agents = project.root / "AGENTS.md"
    agents.write_text("Use tabs.")
    told = await project.told()
    agents.unlink()
    put(agents)
    assert "no longer applies" in await project.update(told.snapshot)


async def test_a_loop_of_links_is_no_removal(project: Project) -> None:
    agents = project.root / "AGENTS.md"
    agents.write_text("Use tabs.")
    told = await project.told()
    agents.unlink()
    agents.symlink_to(agents)

    service = project.service()
    context = service.compose(told.snapshot)

    assert await context.reconcile(told.snapshot) == Unchanged()
    assert await context.replace(told.snapshot) == ReplacementBlocked(tuple(told.snapshot))
    assert "it cannot be examined: Too many levels" in service.diagnostics[0].message


async def test_what_changes_beside_a_place_that_cannot_be_examined_is_told(
    project: Project,
) -> None:
    blocked, other = project.root / "AGENTS.md", project.below / "AGENTS.md"
    blocked.write_text("Use tabs.")
    other.write_text("Be brief.")
    told = await project.told()
    blocked.unlink()
    blocked.symlink_to(blocked)
    other.unlink()

    text = await project.update(told.snapshot)

    assert (
        text
        == f"# Instructions from {other}\n\nThis file no longer applies: disregard what it said."
    )


async def test_a_place_that_cannot_be_examined_leaves_the_other_files_as_they_are(
    project: Project,
) -> None:
    (project.below / "AGENTS.md").write_text("Be brief.")
    told = await project.told()
    (project.root / "AGENTS.md").symlink_to("AGENTS.md")
    assert await project.next(told.snapshot) == Unchanged()


async def test_a_directory_that_may_not_be_entered_is_no_removal(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.below / "AGENTS.md").write_text("Be brief.")
    told = await project.told()
    refuse(
        monkeypatch, "stat", project.below / "AGENTS.md", PermissionError(13, "Permission denied")
    )
    refuse(
        monkeypatch, "lstat", project.below / "AGENTS.md", PermissionError(13, "Permission denied")
    )

    assert await project.next(told.snapshot) == Unchanged()


async def test_a_global_directory_that_may_not_be_entered_is_no_removal(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = project.user / "AGENTS.md"
    agents.write_text("Be brief.")
    told = await project.told()
    refuse(monkeypatch, "stat", agents, PermissionError(13, "Permission denied"))
    refuse(monkeypatch, "lstat", agents, PermissionError(13, "Permission denied"))

    assert await project.next(told.snapshot) == Unchanged()


async def test_a_blocked_place_keeps_nothing_of_another_project(project: Project) -> None:
    (project.below / "AGENTS.md").write_text("Be brief.")
    told = await project.told()
    other = project.root.parent / "other"
    (other / ".git").mkdir(parents=True)
    (other / "AGENTS.md").symlink_to("AGENTS.md")
    moved = Project.__new__(Project)
    moved.user, moved.root, moved.below = project.user, other, other

    assert "no longer applies" in await moved.update(told.snapshot)


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")]
)
async def test_a_file_that_cannot_be_read_now_keeps_what_was_told(
    project: Project, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    agents = project.root / "AGENTS.md"
    agents.write_text("Use tabs.")
    told = await project.told()
    agents.write_text("Use spaces.")
    refuse_open(monkeypatch, "AGENTS.md", error)
    service = project.service()

    assert await service.compose(told.snapshot).reconcile(told.snapshot) == Unchanged()
    assert [each.message for each in service.diagnostics] == [
        f"it cannot be read now: {error.strerror}"
    ]

    monkeypatch.undo()
    assert "Use spaces." in await project.update(told.snapshot)


async def test_a_file_that_was_never_read_is_told_when_it_can_be(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / "AGENTS.md").write_text("Use tabs.")
    refuse_open(monkeypatch, "AGENTS.md", PermissionError(13, "Permission denied"))
    told = await project.told()
    assert told.snapshot == {}
    monkeypatch.undo()
    assert "Use tabs." in await project.update(told.snapshot)


async def test_a_file_that_vanishes_between_discovery_and_reading_is_no_removal_yet(
    project: Project,
) -> None:
    agents = project.root / "AGENTS.md"
    agents.write_text("Use tabs.")
    told = await project.told()
    context = project.service().compose(told.snapshot)
    agents.unlink()
    assert await context.reconcile(told.snapshot) == Unchanged()
    assert "no longer applies" in await project.update(told.snapshot)


async def test_a_directory_that_becomes_a_link_after_discovery_leads_nowhere(
    project: Project,
) -> None:
    (project.below / "AGENTS.md").write_text("inside")
    secret = project.root.parent / "elsewhere"
    secret.mkdir()
    (secret / "AGENTS.md").write_text("secret")
    service = project.service()
    context = service.compose()
    (project.below / "AGENTS.md").unlink()
    project.below.rmdir()
    project.below.symlink_to(secret)

    assert (await context.initialize()).baseline == ""
    assert "cannot be read now" in service.diagnostics[0].message


async def test_a_file_that_becomes_a_link_after_discovery_leads_nowhere(project: Project) -> None:
    agents = project.root / "AGENTS.md"
    agents.write_text("inside")
    secret = project.root.parent / "secret.md"
    secret.write_text("secret")
    service = project.service()
    context = service.compose()
    agents.unlink()
    agents.symlink_to(secret)

    assert (await context.initialize()).baseline == ""
    assert "cannot be read now" in service.diagnostics[0].message


async def test_a_file_that_becomes_a_fifo_after_discovery_never_blocks(project: Project) -> None:
    agents = project.root / "AGENTS.md"
    agents.write_text("Use tabs.")
    service = project.service()
    context = service.compose()
    agents.unlink()
    os.mkfifo(agents)

    assert (await context.initialize()).baseline == ""
    assert "no regular file any more" in service.diagnostics[0].message


async def test_a_trouble_with_reading_ends_with_the_next_good_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / "AGENTS.md").write_text("Use tabs.")
    service = project.service()
    refuse_open(monkeypatch, "AGENTS.md", PermissionError(13, "Permission denied"))
    await service.compose().initialize()
    monkeypatch.undo()
    await service.compose().initialize()
    assert service.diagnostics == []


async def test_a_trouble_with_reading_ends_with_the_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / "AGENTS.md").write_text("Use tabs.")
    service = project.service()
    refuse_open(monkeypatch, "AGENTS.md", PermissionError(13, "Permission denied"))
    await service.compose().initialize()
    (project.root / "AGENTS.md").unlink()
    service.compose()
    assert service.diagnostics == []


async def test_told_files_of_another_location_no_longer_apply(project: Project) -> None:
    (project.root / "AGENTS.md").write_text("top")
    (project.below / "AGENTS.md").write_text("below")
    told = await project.told()
    project.below = project.root / "a"

    text = await project.update(told.snapshot)

    assert text.startswith(f"# Instructions from {project.root / 'a' / 'b' / 'AGENTS.md'}\n")
    assert "no longer applies" in text


async def test_keys_of_other_sources_are_left_alone(project: Project) -> None:
    (project.root / "AGENTS.md").symlink_to("AGENTS.md")
    context = project.service().compose(
        ["perdure/date", "instructions/relative", "instructions/%00"]
    )
    assert context.keys == ()


async def test_a_file_is_the_same_source_at_every_boundary(project: Project) -> None:
    (project.root / "AGENTS.md").write_text("Use tabs.")
    service = project.service()
    assert sources(service) == sources(service)


async def test_a_discovered_file_stays_told(project: Project) -> None:
    (project.root / "x").mkdir()
    (project.root / "x" / "AGENTS.md").write_text("x")
    discovered = project.service().nested(project.root / "x")
    told = await project.told(*discovered)
    assert files(told) == [str(project.root / "x" / "AGENTS.md")]
    assert await project.next(told.snapshot, *discovered) == Unchanged()


def sources(service: InstructionService) -> list[int]:
    context: Any = service.compose()
    return [id(source) for source in context._sources]


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, at: Path, error: OSError) -> None:
    """Let one method of Path fail at one path. Permissions would not stop a test run by root."""
    real: Any = getattr(Path, name)

    def fail(self: Path, **options: Any) -> Any:
        if self == at:
            raise error
        return real(self, **options)

    monkeypatch.setattr(Path, name, fail)


def refuse_open(monkeypatch: pytest.MonkeyPatch, name: str, error: OSError) -> None:
    """Let the opening of one file fail. Permissions would not stop a test run by root."""
    real = os.open

    def fail(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == name:
            raise error
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", fail)
