"""The user's directories come from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.config.paths import config_dir, data_dir, store_path
from perdure.errors import ConfigurationError


def test_by_default_everything_lies_below_the_home_directory() -> None:
    env = {"HOME": "/home/ada"}
    assert config_dir(env) == Path("/home/ada/.config/perdure")
    assert data_dir(env) == Path("/home/ada/.local/share/perdure")
    assert store_path(env) == Path("/home/ada/.local/share/perdure/perdure.db")


def test_the_directories_of_the_desktop_convention_count_before_the_defaults() -> None:
    env = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/xdg/c", "XDG_DATA_HOME": "/xdg/d"}
    assert config_dir(env) == Path("/xdg/c/perdure")
    assert data_dir(env) == Path("/xdg/d/perdure")


def test_a_relative_directory_of_the_desktop_convention_is_ignored() -> None:
    env = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "c"}
    assert config_dir(env) == Path("/home/ada/.config/perdure")


def test_the_variables_of_perdure_count_first() -> None:
    env = {
        "HOME": "/home/ada",
        "XDG_CONFIG_HOME": "/xdg/c",
        "PERDURE_CONFIG_DIR": "/own/c",
        "PERDURE_DATA_DIR": "~/d",
        "PERDURE_STORE": "/own/s.db",
    }
    assert config_dir(env) == Path("/own/c")
    assert data_dir(env) == Path("/home/ada/d")
    assert store_path(env) == Path("/own/s.db")


def test_a_relative_store_lies_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert store_path({"PERDURE_STORE": "s.db"}) == tmp_path / "s.db"


def test_an_empty_variable_counts_as_none() -> None:
    env = {"HOME": "/home/ada", "PERDURE_CONFIG_DIR": "", "PERDURE_STORE": ""}
    assert config_dir(env) == Path("/home/ada/.config/perdure")
    assert store_path(env).name == "perdure.db"


def test_a_store_that_is_a_url_is_refused_without_repeating_it() -> None:
    with pytest.raises(ConfigurationError) as caught:
        store_path({"PERDURE_STORE": "postgresql://ada:secret@db/perdure"})
    assert str(caught.value) == "PERDURE_STORE is a URL; it must be the path of a SQLite file"


@pytest.mark.parametrize("value", ["a\0b", "a\udcffb"])
def test_a_path_that_cannot_be_one_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"PERDURE_DATA_DIR is a.*cannot be used"):
        data_dir({"PERDURE_DATA_DIR": value})


def test_without_a_home_in_the_environment_the_system_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/asked"))
    assert config_dir({}) == Path("/home/asked/.config/perdure")


def test_an_unknown_home_is_an_error_that_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(ConfigurationError, match="set HOME, or PERDURE_CONFIG_DIR"):
        config_dir({})
