"""From configuration and environment to the provider and model that a step uses."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from perdure.config.known import KNOWN
from perdure.config.location import shown
from perdure.config.paths import config_dir
from perdure.config.schema import Config, ProviderConfig
from perdure.errors import NoProvider, UnknownModel, UnknownProvider
from perdure.models.catalog import profile
from perdure.models.diagnosis import asking
from perdure.models.discovery import Found, discover
from perdure.models.prices import Tariff, tariff_of
from perdure.models.transport import is_loopback
from perdure.models.types import Endpoint, ModelProfile

DEFAULT_MODELS: Mapping[str, str] = {
    "anthropic": "claude-opus-5-5",
    "openai": "gpt-6.1-sol",
    "gemini": "gemini-4-argon",
}
"""The model for each vendor whose key is enough, in the order in which they are chosen."""

_NO_PROVIDER = (
    "no model provider is configured; name one with `-m provider/model` and a [providers.NAME] "
    "table in the configuration ({}, or that which a program gives), set ANTHROPIC_API_KEY, "
    "OPENAI_API_KEY or GEMINI_API_KEY, or start a local server such as Ollama"
)


class Selected(msgspec.Struct, frozen=True):
    """A provider and model ready for use. `name` is `provider/model`."""

    name: str
    endpoint: Endpoint
    profile: ModelProfile


class Models:
    """The providers that a configuration and an environment give.

    `env` is read for keys, which stay in memory. `look` finds the model servers on this machine.
    """

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        look: Callable[[], Awaitable[Sequence[Found]]] = discover,
    ) -> None:
        self._config = config
        self._env = env
        self._look = look
        self._providers = {**KNOWN, **config.providers}

    @property
    def providers(self) -> Mapping[str, ProviderConfig]:
        """Every provider by name, with a key or without."""
        return self._providers

    def select(self, name: str) -> Selected:
        """Return what `provider/model` means; everything behind the first slash is the model.

        Raises UnknownProvider, naming the nearest one, UnknownModel where there is no model name,
        and NoProvider where the provider's key is not in the environment.
        """
        provider, config = self._provider_of(name)
        return Selected(name, self._endpoint(provider, config), self.profile(name))

    def profile(self, name: str) -> ModelProfile:
        """Return what is known of `provider/model`; needs no key.

        Raises UnknownProvider and UnknownModel.
        """
        provider, config = self._provider_of(name)
        model = name.partition("/")[2]
        configured = config.models.get(model)
        known = profile(provider, model, config.base_url, config.protocol, configured)
        asks = config.cache_diagnostics
        return replace(known, parameters=asking(known.parameters)) if asks else known

    def _provider_of(self, name: str) -> tuple[str, ProviderConfig]:
        provider, slash, model = name.partition("/")
        if not (slash and provider and model):
            raise UnknownModel(f"{name!r} names no model; write `provider/model`")
        config = self._providers.get(provider)
        if config is None:
            raise UnknownProvider(self._unknown(provider))
        return provider, config

    def has_key(self, provider: str) -> bool:
        """Say whether a provider's key is in the environment, or none is needed."""
        config = self._providers[provider]
        needed = config.api_key_env and not is_loopback(config.base_url)
        return not needed or self._key(config) is not None

    def tariff(
        self, name: str, when: datetime, parameters: Mapping[str, Any] = {}
    ) -> Tariff | None:
        """Return what `provider/model` cost at a moment; None where nobody knows. Needs no key."""
        provider, _, model = name.partition("/")
        config = self._providers.get(provider)
        return None if config is None else tariff_of(model, config, when, parameters)

    async def choose(self) -> Selected:
        """Return the model to use where the caller names none.

        The configured one, else that of the first vendor whose key is set, else the first model of
        a configured provider, else the first one that a server on this machine offers. Raises
        NoProvider where there is none of these.
        """
        if name := self._configured():
            return self.select(name)
        without_model: list[str] = []
        for found in await self._look():
            if found.models:
                return self._offered(found)
            without_model.append(f"; {found.name} is running but has no model yet")
        file = shown(config_dir(self._env) / "config.toml")
        raise NoProvider(_NO_PROVIDER.format(file) + "".join(without_model))

    def _offered(self, found: Found) -> Selected:
        """Return the first model of a server, where it was found."""
        usual = self._providers.get(found.name) or ProviderConfig("openai-chat", found.base_url)
        self._providers[found.name] = replace(usual, base_url=found.base_url)
        return self.select(f"{found.name}/{found.models[0]}")

    def _configured(self) -> str | None:
        if self._config.model:
            return self._config.model
        for vendor, model in DEFAULT_MODELS.items():
            if self._key(self._providers[vendor]):
                return f"{vendor}/{model}"
        for provider, config in self._config.providers.items():
            for model in config.models:
                return f"{provider}/{model}"
        return None

    def _endpoint(self, provider: str, config: ProviderConfig) -> Endpoint:
        key = self._key(config)
        if not self.has_key(provider):
            raise NoProvider(
                f"provider {provider} needs its key in the environment variable "
                f"{config.api_key_env}, which is not set; set it, or choose another model with -m"
            )
        return Endpoint(
            provider=provider,
            protocol=config.protocol,
            base_url=config.base_url,
            api_key=key,
            headers=config.headers,
            connect_timeout=config.connect_timeout,
            silence_timeout=config.silence_timeout,
            attempt_timeout=config.attempt_timeout,
            api_key_env=config.api_key_env or "",
        )

    def _key(self, config: ProviderConfig) -> str | None:
        key = self._env.get(config.api_key_env, "") if config.api_key_env else ""
        # A key read from a file often ends with a line break, which no header can carry.
        return key.strip() or None

    def _unknown(self, provider: str) -> str:
        known = ", ".join(sorted(self._providers))
        near = difflib.get_close_matches(provider, self._providers, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"there is no provider {provider!r}; {hint}known are: {known}"
