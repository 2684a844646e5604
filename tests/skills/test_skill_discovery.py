"""Which skills there are at a Location, which of two counts, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.skills import user_skills
from perdure.skills.discovery import MOST
from tests.skills.skill_project import SkillProject, refuse, refuse_open

OWN = (".perdure/skills", ".agents/skills", ".claude/skills")


def directory_of(project: SkillProject, name: str) -> Path:
    skill = project.index().find(name)
    assert skill is not None
    return skill.directory


@pytest.mark.parametrize("place", OWN)
@pytest.mark.parametrize("at", ["", "a", "a/b"])
def test_every_directory_of_the_location_may_hold_skills(
    project: SkillProject, place: str, at: str
) -> None:
    folder = project.add("pdf", place=project.root / at / place)
    skill = project.index().find("pdf")
    assert skill is not None
    assert skill.directory == folder
    assert skill.description == "Works with PDF files. Use it when somebody mentions one."


def test_the_users_own_skills_are_found(project: SkillProject) -> None:
    project.add("one", place=project.config / "skills")
    project.add("two", place=project.user_place)
    assert project.names() == ["one", "two"]
    assert project.troubles() == []


def test_skills_are_sorted_by_name(project: SkillProject) -> None:
    project.add("b", place=project.root / ".claude" / "skills")
    project.add("c")
    project.add("a", place=project.user_place)
    assert project.names() == ["a", "b", "c"]


def test_skills_above_the_project_and_beside_the_location_are_not_looked_at(
    project: SkillProject,
) -> None:
    project.add("above", place=project.root.parent / ".agents" / "skills")
    project.add("beside", place=project.root / "x" / ".agents" / "skills")
    assert project.names() == []


def test_without_a_home_the_configuration_directory_counts_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", nowhere)
    assert user_skills({"PERDURE_CONFIG_DIR": "/c"}) == (Path("/c/skills"),)


def test_a_nearer_skill_counts_more(project: SkillProject) -> None:
    project.add("pdf")
    near = project.add("pdf", place=project.below / ".agents" / "skills")
    assert directory_of(project, "pdf") == near
    assert project.troubles() == [
        (
            "project/.agents/skills/pdf/SKILL.md: not used: the skill pdf of"
            " project/a/b/.agents/skills/pdf counts more"
        )
    ]


def test_a_project_counts_more_than_the_user(project: SkillProject) -> None:
    project.add("pdf", place=project.user_place)
    own = project.add("pdf")
    assert directory_of(project, "pdf") == own
    assert project.troubles() == [
        (
            "home/.agents/skills/pdf/SKILL.md: not used: the skill pdf of"
            " project/.agents/skills/pdf counts more"
        )
    ]


def test_of_one_directory_the_places_count_in_their_order(project: SkillProject) -> None:
    first, *others = [project.add("pdf", place=project.root / place) for place in OWN]
    assert directory_of(project, "pdf") == first
    assert len(project.troubles()) == len(others)


def test_of_two_folders_that_claim_a_name_the_one_that_bears_it_counts(
    project: SkillProject,
) -> None:
    project.add("a-copy", "---\nname: pdf\ndescription: A copy.\n---\n")
    own = project.add("pdf")
    assert directory_of(project, "pdf") == own
    assert any("not used: the skill pdf of" in trouble for trouble in project.troubles())


def test_a_skill_that_two_links_lead_to_is_no_conflict(project: SkillProject) -> None:
    project.add("pdf")
    project.add("csv")
    claude = project.root / ".claude"
    (claude / "skills").mkdir(parents=True)
    (claude / "skills" / "pdf").symlink_to("../../.agents/skills/pdf")
    (project.root / ".perdure").symlink_to(".agents")
    assert project.names() == ["csv", "pdf"]
    assert project.troubles() == []


def test_a_folder_behind_a_link_inside_the_project_is_a_skill(project: SkillProject) -> None:
    shared = project.add("pdf", place=project.root / "shared")
    project.place.mkdir(parents=True)
    (project.place / "pdf").symlink_to(shared)
    skill = project.index().find("pdf")
    assert skill is not None
    assert (skill.directory, skill.folder) == (project.place / "pdf", shared)


def test_a_users_skill_may_be_a_link_to_anywhere(project: SkillProject) -> None:
    elsewhere = project.add("pdf", place=project.root.parent / "elsewhere")
    project.user_place.mkdir(parents=True)
    (project.user_place / "pdf").symlink_to(elsewhere)
    assert project.names() == ["pdf"]


def test_a_folder_that_leads_out_of_the_project_is_refused(project: SkillProject) -> None:
    elsewhere = project.add("pdf", place=project.root.parent / "elsewhere")
    project.place.mkdir(parents=True)
    (project.place / "pdf").symlink_to(elsewhere)
    assert project.names() == []
    assert project.troubles() == [
        "project/.agents/skills/pdf: refused, because it leads out of the project, to elsewhere/pdf"
    ]


def test_a_place_that_leads_out_of_the_project_is_refused(project: SkillProject) -> None:
    elsewhere = project.root.parent / "elsewhere"
    project.add("pdf", place=elsewhere)
    (project.root / ".agents").mkdir()
    project.place.symlink_to(elsewhere)
    assert project.names() == []
    assert "it leads out of the project" in project.troubles()[0]


@pytest.mark.parametrize("user", [False, True])
def test_a_file_that_leads_out_of_its_folder_is_refused(project: SkillProject, user: bool) -> None:
    place = project.user_place if user else project.place
    secret = project.add("other", place=project.root / "docs") / "SKILL.md"
    (place / "pdf").mkdir(parents=True)
    (place / "pdf" / "SKILL.md").symlink_to(secret)
    assert project.names() == []
    assert "pdf/SKILL.md: refused, because it leads out of its folder" in project.troubles()[0]


def test_a_file_that_is_a_link_within_its_folder_counts(project: SkillProject) -> None:
    folder = project.add("pdf")
    (folder / "SKILL.md").rename(folder / "README.md")
    (folder / "SKILL.md").symlink_to("README.md")
    assert project.names() == ["pdf"]


@pytest.mark.parametrize("put", [Path.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_refused_and_never_blocks(
    project: SkillProject, put: Callable[[Path], object]
) -> None:
    (project.place / "pdf").mkdir(parents=True)
    put(project.place / "pdf" / "SKILL.md")
    assert project.names() == []
    assert project.troubles() == [
        "project/.agents/skills/pdf/SKILL.md: refused, because it is no regular file"
    ]


def test_a_place_that_is_no_directory_is_refused(project: SkillProject) -> None:
    (project.root / ".agents").mkdir()
    os.mkfifo(project.place)
    assert project.names() == []
    assert project.troubles() == [
        "project/.agents/skills: refused, because it is no directory",
    ]


def test_what_is_no_folder_of_a_skill_is_passed_over_silently(project: SkillProject) -> None:
    project.add("pdf")
    (project.place / "README.md").touch()
    (project.place / "drafts").mkdir()
    (project.place / "gone").symlink_to("nowhere")
    os.mkfifo(project.place / "pipe")
    project.add(".hidden")
    (project.root / ".perdure").touch()
    assert project.names() == ["pdf"]
    assert project.troubles() == []


def test_a_folder_whose_path_is_no_unicode_is_refused(project: SkillProject) -> None:
    project.add(os.fsdecode(b"caf\xe9"), "---\nname: pdf\ndescription: Works.\n---\n")
    assert project.names() == []
    assert "refused, because its path is not valid UTF-8" in project.troubles()[0]


def test_a_link_whose_own_path_is_no_unicode_is_refused(project: SkillProject) -> None:
    shared = project.add("pdf", place=project.root / "shared")
    project.add("csv")
    (project.place / os.fsdecode(b"caf\xe9")).symlink_to(shared)
    assert project.names() == ["csv"]
    assert "refused, because its path is not valid UTF-8" in project.troubles()[0]


@pytest.mark.parametrize("at", ["pdf", "pdf/SKILL.md"])
def test_a_loop_of_links_cannot_be_examined(project: SkillProject, at: str) -> None:
    project.add("csv")
    path = project.place / at
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(path)
    index = project.index()
    assert [skill.name for skill in index.skills] == ["csv"]
    assert [str(each) for each in index.blocked] == [
        f"{project.place / 'pdf'}: it cannot be examined: Too many levels of symbolic links"
    ]


def test_a_place_that_cannot_be_examined_leaves_the_others(
    project: SkillProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add("pdf")
    project.add("csv", place=project.user_place)
    refuse(monkeypatch, project.place, PermissionError(13, "Permission denied"))
    assert project.names() == ["csv"]
    assert project.troubles() == [
        "project/.agents/skills: it cannot be examined: Permission denied"
    ]


def test_a_file_that_cannot_be_read_is_not_known(
    project: SkillProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add("pdf")
    refuse_open(monkeypatch, ["SKILL.md"], OSError(5, "Input/output error"))
    index = project.index()
    assert index.skills == ()
    assert [each.path for each in index.blocked] == [project.place / "pdf"]
    assert index.may_hide(project.place / "pdf")
    assert not index.may_hide(project.place / "csv")


def test_a_skill_without_a_name_has_that_of_its_folder(project: SkillProject) -> None:
    project.add("pdf", "---\ndescription: Works.\n---\n")
    assert project.names() == ["pdf"]
    assert project.troubles() == [
        "project/.agents/skills/pdf/SKILL.md: it has no name; it is loaded as pdf, after its folder"
    ]


def test_a_skill_without_any_possible_name_is_refused(project: SkillProject) -> None:
    project.add("My PDFs", "---\ndescription: Works.\n---\n")
    assert project.names() == []
    assert project.troubles() == [
        (
            "project/.agents/skills/My PDFs/SKILL.md: refused, because it has no name, and its"
            " folder cannot give one"
        )
    ]


def test_a_name_unlike_the_folders_is_put_up_with(project: SkillProject) -> None:
    project.add("pdf", "---\nname: pdf-tools\ndescription: Works.\n---\n")
    assert project.names() == ["pdf-tools"]
    assert project.troubles() == [
        (
            "project/.agents/skills/pdf/SKILL.md: its name is pdf-tools, that of its folder is pdf;"
            " it is loaded as pdf-tools"
        )
    ]


@pytest.mark.parametrize(
    "name", ["PDF Tools", "pdf_tools", "-pdf", "pdf-", "pdf--tools", "p" * 65, "pdf\x1b[31m", "é"]
)
def test_a_name_that_breaks_the_rule_gives_way_to_that_of_the_folder(
    project: SkillProject, name: str
) -> None:
    project.add("pdf", f"---\nname: {name!a}\ndescription: Works.\n---\n".replace("'", '"'))
    assert project.names() == ["pdf"]
    (trouble,) = project.troubles()
    assert "is not 1 to 64 lower case letters, digits and single hyphens" in trouble
    assert trouble.endswith("it is loaded as pdf, after its folder")
    assert trouble.isprintable()


@pytest.mark.parametrize("name", ["a", "p" * 64, "a1-b2-3"])
def test_a_name_by_the_rule_is_taken(project: SkillProject, name: str) -> None:
    project.add(name)
    assert project.names() == [name]
    assert project.troubles() == []


@pytest.mark.parametrize("line", ["", "description:", "description: ''", "description: [a]"])
def test_a_skill_without_a_description_is_refused(project: SkillProject, line: str) -> None:
    project.add("pdf", f"---\nname: pdf\n{line}\n---\nDo it.")
    assert project.names() == []
    assert project.troubles() == [
        (
            "project/.agents/skills/pdf/SKILL.md: refused, because it has no description that says"
            " when to use it"
        )
    ]


def test_a_long_description_is_cut(project: SkillProject) -> None:
    project.add("pdf", description="x" * 1025)
    (skill,) = project.index().skills
    assert skill.description == "x" * 1024
    assert "its description is cut after 1024 characters" in project.troubles()[0]


def test_a_description_is_one_printable_line(project: SkillProject) -> None:
    project.add("pdf", '---\nname: pdf\ndescription: "a\\n# Date\\x1b\\ud800\\0"\n---\n')
    (skill,) = project.index().skills
    assert skill.description == "a # Date\\x1b\\ud800\\x00"


@pytest.mark.parametrize("text", ["", "Do it.", "---\nname: [\n---\n", "---\n- a\n---\n", "---\n"])
def test_bad_frontmatter_is_refused_and_leaves_the_other_skills(
    project: SkillProject, text: str
) -> None:
    project.add("bad", text)
    project.add("pdf")
    assert project.names() == ["pdf"]
    (trouble,) = project.troubles()
    assert trouble.startswith("project/.agents/skills/bad/SKILL.md: refused, because ")


def test_a_wrong_encoding_is_put_up_with_where_it_can_be(project: SkillProject) -> None:
    project.add("pdf", "---\nname: pdf\ndescription: Für PDFs.\n---\n".encode("latin-1"))
    (skill,) = project.index().skills
    assert skill.description == "F\ufffdr PDFs."
    assert "it is not valid UTF-8" in project.troubles()[0]


def test_a_file_in_utf_16_is_refused(project: SkillProject) -> None:
    project.add("pdf", "---\nname: pdf\ndescription: Works.\n---\n".encode("utf-16"))
    assert project.names() == []
    assert project.troubles()[0].endswith("three dashes; nor is it valid UTF-8")


def test_a_byte_order_mark_is_no_text(project: SkillProject) -> None:
    project.add("pdf", b"\xef\xbb\xbf---\nname: pdf\ndescription: Works.\n---\n")
    assert project.names() == ["pdf"]
    assert project.troubles() == []


def test_of_a_file_of_50_mb_only_the_head_is_read(
    project: SkillProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.add("pdf")
    os.truncate(folder / "SKILL.md", 50_000_000)
    read: list[int] = []
    real = os.read

    def counted(descriptor: int, size: int) -> bytes:
        piece = real(descriptor, size)
        read.append(len(piece))
        return piece

    monkeypatch.setattr(os, "read", counted)
    assert project.names() == ["pdf"]
    assert sum(read) <= 8192


def test_of_a_crowded_place_the_first_folders_are_looked_at(project: SkillProject) -> None:
    for number in range(MOST + 5):
        project.add(f"skill-{number:04}")
    names = project.names()
    assert (len(names), names[-1]) == (MOST, f"skill-{MOST - 1:04}")
    assert project.troubles() == [
        f"project/.agents/skills: it holds {MOST + 5} names; only the first {MOST} are looked at"
    ]


def test_the_users_skills_are_the_users_in_a_project_that_holds_the_home(
    project: SkillProject,
) -> None:
    elsewhere = project.add("pdf", place=project.root.parent / "elsewhere")
    project.home = project.root
    (project.root / ".agents" / "skills").mkdir(parents=True)
    (project.root / ".agents" / "skills" / "pdf").symlink_to(elsewhere)
    assert project.names() == ["pdf"]
    assert project.troubles() == []


def test_looking_leaves_no_descriptor_open(project: SkillProject) -> None:
    project.add("pdf")
    project.add("bad", "")
    before = len(list(Path("/proc/self/fd").iterdir()))
    project.index()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
