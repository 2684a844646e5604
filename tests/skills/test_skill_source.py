"""What the model is told of skills, and of their coming and going."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.context import Generation, ReplacementBlocked, Unchanged
from perdure.context.snapshot import SourceSnapshot
from perdure.sources.skills import KEY, LIMIT, MOST, ListedSkill, SkillList
from tests.skills.skill_project import SkillProject, composed, refuse, refuse_open

pytestmark = pytest.mark.anyio

USE = (
    "Each skill is a folder of instructions for one kind of task. When a task fits a description,"
    " load that skill by its name with the tool `skill` before you begin."
)


async def test_a_baseline_lists_the_skills_and_says_how_to_load_one(project: SkillProject) -> None:
    pdf = project.add("pdf", description="Works with PDF files.")
    csv = project.add("csv", place=project.user_place, description="Works with tables.")
    assert (await project.told()).baseline == (
        f"# Skills\n\n{USE}\n\n"
        f"- csv ({csv}): Works with tables.\n- pdf ({pdf}): Works with PDF files."
    )


async def test_without_skills_nothing_is_told(project: SkillProject) -> None:
    (project.place / "drafts").mkdir(parents=True)
    assert await project.told() == Generation("", {})


async def test_a_new_skill_is_told_with_the_whole_list(project: SkillProject) -> None:
    csv = project.add("csv", description="Works with tables.")
    told = await project.told()
    pdf = project.add("pdf", description="Works with PDF files.")

    assert await project.update(told.snapshot) == (
        f"# Skills\n\nThe skills have changed; this list replaces the earlier one. {USE}\n\n"
        f"- csv ({csv}): Works with tables.\n- pdf ({pdf}): Works with PDF files."
    )


async def test_the_first_skill_is_told_by_the_baseline_text(project: SkillProject) -> None:
    told = await project.told()
    project.add("pdf")
    assert (await project.update(told.snapshot)).startswith(f"# Skills\n\n{USE}\n\n- pdf")


async def test_a_changed_description_is_told_as_it_is_now(project: SkillProject) -> None:
    project.add("pdf", description="Works with PDF files.")
    told = await project.told()
    project.add("pdf", description="Fills in forms.")
    text = await project.update(told.snapshot)
    assert "Fills in forms." in text
    assert "Works with PDF files." not in text


async def test_a_changed_body_tells_nothing(project: SkillProject) -> None:
    project.add("pdf")
    told = await project.told()
    project.add("pdf", body="Do it otherwise.")
    assert await project.next(told.snapshot) == Unchanged()


async def test_a_removed_skill_is_no_longer_listed(project: SkillProject) -> None:
    project.add("csv")
    pdf = project.add("pdf")
    told = await project.told()
    shutil.rmtree(pdf)
    text = await project.update(told.snapshot)
    assert "- csv" in text
    assert "pdf (" not in text


async def test_the_last_skill_that_goes_is_told(project: SkillProject) -> None:
    pdf = project.add("pdf")
    told = await project.told()
    shutil.rmtree(pdf)
    assert await project.update(told.snapshot) == (
        "# Skills\n\nThere are no skills any more: none can be loaded."
    )


async def test_a_nearer_skill_of_the_same_name_is_told(project: SkillProject) -> None:
    project.add("pdf")
    told = await project.told()
    near = project.add("pdf", place=project.below / ".agents" / "skills")
    assert f"- pdf ({near}): " in await project.update(told.snapshot)


async def test_a_skill_that_becomes_unusable_is_no_longer_listed(project: SkillProject) -> None:
    project.add("csv")
    project.add("pdf")
    told = await project.told()
    project.add("pdf", "no frontmatter")
    assert "pdf (" not in await project.update(told.snapshot)


async def test_a_told_skill_does_not_vanish_with_a_place_that_cannot_be_examined(
    project: SkillProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add("pdf")
    told = await project.told()
    refuse(monkeypatch, project.place, PermissionError(13, "Permission denied"))

    catalog = project.catalog()
    context = composed(catalog.source(told.snapshot))
    assert await context.reconcile(told.snapshot) == Unchanged()
    assert await context.replace(told.snapshot) == ReplacementBlocked((KEY,))
    assert [each.message for each in catalog.diagnostics] == [
        f"{project.place}: it cannot be examined: Permission denied"
    ]

    monkeypatch.undo()
    project.add("csv")
    assert "- csv" in await project.update(told.snapshot)


@pytest.mark.parametrize("at", ["", "SKILL.md"])
async def test_a_told_skill_does_not_vanish_in_a_loop_of_links(
    project: SkillProject, at: str
) -> None:
    pdf = project.add("pdf")
    told = await project.told()
    path = pdf / at
    shutil.move(path, project.root / "moved")
    path.symlink_to(path)
    assert await project.next(told.snapshot) == Unchanged()


async def test_a_told_skill_does_not_vanish_while_it_cannot_be_read(
    project: SkillProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add("pdf")
    told = await project.told()
    refuse_open(monkeypatch, ["SKILL.md"], OSError(5, "Input/output error"))
    assert await project.next(told.snapshot) == Unchanged()


async def test_what_was_never_told_keeps_nothing_from_being_told(project: SkillProject) -> None:
    project.add("csv")
    (project.place / "pdf").symlink_to("pdf")
    told = await project.told()
    assert "- csv (" in told.baseline
    project.add("csv", description="Works with tables.")
    assert "Works with tables." in await project.update(told.snapshot)


async def test_a_skill_of_another_location_goes_although_something_cannot_be_examined(
    project: SkillProject,
) -> None:
    project.add("csv", place=project.user_place)
    project.add("pdf", place=project.below / ".agents" / "skills")
    told = await project.told()
    project.below = project.root
    project.place.mkdir(parents=True)
    (project.place / "loop").symlink_to("loop")
    text = await project.update(told.snapshot)
    assert "- csv (" in text
    assert "pdf (" not in text


async def test_a_value_that_no_longer_decodes_starts_anew(project: SkillProject) -> None:
    project.add("pdf")
    damaged = {KEY: SourceSnapshot(value={"skills": 5}, removed="gone")}
    result: Any = await composed(project.catalog().source(damaged)).reconcile(damaged)
    assert "- pdf (" in result.generation.baseline


async def test_more_skills_than_the_list_takes_are_counted(project: SkillProject) -> None:
    for number in range(MOST + 3):
        project.add(f"skill-{number:04}", description="x")
    text = (await project.told()).baseline
    assert text.count("\n- skill-") == MOST
    assert text.endswith("\n\nNote: 3 more skills are not listed; they can be loaded, too.")


async def test_a_list_is_never_longer_than_its_limit(project: SkillProject) -> None:
    for number in range(30):
        project.add(f"skill-{number:04}", description="é" * 1000)
    told = await project.told()
    lines = [line for line in told.baseline.splitlines() if line.startswith("- ")]
    assert 0 < len(lines) < 30
    assert len("\n".join(lines).encode()) <= LIMIT
    assert told.baseline.endswith(
        f"Note: {30 - len(lines)} more skills are not listed; they can be loaded, too."
    )


async def test_a_description_cannot_begin_a_line(project: SkillProject) -> None:
    project.add("pdf", '---\nname: pdf\ndescription: "a\\n\\n# Date\\n\\nToday"\n---\n')
    text = (await project.told()).baseline
    assert text.endswith(": a # Date Today")


@settings(max_examples=30)
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=80))
def test_no_description_can_begin_a_line(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    project = SkillProject(tmp_path_factory.mktemp("skills"))
    block = text.replace("\n", "\n  ")
    project.add("pdf", f"---\nname: pdf\ndescription: |\n  a\n  {block}\n---\n")
    told = anyio.run(project.told)
    assert len(told.baseline.splitlines()) in (0, 5)


async def test_a_directory_with_an_odd_name_cannot_begin_a_line(project: SkillProject) -> None:
    project.add("x\n# Date", "---\nname: pdf\ndescription: Works.\n---\n")
    assert "\n# Date" not in (await project.told()).baseline


async def test_a_trouble_is_logged_once_while_it_lasts(
    project: SkillProject, caplog: pytest.LogCaptureFixture
) -> None:
    folder = project.add("pdf", "no frontmatter")
    catalog = project.catalog()
    for _ in range(3):
        await composed(catalog.source({})).initialize()
    assert caplog.messages == [
        (
            f"skill {folder}/SKILL.md: refused, because it does not begin with frontmatter: its"
            " first line must be three dashes"
        )
    ]
    project.add("pdf")
    await composed(catalog.source({})).initialize()
    assert catalog.diagnostics == []


async def test_the_skills_are_the_same_source_at_every_boundary(project: SkillProject) -> None:
    catalog = project.catalog()
    assert catalog.source({}) is catalog.source({})


def test_a_value_holds_what_was_told_and_no_more() -> None:
    assert SkillList.__struct_fields__ == ("skills", "more")
    assert ListedSkill.__struct_fields__ == ("name", "description", "directory")


async def test_a_place_may_be_the_project_of_somebody_else(project: SkillProject) -> None:
    project.add("pdf", place=project.config / "skills")
    assert f"- pdf ({project.config / 'skills' / 'pdf'}): " in (await project.told()).baseline


def test_nothing_is_looked_at_before_the_source_loads(tmp_path: Path) -> None:
    assert SkillProject(tmp_path).catalog().diagnostics == []
