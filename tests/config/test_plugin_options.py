"""Which plugins a configuration names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.config.load import from_mapping, load
from perdure.config.schema import Ignored, PluginOptions
from perdure.config.trust import trust
from perdure.errors import ConfigurationError

ENV = {"HOME": "/home/ada"}


def given(plugins: Any) -> PluginOptions:
    return from_mapping({"plugins": plugins}, "c.toml", ENV).plugins


def test_paths_are_absolute_or_below_home_and_listed_once() -> None:
    options = given(
        {"paths": ["/srv/./a.py", "~/b.py", "/srv/x/../a.py"], "disabled": ["c", "d-1_2"]}
    )
    assert options == PluginOptions((Path("/srv/a.py"), Path("/home/ada/b.py")), ("c", "d-1_2"))


def test_a_relative_path_belongs_to_the_file_that_lists_it(tmp_path: Path) -> None:
    user, project = tmp_path / "config", tmp_path / "project"
    below = project / "a"
    below.mkdir(parents=True)
    user.mkdir()
    (project / ".git").mkdir()
    env = {
        "HOME": str(tmp_path),
        "PERDURE_CONFIG_DIR": str(user),
        "PERDURE_DATA_DIR": str(tmp_path / "data"),
    }
    (user / "config.toml").write_text('[plugins]\npaths = ["mine.py"]\ndisabled = ["x"]', "utf-8")
    assert load(below, env).plugins.paths == (user / "mine.py",)

    (below / "perdure.toml").write_text('[plugins]\npaths = ["../tools/it.py"]', "utf-8")
    untrusted = load(below, env)
    assert untrusted.plugins.paths == (user / "mine.py",)
    assert untrusted.ignored == (Ignored(str(below / "perdure.toml"), "plugins"),)

    trust(project, env)
    trusted = load(below, env).plugins
    assert trusted == PluginOptions((project / "tools" / "it.py",), ("x",))


@pytest.mark.parametrize(
    ("plugins", "words"),
    [
        ([], "plugins must be a table"),
        ({"path": []}, "plugins.path is not a known key; the nearest one is plugins.paths"),
        ({"paths": "a.py"}, "plugins.paths must be a list of paths"),
        ({"paths": [3]}, "plugins.paths must be a list of paths"),
        ({"paths": [""]}, "plugins.paths must be text"),
        ({"paths": ["a\n.py"]}, "plugins.paths must be text"),
        ({"paths": ["a.py"]}, 'must list paths that begin with "/" or "~/"'),
        ({"disabled": "a"}, "plugins.disabled must be a list of names"),
        ({"disabled": [1]}, "plugins.disabled must list names of plugins"),
        ({"disabled": ["A"]}, "plugins.disabled must list names of plugins"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(plugins: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        given(plugins)
    assert str(caught.value).startswith("c.toml: ")
    assert words in str(caught.value)
