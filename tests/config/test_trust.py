"""Trust belongs to a project root, is durable, and can be taken back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perdure.config.trust import is_trusted, trust, trusted_projects, untrust
from perdure.errors import ConfigurationError, DirectoryNotFound


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PERDURE_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "below").mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    return tmp_path / "project"


def test_nothing_is_trusted_at_first(project: Path, env: dict[str, str]) -> None:
    assert not is_trusted(project, env)


def test_trust_covers_the_whole_project(project: Path, env: dict[str, str]) -> None:
    assert trust(project / "below", env) == project
    assert is_trusted(project, env)
    assert is_trusted(project / "below", env)


def test_trust_does_not_cover_a_project_inside_another(project: Path, env: dict[str, str]) -> None:
    (project / "vendor" / ".git").mkdir(parents=True)
    trust(project, env)
    assert not is_trusted(project / "vendor", env)


def test_trust_does_not_cover_what_lies_beside_a_directory_without_version_control(
    tmp_path: Path, env: dict[str, str]
) -> None:
    (tmp_path / "plain" / "below").mkdir(parents=True)
    trust(tmp_path / "plain", env)
    assert is_trusted(tmp_path / "plain", env)
    assert not is_trusted(tmp_path / "plain" / "below", env)


def test_trust_holds_for_every_way_to_the_same_project(
    tmp_path: Path, project: Path, env: dict[str, str]
) -> None:
    (tmp_path / "link").symlink_to(project)
    trust(tmp_path / "link", env)
    assert is_trusted(project, env)


def test_trust_can_be_taken_back(project: Path, env: dict[str, str]) -> None:
    trust(project, env)
    assert untrust(project / "below", env) == project
    assert not is_trusted(project, env)


def test_the_trust_of_a_project_that_is_gone_can_be_taken_back(
    tmp_path: Path, env: dict[str, str]
) -> None:
    (tmp_path / "brief").mkdir()
    trust(tmp_path / "brief", env)
    (tmp_path / "brief").rmdir()
    assert untrust(tmp_path / "brief", env) == tmp_path / "brief"
    assert trusted_projects(env) == ()


def test_the_trusted_projects_are_listed_in_order(tmp_path: Path, env: dict[str, str]) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        trust(tmp_path / name, env)
    assert trusted_projects(env) == (str(tmp_path / "a"), str(tmp_path / "b"))


def test_trusting_twice_is_the_same_as_once(project: Path, env: dict[str, str]) -> None:
    trust(project, env)
    once = (Path(env["PERDURE_DATA_DIR"]) / "trust.json").read_bytes()
    trust(project, env)
    assert (Path(env["PERDURE_DATA_DIR"]) / "trust.json").read_bytes() == once


def test_of_many_who_trust_at_once_none_is_forgotten(tmp_path: Path, env: dict[str, str]) -> None:
    projects = [tmp_path / f"p{number}" for number in range(12)]
    for each in projects:
        each.mkdir()
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(trust, projects, [env] * len(projects)))
    assert all(is_trusted(each, env) for each in projects)


def test_only_the_user_may_enter_a_data_directory_made_for_trust(
    project: Path, env: dict[str, str]
) -> None:
    trust(project, env)
    assert Path(env["PERDURE_DATA_DIR"]).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"projects": 3}', b'{"projects": ["\xff"]}'])
def test_a_damaged_list_trusts_nobody_and_says_what_to_do(
    project: Path, env: dict[str, str], content: bytes
) -> None:
    trust(project, env)
    (Path(env["PERDURE_DATA_DIR"]) / "trust.json").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"trust\.json is damaged; delete it"):
        is_trusted(project, env)


def test_a_list_that_cannot_be_written_is_an_error(project: Path, env: dict[str, str]) -> None:
    Path(env["PERDURE_DATA_DIR"]).touch()
    with pytest.raises(ConfigurationError, match=r"trust\.json cannot be written"):
        trust(project, env)


def test_a_list_that_cannot_be_read_is_an_error(project: Path, env: dict[str, str]) -> None:
    data = Path(env["PERDURE_DATA_DIR"])
    data.mkdir()
    (data / "trust.json").mkdir()
    with pytest.raises(ConfigurationError, match=r"trust\.json cannot be read"):
        is_trusted(project, env)


def test_a_missing_directory_cannot_be_trusted(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(DirectoryNotFound):
        trust(tmp_path / "nowhere", env)
