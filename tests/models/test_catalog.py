"""What is known of a model before anything is asked."""

from __future__ import annotations

import pytest

from perdure.config.schema import ModelConfig
from perdure.errors import ConfigurationError
from perdure.history.content import Form
from perdure.models.catalog import is_own, profile
from perdure.models.openai_responses import STATELESS
from perdure.models.types import ModelProfile
from perdure.testing.anthropic_models import system_entries

ANTHROPIC = "https://api.anthropic.com"
OPENAI = "https://api.openai.com/v1"
LOCAL = "http://127.0.0.1:11434/v1"

CLAUDES = [
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-opus-5-5",
    "claude-opus-5-5-20261014",
    "claude-fable-5",
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-mythos-5",
    "claude-mythos-5-2",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-haiku-5-5-20261001",
    "claude-sonnet-5",
    "claude-opus-4-7",
    "claude-opus-4-5-20251101",
    "claude-sonnet-4-6",
    "claude-haiku-4-5",
    "claude-mythos-preview",
    "claude-3-5-haiku-latest",
    "claude-opus-6",
    "claude-opus-50",
]


def known(
    model: str, base_url: str, protocol: str, given: ModelConfig | None = None
) -> ModelProfile:
    return profile("acme", model, base_url, protocol, given)


def form(model: str, base_url: str, protocol: str) -> Form:
    return known(model, base_url, protocol).system_messages


IMAGES = [
    ("claude-opus-5-5", ANTHROPIC, "anthropic", True),
    ("claude-opus-6", ANTHROPIC, "anthropic", True),
    ("gpt-6.1-sol", OPENAI, "openai-responses", True),
    ("o3", OPENAI, "openai-chat", True),
    ("gpt-4o-mini", OPENAI, "openai-chat", True),
    ("gpt-8", OPENAI, "openai-responses", True),
    ("o3-mini", OPENAI, "openai-responses", False),
    ("o3-mini-2025-01-31", OPENAI, "openai-chat", False),
    ("o1-mini", OPENAI, "openai-chat", False),
    ("gpt-3.5-turbo-0125", OPENAI, "openai-chat", False),
    ("gpt-4", OPENAI, "openai-chat", False),
    ("gpt-4-turbo", OPENAI, "openai-chat", True),
    ("gemini-4-argon", "https://generativelanguage.googleapis.com/v1beta", "gemini", True),
    ("qwen3", LOCAL, "openai-chat", False),
    ("qwen2.5vl:7b", LOCAL, "openai-chat", True),
    ("qwen3-vl", LOCAL, "openai-chat", True),
    ("gemma3:12b", LOCAL, "openai-chat", True),
    ("gemma3:1b", LOCAL, "openai-chat", False),
    ("gemma3n:e4b", LOCAL, "openai-chat", False),
    ("llama3.2-vision", LOCAL, "openai-chat", True),
    ("llama3.2", LOCAL, "openai-chat", False),
    ("llava:13b", LOCAL, "openai-chat", True),
    ("gpt-oss:20b", LOCAL, "openai-chat", False),
    ("deepseek-v4", LOCAL, "openai-chat", False),
    ("o3-mini", "https://gateway.example.com/v1", "openai-chat", False),
    ("openai/gpt-5.2", "https://gateway.example.com/v1", "openai-chat", True),
    ("anthropic/claude-sonnet-5", "https://gateway.example.com/v1", "openai-chat", True),
    ("glm-5", "https://gateway.example.com", "anthropic", False),
]


@pytest.mark.parametrize(("model", "url", "protocol", "images"), IMAGES)
def test_whether_a_model_takes_images_is_known_by_its_name(
    model: str, url: str, protocol: str, images: bool
) -> None:
    assert known(model, url, protocol).images is images


@pytest.mark.parametrize("images", [True, False])
def test_the_user_says_whether_a_model_takes_images(images: bool) -> None:
    given = ModelConfig(images=images)
    assert known("qwen3", LOCAL, "openai-chat", given).images is images
    assert known("gpt-6.1-sol", OPENAI, "openai-responses", given).images is images


@pytest.mark.parametrize("model", CLAUDES)
def test_the_forms_at_anthropic_are_those_that_its_models_obey(model: str) -> None:
    # The strict provider has its own table, made from the documentation independently.
    expected = "native" if system_entries(model) == "native" else "wrapped"
    assert form(model, ANTHROPIC, "anthropic") == expected


@pytest.mark.parametrize(
    "url", [LOCAL, "https://gateway.example.com", "https://api.anthropic.com.x"]
)
def test_a_compatible_vendor_gets_wrapped_messages(url: str) -> None:
    assert form("claude-opus-5", url, "anthropic") == "wrapped"
    assert form("gpt-6.1-sol", url, "openai-chat") == "wrapped"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-6.1-sol", "native"),
        ("gpt-6-luna", "native"),
        ("gpt-5.6-terra", "native"),
        ("gpt-5", "native"),
        ("gpt-5.4-2026-03-05", "native"),
        ("gpt-5.2-chat-latest", "native"),
        ("gpt-4.1-mini", "native"),
        ("gpt-4o", "native"),
        ("o3", "native"),
        ("o1-mini", "wrapped"),
        ("gpt-4", "wrapped"),
        ("gpt-3.5-turbo", "wrapped"),
        ("novel", "wrapped"),
    ],
)
def test_the_forms_at_openai(model: str, expected: str) -> None:
    assert form(model, OPENAI, "openai-chat") == expected


@pytest.mark.parametrize(
    ("model", "url", "protocol", "window", "output", "is_known"),
    [
        ("claude-opus-5-5", ANTHROPIC, "anthropic", 1_000_000, 128_000, True),
        ("claude-haiku-4-5", ANTHROPIC, "anthropic", 200_000, 64_000, True),
        ("claude-haiku-4-5", LOCAL, "anthropic", 200_000, 64_000, True),
        ("claude-novel-9", ANTHROPIC, "anthropic", 200_000, 32_000, False),
        ("glm-9", LOCAL, "anthropic", 32_768, 4_096, False),
        ("gpt-6.1-sol", OPENAI, "openai-chat", 1_050_000, 128_000, True),
        ("gpt-4o-mini", OPENAI, "openai-chat", 128_000, 16_384, True),
        ("novel", OPENAI, "openai-chat", 128_000, 16_384, False),
        ("qwen3", LOCAL, "openai-chat", 32_768, 4_096, False),
        ("gpt-6.1-sol", LOCAL, "openai-chat", 32_768, 4_096, False),
    ],
)
def test_window_and_output_limit_are_those_of_the_table_or_conservative(
    model: str, url: str, protocol: str, window: int, output: int, is_known: bool
) -> None:
    found = known(model, url, protocol)
    assert (found.context_window, found.max_output) == (window, output)
    assert found.known is is_known


def test_configuration_wins_over_the_catalog() -> None:
    given = ModelConfig(1000, 900, "wrapped", {"temperature": 0.5})
    found = known("claude-opus-5", ANTHROPIC, "anthropic", given)
    assert (found.context_window, found.max_output) == (1000, 900)
    assert found.system_messages == "wrapped"
    assert found.parameters == {"temperature": 0.5}
    assert known(
        "x", LOCAL, "anthropic", ModelConfig(system_messages="native")
    ).system_messages == ("native")


def test_a_small_configured_window_leaves_room_for_the_question() -> None:
    assert known("qwen3", LOCAL, "openai-chat", ModelConfig(2048)).max_output == 1024


def test_openais_own_conventions_are_not_tried_on_others() -> None:
    own = {"output_limit": "max_completion_tokens", "system_role": "developer", "cache_key": True}
    assert known("gpt-6.1-sol", OPENAI, "openai-chat").parameters == {"wire": own}
    assert known("gpt-4o", OPENAI, "openai-chat").parameters == {
        "wire": {**own, "system_role": "system"}
    }
    assert known("gpt-6.1-sol", LOCAL, "openai-chat").parameters == {}


def test_conventions_can_be_configured_one_by_one() -> None:
    given = ModelConfig(parameters={"wire": {"cache_key": False}, "seed": 1})
    assert known("gpt-6.1-sol", OPENAI, "openai-chat", given).parameters == {
        "wire": {
            "output_limit": "max_completion_tokens",
            "system_role": "developer",
            "cache_key": False,
        },
        "seed": 1,
    }


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"messages": []}, r"providers\.acme\.models\.m\.parameters\.messages is set by Perdure"),
        ({"stream": False}, r"parameters\.stream is set by Perdure itself; remove it"),
        ({"wire": {"novel": 1}}, r"providers\.acme\.models\.m\.parameters\.wire is not valid"),
        ({"wire": "x"}, r"parameters\.wire is not valid"),
    ],
)
def test_parameters_that_cannot_be_sent_are_named(
    parameters: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        known("m", LOCAL, "openai-chat", ModelConfig(parameters=parameters))


@pytest.mark.parametrize("model", ["gpt-6.1-sol", "gpt-4o", "novel"])
@pytest.mark.parametrize("url", [OPENAI, LOCAL])
def test_the_responses_protocol_itself_has_the_role_of_a_system_message(
    model: str, url: str
) -> None:
    assert form(model, url, "openai-responses") == "native"
    given = ModelConfig(system_messages="wrapped")
    assert known(model, url, "openai-responses", given).system_messages == "wrapped"


def test_only_a_model_that_reasons_is_asked_for_sealed_reasoning() -> None:
    silent = {"wire": {"encrypted_reasoning": False}}
    for model in ("gpt-4o-mini", "gpt-4.1", "gpt-5-chat-latest"):
        assert known(model, OPENAI, "openai-responses").parameters == silent
    for model, url in (("gpt-6.1-sol", OPENAI), ("novel", OPENAI), ("gpt-4o", LOCAL)):
        assert known(model, url, "openai-responses").parameters == {}


@pytest.mark.parametrize("name", sorted(STATELESS | {"input"}))
def test_what_would_leave_state_with_the_provider_cannot_be_configured(name: str) -> None:
    given = ModelConfig(parameters={name: "x"})
    with pytest.raises(ConfigurationError, match=rf"parameters\.{name} is set by Perdure itself"):
        known("m", LOCAL, "openai-responses", given)


def test_a_role_that_responses_do_not_have_is_named() -> None:
    given = ModelConfig(parameters={"wire": {"system_role": "boss"}})
    with pytest.raises(ConfigurationError, match=r"models\.m\.parameters\.wire is not valid"):
        known("m", LOCAL, "openai-responses", given)


def test_only_the_vendors_host_is_its_own() -> None:
    assert is_own("https://api.anthropic.com", "anthropic")
    assert is_own("https://eu.api.openai.com/v1", "openai-chat")
    assert not is_own("https://api.openai.com/v1", "anthropic")
    assert not is_own("https://notapi.openai.com.evil.example", "openai-chat")
    assert not is_own("", "anthropic")
