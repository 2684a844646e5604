"""Files of the user and of the project, laid over each other; trust decides what counts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from perdure.config.load import from_mapping, load
from perdure.config.schema import Ignored, InstructionOptions, Rule
from perdure.config.trust import trust
from perdure.errors import ConfigurationError, DirectoryNotFound

PROVIDER = """
[providers.local]
protocol = "openai-chat"
base_url = "http://127.0.0.1:11434/v1"
"""


class Places:
    """A user's directories and a project with a directory below it."""

    def __init__(self, root: Path) -> None:
        self.user = root / "config"
        self.project = root / "project"
        self.below = self.project / "a" / "b"
        self.user.mkdir()
        self.below.mkdir(parents=True)
        (self.project / ".git").mkdir()
        self.env: Mapping[str, str] = {
            "HOME": str(root),
            "PERDURE_CONFIG_DIR": str(self.user),
            "PERDURE_DATA_DIR": str(root / "data"),
        }

    def write(self, text: str, directory: Path | None = None) -> Path:
        """Write the user's file, or a project's in a directory."""
        file = self.user / "config.toml" if directory is None else directory / "perdure.toml"
        file.write_text(text, "utf-8")
        return file


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_without_files_the_defaults_hold(places: Places) -> None:
    config = load(places.below, places.env)
    assert (config.model, config.origins, config.ignored) == (None, {}, ())


def test_the_users_file_counts(places: Places) -> None:
    file = places.write('model = "local/a"\n' + PROVIDER)
    config = load(places.below, places.env)
    assert config.model == "local/a"
    assert config.origins["model"] == str(file)
    assert "local" in config.providers


def test_a_nearer_file_counts_more(places: Places) -> None:
    places.write('model = "local/user"\ntimezone = "Europe/Berlin"\n[instructions]\nproject = true')
    places.write('model = "local/top"\n[instructions]\nclaude_md = false', places.project)
    nearest = places.write('model = "local/near"', places.below)

    config = load(places.below, places.env)

    assert (config.model, config.timezone) == ("local/near", "Europe/Berlin")
    assert config.instructions == InstructionOptions(project=True, claude_md=False)
    assert config.origins["model"] == str(nearest)
    assert config.origins["timezone"] == str(places.user / "config.toml")


def test_files_above_the_project_root_do_not_count(places: Places) -> None:
    places.write('model = "local/outside"', places.project.parent)
    assert load(places.below, places.env).model is None


def test_in_a_project_without_trust_what_could_redirect_a_key_is_ignored(places: Places) -> None:
    places.write(PROVIDER)
    file = places.write(
        'model = "local/x"\nstep_limit = 9\n[providers.local]\nbase_url = "http://evil/v1"\n'
        '[permissions]\nshell = "allow"\n[tools]\nallowed_paths = ["/"]',
        places.project,
    )

    config = load(places.below, places.env)

    assert config.model == "local/x"
    assert config.providers["local"].base_url == "http://127.0.0.1:11434/v1"
    assert (config.permissions, config.tools.allowed_paths, config.step_limit) == ((), (), 100)
    assert config.ignored == tuple(
        Ignored(str(file), key) for key in ("step_limit", "providers", "permissions", "tools")
    )


@pytest.mark.parametrize("wanted", [True, False])
def test_a_project_may_say_whether_models_write_titles(places: Places, wanted: bool) -> None:
    places.write(f"titles = {str(not wanted).lower()}")
    places.write(f"titles = {str(wanted).lower()}", places.project)
    config = load(places.below, places.env)
    assert (config.titles, config.ignored) == (wanted, ())


def test_in_a_trusted_project_all_of_its_file_counts(places: Places) -> None:
    places.write(PROVIDER)
    file = places.write(
        '[providers.local]\nsilence_timeout = 5\n[permissions]\nshell = "allow"', places.project
    )
    trust(places.below, places.env)

    config = load(places.below, places.env)

    assert config.permissions == (Rule("shell", "*", "allow", str(file)),)
    assert config.providers["local"].silence_timeout == 5
    assert config.providers["local"].base_url == "http://127.0.0.1:11434/v1"
    assert config.ignored == ()


def test_what_does_not_count_is_not_judged(places: Places) -> None:
    places.write('[providers.x]\nprotocol = "of tomorrow"', places.project)
    assert load(places.project, places.env).providers == {}


def test_an_unknown_key_in_a_project_without_trust_is_an_error(places: Places) -> None:
    file = places.write('modell = "a/b"', places.project)
    with pytest.raises(ConfigurationError, match="modell is not a known key") as caught:
        load(places.project, places.env)
    assert str(caught.value).startswith(str(file))


@pytest.mark.parametrize(
    ("text", "place"),
    [("a = 1\nb = \n", "line 2"), ("a = 1\n\n[b", "line 3"), ("a = 1\na = 2", "line 2")],
)
def test_an_error_of_syntax_names_file_and_line(places: Places, text: str, place: str) -> None:
    file = places.write(text)
    with pytest.raises(ConfigurationError) as caught:
        load(places.below, places.env)
    assert str(caught.value).startswith(f"{file} is not valid TOML: ")
    assert place in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, f"a = {'9' * 5000}"])
def test_toml_that_no_parser_should_take_is_an_error(places: Places, text: str) -> None:
    places.write(text)
    with pytest.raises(ConfigurationError, match=r"config\.toml is not .* TOML"):
        load(places.below, places.env)


def test_a_byte_order_mark_is_no_error(places: Places) -> None:
    places.write('\ufeffmodel = "local/a"')
    assert load(places.below, places.env).model == "local/a"


def test_a_file_in_another_encoding_names_the_line(places: Places) -> None:
    (places.user / "config.toml").write_bytes(b'# one\nmodel = "\xff"\n')
    with pytest.raises(ConfigurationError, match="line 2 is not valid UTF-8"):
        load(places.below, places.env)


def test_a_directory_in_the_place_of_the_file_is_an_error(places: Places) -> None:
    (places.user / "config.toml").mkdir()
    with pytest.raises(ConfigurationError, match="must be a regular file"):
        load(places.below, places.env)


def test_a_fifo_in_the_place_of_the_file_never_blocks(places: Places) -> None:
    os.mkfifo(places.project / "perdure.toml")
    with pytest.raises(ConfigurationError, match="must be a regular file"):
        load(places.below, places.env)


def test_a_file_that_cannot_be_read_is_an_error(places: Places) -> None:
    (places.project / "perdure.toml").symlink_to("perdure.toml")
    with pytest.raises(ConfigurationError, match=r"perdure\.toml cannot be read: "):
        load(places.below, places.env)


def test_a_file_that_is_too_large_is_an_error(places: Places) -> None:
    places.write("#" * (1024 * 1024 + 1))
    with pytest.raises(ConfigurationError, match="larger than 1 MiB"):
        load(places.below, places.env)


def test_a_missing_directory_is_not_found(places: Places) -> None:
    with pytest.raises(DirectoryNotFound):
        load(places.project / "nowhere", places.env)


def test_a_given_mapping_means_what_the_file_means(places: Places) -> None:
    places.write('model = "local/a"\n' + PROVIDER)
    mapping = {
        "model": "local/a",
        "providers": {
            "local": {"protocol": "openai-chat", "base_url": "http://127.0.0.1:11434/v1"}
        },
    }
    read, given = load(places.below, places.env), from_mapping(mapping, "given", places.env)
    assert (given.model, given.providers) == (read.model, read.providers)
    assert set(given.origins.values()) == {"given"}


def test_without_a_known_home_only_a_path_below_it_is_an_error(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", unknown)
    env = {name: value for name, value in places.env.items() if name != "HOME"}
    places.write('[tools]\nallowed_paths = ["/srv"]')
    assert load(places.below, env).tools.allowed_paths == (Path("/srv"),)
    places.write('[tools]\nallowed_paths = ["~/notes"]')
    with pytest.raises(ConfigurationError, match="home directory is not known"):
        load(places.below, env)
