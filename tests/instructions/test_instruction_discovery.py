"""Which instruction files govern a Location, in which order, and which never do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.config.schema import InstructionOptions
from perdure.context import Generation
from tests.instructions.instruction_project import Project, files

pytestmark = pytest.mark.anyio


def refusals(project: Project) -> list[str]:
    service = project.service()
    service.compose()
    return [each.message for each in service.diagnostics]


async def test_the_global_file_comes_first_and_the_nearest_last(project: Project) -> None:
    (project.below / "AGENTS.md").write_text("near")
    (project.root / "AGENTS.md").write_text("top")
    (project.root / "a" / "AGENTS.md").write_text("middle")
    (project.user / "AGENTS.md").write_text("global")

    assert files(await project.told()) == [
        str(project.user / "AGENTS.md"),
        str(project.root / "AGENTS.md"),
        str(project.root / "a" / "AGENTS.md"),
        str(project.below / "AGENTS.md"),
    ]


async def test_without_files_nothing_is_told(project: Project) -> None:
    assert await project.told() == Generation("", {})


async def test_a_file_above_the_project_root_is_never_read(project: Project) -> None:
    (project.root.parent / "AGENTS.md").write_text("outside")
    assert files(await project.told()) == []


async def test_a_directory_without_agents_md_may_have_claude_md(project: Project) -> None:
    (project.root / "AGENTS.md").write_text("agents")
    (project.root / "CLAUDE.md").write_text("claude")
    (project.below / "CLAUDE.md").write_text("claude below")

    assert files(await project.told()) == [
        str(project.root / "AGENTS.md"),
        str(project.below / "CLAUDE.md"),
    ]


async def test_claude_md_can_be_left_out(project: Project) -> None:
    (project.root / "CLAUDE.md").write_text("claude")
    options = InstructionOptions(claude_md=False)
    assert files(await project.told(options=options)) == []


async def test_a_project_cannot_switch_the_global_file_off(project: Project) -> None:
    (project.root / "AGENTS.md").write_text("top")
    (project.user / "AGENTS.md").write_text("global")
    options = InstructionOptions(project=False, claude_md=False)
    assert files(await project.told(options=options)) == [str(project.user / "AGENTS.md")]


async def test_the_users_directory_has_no_claude_md(project: Project) -> None:
    (project.user / "CLAUDE.md").write_text("claude")
    assert files(await project.told()) == []


async def test_a_file_that_two_names_lead_to_is_told_once(project: Project) -> None:
    (project.root / "AGENTS.md").write_text("top")
    (project.root / "a" / "AGENTS.md").symlink_to("../AGENTS.md")
    (project.below / "CLAUDE.md").symlink_to("../../AGENTS.md")

    generation = await project.told()

    assert files(generation) == [str(project.root / "AGENTS.md")]
    assert f"They govern {project.root} and everything below it" in generation.baseline


async def test_a_file_behind_a_link_is_known_by_its_own_path(project: Project) -> None:
    (project.root / "docs").mkdir()
    (project.root / "docs" / "rules.md").write_text("rules")
    (project.below / "AGENTS.md").symlink_to("../../docs/rules.md")

    generation = await project.told()

    assert list(generation.snapshot) == [f"instructions/{project.root / 'docs' / 'rules.md'}"]
    assert f"They govern {project.below} and everything below it" in generation.baseline


async def test_the_global_file_may_be_a_link_to_anywhere(project: Project) -> None:
    dotfiles = project.user.parent / "dotfiles.md"
    dotfiles.write_text("global")
    (project.user / "AGENTS.md").symlink_to(dotfiles)
    assert files(await project.told()) == [str(dotfiles)]


async def test_a_link_out_of_the_project_is_refused(project: Project) -> None:
    secret = project.root.parent / "secret.md"
    secret.write_text("secret")
    (project.root / "AGENTS.md").symlink_to(secret)

    assert files(await project.told()) == []
    assert refusals(project) == [f"refused, because it leads out of the project, to {secret}"]


async def test_a_directory_reached_by_a_link_out_of_the_project_is_refused(
    project: Project,
) -> None:
    elsewhere = project.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "AGENTS.md").write_text("elsewhere")
    service = project.service()
    project.below.rmdir()
    project.below.symlink_to(elsewhere)

    assert (await service.compose().initialize()).baseline == ""
    assert "leads out of the project" in service.diagnostics[0].message


async def test_a_directory_in_the_place_of_the_file_is_refused(project: Project) -> None:
    (project.root / "AGENTS.md").mkdir()
    assert files(await project.told()) == []
    assert refusals(project) == ["refused, because it is no regular file"]


async def test_a_fifo_in_the_place_of_the_file_is_refused_and_never_blocks(
    project: Project,
) -> None:
    os.mkfifo(project.below / "AGENTS.md")
    assert files(await project.told()) == []
    assert refusals(project) == ["refused, because it is no regular file"]


async def test_a_refused_file_leaves_the_place_to_claude_md(project: Project) -> None:
    (project.root / "AGENTS.md").mkdir()
    (project.root / "CLAUDE.md").write_text("claude")
    assert files(await project.told()) == [str(project.root / "CLAUDE.md")]


async def test_a_link_to_nothing_is_no_file(project: Project) -> None:
    (project.root / "AGENTS.md").symlink_to("nothing.md")
    assert files(await project.told()) == []
    assert refusals(project) == []


async def test_a_path_that_is_no_unicode_is_refused(project: Project) -> None:
    odd = os.fsdecode(os.fsencode(project.root) + b"/\xff.md")
    Path(odd).write_text("odd")
    (project.root / "AGENTS.md").symlink_to(odd)
    assert files(await project.told()) == []
    assert refusals(project) == ["refused, because its path is not valid UTF-8"]


def test_a_directory_whose_path_is_no_unicode_is_never_discovered(project: Project) -> None:
    odd = project.root / os.fsdecode(b"\xff")
    odd.mkdir()
    (project.root / "rules.md").write_text("rules")
    (odd / "AGENTS.md").symlink_to("../rules.md")
    assert project.service().nested(odd) == []


async def test_a_trouble_is_logged_once_while_it_lasts(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    (project.root / "AGENTS.md").mkdir()
    service = project.service()
    for _ in range(3):
        service.compose()
    assert caplog.messages == [
        f"instruction file {project.root / 'AGENTS.md'}: refused, because it is no regular file"
    ]


async def test_a_trouble_that_is_over_is_forgotten(project: Project) -> None:
    (project.root / "AGENTS.md").mkdir()
    service = project.service()
    service.compose()
    (project.root / "AGENTS.md").rmdir()
    service.compose()
    assert service.diagnostics == []


async def test_on_the_way_to_a_target_every_directory_is_looked_at(project: Project) -> None:
    deep = project.root / "x" / "y" / "z"
    deep.mkdir(parents=True)
    (project.root / "AGENTS.md").write_text("known already")
    (project.root / "x" / "CLAUDE.md").write_text("x")
    (deep / "AGENTS.md").write_text("z")
    (deep / "code.py").touch()

    expected = [project.root / "x" / "CLAUDE.md", deep / "AGENTS.md"]
    assert project.service().nested(deep / "code.py") == expected
    assert project.service().nested(deep) == expected
    assert project.service().nested(deep / "not there yet.py") == expected


async def test_a_target_outside_of_the_project_leads_to_nothing(project: Project) -> None:
    (project.root.parent / "AGENTS.md").write_text("outside")
    assert project.service().nested(project.root.parent / "file") == []
    assert project.service().nested(project.root / ".." / "file") == []


async def test_a_discovered_file_is_told_after_those_of_the_location(project: Project) -> None:
    (project.root / "AGENTS.md").write_text("top")
    (project.root / "x" / "y").mkdir(parents=True)
    (project.root / "x" / "y" / "AGENTS.md").write_text("y")
    (project.root / "x" / "AGENTS.md").write_text("x")
    discovered = project.service().nested(project.root / "x" / "y")

    assert files(await project.told(*reversed(discovered))) == [
        str(project.root / "AGENTS.md"),
        str(project.root / "x" / "AGENTS.md"),
        str(project.root / "x" / "y" / "AGENTS.md"),
    ]
    assert project.service(*discovered).nested(project.root / "x" / "y") == []


async def test_a_discovery_outside_of_the_project_is_not_read(project: Project) -> None:
    outside = project.root.parent / "AGENTS.md"
    outside.write_text("outside")
    climbing = project.root / ".." / "AGENTS.md"
    assert files(await project.told(outside, climbing)) == []
    service = project.service(outside)
    service.compose()
    assert service.diagnostics == []


async def test_without_project_files_nothing_is_discovered(project: Project) -> None:
    (project.root / "x").mkdir()
    (project.root / "x" / "AGENTS.md").write_text("x")
    service = project.service(options=InstructionOptions(project=False))
    assert service.nested(project.root / "x") == []
