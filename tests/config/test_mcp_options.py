"""Which MCP servers a configuration names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.config.load import from_mapping, load
from perdure.config.schema import Ignored, McpServer
from perdure.config.trust import trust
from perdure.errors import ConfigurationError


def given(**servers: Any) -> dict[str, McpServer]:
    return dict(from_mapping({"mcp": servers}, "c.toml", {}).mcp)


def test_a_program_and_an_address_are_servers() -> None:
    assert given(
        files={"command": "npx", "args": ["-y", "files"], "env": ["TOKEN"], "tools": ["read"]},
        wiki={"url": "https://wiki.example/mcp/", "token_env": "WIKI", "timeout": 5},
    ) == {
        "files": McpServer(command="npx", args=("-y", "files"), env=("TOKEN",), tools=("read",)),
        "wiki": McpServer(url="https://wiki.example/mcp/", token_env="WIKI", timeout=5.0),
    }


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "needs either command"),
        ({"command": "a", "url": "http://a"}, "needs either command, a program to run, or url, an"),
        ({"command": "a", "url": "http://a"}, "not both"),
        ({"url": "http://a", "args": ["b"]}, "has args, which goes with command only"),
        ({"command": "a", "token_env": "B"}, "has token_env, which goes with url only"),
        ({"command": "a", "arguments": []}, "args"),
        ({"command": "a", "env": {"TOKEN": "secret-value"}}, "names of environment variables"),
        ({"command": "a", "env": ["secret value"]}, "must be the name of an environment variable"),
        ({"command": "a", "args": "b"}, "must be a list of texts"),
        ({"url": "https://me:secret-value@a"}, "use token_env"),
        ({"url": "https://a?key=secret-value"}, "use token_env"),
        ({"url": "ftp://a"}, "http or https"),
        ({"command": "a", "timeout": 0}, "seconds"),
        ({"command": "a", "disabled": "yes"}, "true or false"),
    ],
)
def test_a_wrong_table_is_an_error_that_names_the_server(table: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        given(files=table)
    assert words in str(caught.value)
    assert "c.toml" in str(caught.value)
    assert "files" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["Files", "a_b", "", "x" * 25, "-a"])
def test_a_name_that_would_blur_the_names_of_tools_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="lower case letters"):
        given(**{name: {"command": "a"}})


def test_a_projects_servers_count_only_after_trust(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    file = project / "perdure.toml"
    file.write_text('[mcp.evil]\ncommand = "rm"', "utf-8")
    env = {"HOME": str(tmp_path), "PERDURE_DATA_DIR": str(tmp_path / "data")}
    config = load(project, env)
    assert config.mcp == {}
    assert config.ignored == (Ignored(str(file), "mcp"),)
    trust(project, env)
    assert load(project, env).mcp == {"evil": McpServer(command="rm")}


def test_a_project_can_switch_a_servers_tools_off(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "perdure.toml").write_text("[mcp.files]\ndisabled = true", "utf-8")
    (tmp_path / "config.toml").write_text('[mcp.files]\ncommand = "npx"', "utf-8")
    env = {
        "HOME": str(tmp_path),
        "PERDURE_CONFIG_DIR": str(tmp_path),
        "PERDURE_DATA_DIR": str(tmp_path / "data"),
    }
    trust(project, env)
    assert load(project, env).mcp == {"files": McpServer(command="npx", disabled=True)}
