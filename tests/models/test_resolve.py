"""Which provider and model a step uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from perdure.config.schema import Config, ModelConfig, ProviderConfig
from perdure.errors import NoProvider, UnknownModel, UnknownProvider
from perdure.models.discovery import Found
from perdure.models.resolve import DEFAULT_MODELS, Models

pytestmark = pytest.mark.anyio

LOCAL = ProviderConfig(
    "openai-chat",
    "http://127.0.0.1:9/v1",
    "LOCAL_KEY",
    {"X-Team": "blue"},
    connect_timeout=3.0,
    models={"qwen3": ModelConfig(context_window=8192, system_messages="native")},
)
REMOTE = ProviderConfig("anthropic", "https://models.example.com", "REMOTE_KEY")


def models(
    env: Mapping[str, str] | None = None,
    found: Sequence[Found] = (),
    model: str | None = None,
    **providers: ProviderConfig,
) -> Models:
    async def look() -> Sequence[Found]:
        return found

    return Models(Config(model=model, providers=providers), env or {}, look)


def test_a_configured_provider_gives_endpoint_and_profile() -> None:
    selected = models({"LOCAL_KEY": "k"}, local=LOCAL).select("local/qwen3")
    endpoint = selected.endpoint
    assert selected.name == "local/qwen3"
    assert (endpoint.provider, endpoint.protocol) == ("local", "openai-chat")
    assert (endpoint.base_url, endpoint.api_key) == ("http://127.0.0.1:9/v1", "k")
    assert (endpoint.api_key_env, endpoint.headers) == ("LOCAL_KEY", {"X-Team": "blue"})
    assert endpoint.connect_timeout == 3.0
    assert selected.profile.model == "qwen3"
    assert selected.profile.context_window == 8192
    assert selected.profile.system_messages == "native"


def test_everything_behind_the_first_slash_is_the_model() -> None:
    selected = models(local=LOCAL).select("local/org/model:7b/x")
    assert selected.profile.model == "org/model:7b/x"


@pytest.mark.parametrize("name", ["", "local", "local/", "/qwen3"])
def test_a_name_without_provider_or_model_is_refused(name: str) -> None:
    with pytest.raises(UnknownModel, match="names no model; write `provider/model`"):
        models(local=LOCAL).select(name)


def test_an_unknown_provider_names_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(UnknownProvider) as caught:
        models(local=LOCAL).select("antropic/claude-opus-5")
    assert str(caught.value) == (
        "there is no provider 'antropic'; did you mean anthropic?"
        " known are: anthropic, gemini, llamacpp, lmstudio, local, ollama, openai, vllm"
    )


def test_a_vendor_needs_its_key_and_no_configuration() -> None:
    selected = models({"ANTHROPIC_API_KEY": "k\n"}).select("anthropic/claude-opus-5")
    assert selected.endpoint.base_url == "https://api.anthropic.com"
    assert selected.endpoint.api_key == "k"
    with pytest.raises(NoProvider, match="ANTHROPIC_API_KEY, which is not set"):
        models({"ANTHROPIC_API_KEY": " "}).select("anthropic/claude-opus-5")


def test_a_server_on_this_machine_needs_no_key() -> None:
    assert models(local=LOCAL).select("local/qwen3").endpoint.api_key is None
    assert models().select("ollama/qwen3").endpoint.base_url == "http://127.0.0.1:11434/v1"
    with pytest.raises(NoProvider, match="REMOTE_KEY"):
        models(remote=REMOTE).select("remote/m")


async def test_the_configured_model_comes_first() -> None:
    given = models({"OPENAI_API_KEY": "k"}, model="local/qwen3", local=LOCAL)
    assert (await given.choose()).name == "local/qwen3"


async def test_then_comes_the_vendor_whose_key_is_set() -> None:
    given = models({"OPENAI_API_KEY": "k"}, local=LOCAL)
    assert (await given.choose()).name == f"openai/{DEFAULT_MODELS['openai']}"
    gemini = await models({"GEMINI_API_KEY": "k"}, local=LOCAL).choose()
    assert gemini.name == f"gemini/{DEFAULT_MODELS['gemini']}"
    assert gemini.endpoint.protocol == "gemini"
    both = models({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})
    assert (await both.choose()).name == f"anthropic/{DEFAULT_MODELS['anthropic']}"


async def test_the_default_models_are_known_to_the_catalog() -> None:
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}
    for vendor, model in DEFAULT_MODELS.items():
        profile = models(keys).select(f"{vendor}/{model}").profile
        assert profile.known
        # Gemini has no role for them.
        assert profile.system_messages == ("wrapped" if vendor == "gemini" else "native")


async def test_then_comes_a_configured_model_and_then_a_server_that_was_found() -> None:
    found = [Found("ollama", "http://127.0.0.1:7/v1", ("llama3:8b", "other"))]
    assert (await models(found=found, local=LOCAL).choose()).name == "local/qwen3"
    selected = await models(found=found).choose()
    assert selected.name == "ollama/llama3:8b"
    assert selected.endpoint.base_url == "http://127.0.0.1:7/v1"


async def test_a_server_without_a_model_is_passed_over() -> None:
    found = [
        Found("ollama", "http://127.0.0.1:7/v1", ()),
        Found("vllm", "http://127.0.0.1:8/v1", ("m",)),
    ]
    assert (await models(found=found).choose()).name == "vllm/m"
    with pytest.raises(NoProvider, match="ollama is running but has no model yet"):
        await models(found=found[:1]).choose()


async def test_without_any_provider_the_message_names_the_three_ways() -> None:
    with pytest.raises(NoProvider) as caught:
        await models().choose()
    for way in ("`-m provider/model`", "[providers.NAME]", "ANTHROPIC_API_KEY", "Ollama"):
        assert way in str(caught.value)
    assert str(caught.value).isprintable()
