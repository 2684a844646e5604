"""Every key and value is checked; a message names the place and what is allowed."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.config.load import from_mapping, load
from perdure.config.schema import Config, InstructionOptions, ModelConfig, ProviderConfig, Rule
from perdure.errors import ConfigurationError

ENV = {"HOME": "/home/ada"}

PROTOCOLS = "openai-chat, openai-responses, anthropic, gemini"


def given_config(mapping: Any) -> Config:
    return from_mapping(mapping, "c.toml", ENV)


def provider(**settings: object) -> dict[str, object]:
    whole: dict[str, object] = {"protocol": "openai-chat", "base_url": "http://127.0.0.1:1/v1"}
    return {"providers": {"local": whole | settings}}


def refusal(mapping: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        given_config(mapping)
    return str(caught.value)


def test_an_empty_configuration_holds_the_defaults() -> None:
    assert given_config({}) == Config()


def test_everything_that_can_be_configured_is_taken() -> None:
    config = given_config(
        {
            "model": "local/qwen3",
            "timezone": "Europe/Berlin",
            "step_limit": 7,
            "providers": {
                "local": {
                    "protocol": "anthropic",
                    "base_url": "https://llm.example/api/",
                    "api_key_env": "LOCAL_API_KEY",
                    "headers": {"X-Team": "blue"},
                    "connect_timeout": 2,
                    "silence_timeout": 30.5,
                    "attempt_timeout": 900,
                    "models": {
                        "qwen3": {
                            "context_window": 32768,
                            "max_output": 8192,
                            "system_messages": "wrapped",
                            "images": True,
                            "parameters": {"temperature": 0.5, "stop": ["a"]},
                        }
                    },
                }
            },
            "permissions": {"shell": {"*": "ask", "git *": "allow"}, "mcp_*": "deny"},
            "instructions": {"project": False, "claude_md": False},
            "tools": {"allowed_paths": ["/srv/../srv/data", "~/notes"]},
        }
    )

    assert (config.model, config.timezone, config.step_limit) == ("local/qwen3", "Europe/Berlin", 7)
    assert config.providers["local"] == ProviderConfig(
        protocol="anthropic",
        base_url="https://llm.example/api",
        api_key_env="LOCAL_API_KEY",
        headers={"X-Team": "blue"},
        connect_timeout=2.0,
        silence_timeout=30.5,
        attempt_timeout=900.0,
        models={
            "qwen3": ModelConfig(
                32768, 8192, "wrapped", {"temperature": 0.5, "stop": ["a"]}, images=True
            ),
        },
    )
    assert config.permissions == (
        Rule("shell", "*", "ask", "c.toml"),
        Rule("shell", "git *", "allow", "c.toml"),
        Rule("mcp_*", "*", "deny", "c.toml"),
    )
    assert config.instructions == InstructionOptions(project=False, claude_md=False)
    assert config.tools.allowed_paths == (Path("/srv/data"), Path("/home/ada/notes"))


def test_each_key_tells_the_file_that_it_came_from() -> None:
    models: dict[str, object] = {"gpt-4.1": {"max_output": 5}, "plain": {}}
    config = given_config({"model": "local/x"} | provider(models=models))
    assert config.origins == {
        "model": "c.toml",
        "providers.local.protocol": "c.toml",
        "providers.local.base_url": "c.toml",
        'providers.local.models."gpt-4.1".max_output': "c.toml",
        "providers.local.models.plain": "c.toml",
    }


def test_an_unknown_key_is_named_with_the_nearest_one() -> None:
    assert refusal({"modle": "a/b"}) == (
        "c.toml: modle is not a known key; the nearest one is model"
    )
    assert refusal(provider(base_uri="http://h")) == (
        "c.toml: providers.local.base_uri is not a known key;"
        " the nearest one is providers.local.base_url"
    )
    assert refusal(provider(models={"m.1": {"context": 1}})) == (
        'c.toml: providers.local.models."m.1".context is not a known key;'
        ' the nearest one is providers.local.models."m.1".context_window'
    )


def test_a_key_written_into_the_file_is_refused_and_never_repeated() -> None:
    literal, as_name = refusal(provider(api_key="sk-1")), refusal(provider(api_key_env="sk-1"))
    assert "api_key_env" in literal
    assert "providers.local.api_key_env must be the name of an environment variable" in as_name
    assert "sk-1" not in literal + as_name


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "Cookie"])
def test_a_header_that_is_a_credential_is_refused_in_a_file_and_never_repeated(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "config.toml").write_text(
        '[providers.local]\nprotocol = "openai-chat"\nbase_url = "http://h"\n'
        f'headers = {{ "{name}" = "Bearer sk-1" }}\n'
    )
    env = {"PERDURE_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path)}
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, env)
    assert f"providers.local.headers.{name} holds a credential" in str(refused.value)
    assert "sk-1" not in str(refused.value)


def test_a_program_may_give_a_header_that_is_a_credential() -> None:
    config = from_mapping(provider(headers={"x-api-key": "sk-1"}))
    assert config.providers["local"].headers == {"x-api-key": "sk-1"}
    assert "sk-1" not in repr(config)


def test_headers_do_not_show_in_the_repr_of_a_provider() -> None:
    config = given_config(provider(headers={"X-Tenant": "quiet"}))
    assert "quiet" not in repr(config)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"model": "qwen3"}, 'model must be "provider/model"'),
        ({"model": 3}, 'model must be "provider/model"'),
        ({"model": "/qwen3"}, 'model must be "provider/model"'),
        ({"model": "local/"}, 'model must be "provider/model"'),
        ({"timezone": "Mars/Olympus"}, "timezone must be the name of a time zone"),
        ({"timezone": "../etc/passwd"}, "timezone must be the name of a time zone"),
        ({"timezone": "Europe"}, "timezone must be the name of a time zone"),
        ({"timezone": ""}, "timezone must be text"),
        ({"step_limit": 0}, "step_limit must be a whole number from 1"),
        ({"step_limit": True}, "step_limit must be a whole number from 1"),
        ({"step_limit": 1.5}, "step_limit must be a whole number from 1"),
        ({"providers": []}, "providers must be a table"),
        ({"providers": {"a b": {}}}, 'providers."a b" is not a usable name'),
        ({"providers": {"a/b": {}}}, 'providers."a/b" is not a usable name'),
        ({"providers": {"a\n": {}}}, r'providers."a\n" is not a usable name'),
        ({"providers": {"x": {}}}, f"providers.x needs protocol: one of {PROTOCOLS}"),
        ({"providers": {"x": {"protocol": "anthropic"}}}, "providers.x needs base_url"),
        ({"permissions": {"shell": "maybe"}}, "must be one of allow, ask, deny, not 'maybe'"),
        ({"permissions": {"shell": True}}, "permissions.shell must be one of allow, ask, deny"),
        ({"permissions": {"shell": {"a": 1}}}, "permissions.shell.a must be one of allow, ask"),
        ({"permissions": {"shell": {" ": "ask"}}}, "it must be a pattern that is not empty"),
        ({"instructions": {"project": 1}}, "instructions.project must be true or false"),
        ({"tools": {"allowed_paths": "/srv"}}, "tools.allowed_paths must be a list"),
        ({"tools": {"allowed_paths": ["srv"]}}, "tools.allowed_paths must list paths that begin"),
        ({"tools": {"allowed_paths": [3]}}, "tools.allowed_paths must list paths that begin"),
        ({3: 4}, "must have only text as keys"),
        ([], "the whole of it must be a table"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(mapping: Any, words: str) -> None:
    message = refusal(mapping)
    assert message.startswith("c.toml: ")
    assert words in message
    assert message.isprintable()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"protocol": "morse"}, f"must be one of {PROTOCOLS}, not 'morse'"),
        ({"base_url": "ftp://h"}, "must be an http or https address"),
        ({"base_url": "http://"}, "must be an http or https address"),
        ({"base_url": "http://h:port"}, "must be an http or https address"),
        ({"base_url": "http://h/a b"}, "must be an http or https address"),
        ({"base_url": "http://[::1"}, "must be an http or https address"),
        ({"base_url": "http://h\n/"}, "must be text on one line"),
        ({"base_url": "http://ada:pw@h"}, "must hold no user, password"),
        ({"base_url": "http://h/?key=pw"}, "must hold no user, password"),
        ({"connect_timeout": 0}, "must be a number of seconds"),
        ({"connect_timeout": float("nan")}, "must be a number of seconds"),
        ({"silence_timeout": float("inf")}, "must be a number of seconds"),
        ({"silence_timeout": "10"}, "must be a number of seconds"),
        ({"attempt_timeout": -1}, "must be a number of seconds"),
        ({"headers": {"a b": "c"}}, "must be the name of an HTTP header"),
        ({"headers": {"a": "c\r\nd: e"}}, "must be printable ASCII text"),
        ({"models": {"a b": {}}}, "is not a usable name"),
        ({"models": {"m": {"system_messages": "both"}}}, "must be one of native, wrapped"),
        ({"models": {"m": {"images": "yes"}}}, "must be true or false"),
        ({"models": {"m": {"parameters": {"messages": []}}}}, "is set by Perdure itself"),
        ({"models": {"m": {"parameters": {"\n": 1}}}}, "must be printable text"),
    ],
)
def test_a_wrong_setting_of_a_provider_is_named(settings: dict[str, object], words: str) -> None:
    message = refusal(provider(**settings))
    assert message.startswith("c.toml: providers.local.")
    assert words in message
    assert "pw" not in message


@pytest.mark.parametrize(
    "value",
    [float("nan"), datetime.date(2026, 1, 1), {"a": {1: 2}}, "\udcff", {"a": object()}],
)
def test_a_parameter_that_is_no_json_is_refused(value: object) -> None:
    message = refusal(provider(models={"m": {"parameters": {"p": value}}}))
    assert "providers.local.models.m.parameters.p must be JSON data" in message


def test_a_parameter_whose_digits_python_will_not_write_is_refused() -> None:
    message = refusal(provider(models={"m": {"parameters": {"p": 10**5000}}}))
    assert "must be JSON data" in message


def test_a_well_known_provider_needs_no_address() -> None:
    config = given_config({"providers": {"anthropic": {"models": {"claude-opus-5": {}}}}})
    known = config.providers["anthropic"]
    assert (known.protocol, known.api_key_env) == ("anthropic", "ANTHROPIC_API_KEY")
    assert known.base_url == "https://api.anthropic.com"
    assert list(known.models) == ["claude-opus-5"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
keys = st.sampled_from(
    [
        "model",
        "timezone",
        "step_limit",
        "providers",
        "permissions",
        "instructions",
        "tools",
        "plugins",
        "x",
    ]
)


@given(st.dictionaries(keys, anything, max_size=4))
def test_whatever_is_given_becomes_a_configuration_or_a_one_line_error(
    mapping: dict[str, object],
) -> None:
    problem = ""
    try:
        given_config(mapping)
    except ConfigurationError as error:
        problem = str(error)
    assert problem.isprintable()
