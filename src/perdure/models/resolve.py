"""From configuration and environment to the provider and model that a step uses."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from perdure.config.schema import Config, ProviderConfig
from perdure.errors import NoProvider, UnknownModel, UnknownProvider
from perdure.models.catalog import Overrides, profile
from perdure.models.discovery import SERVERS, Found, discover
from perdure.models.types import Endpoint, ModelProfile


class Vendor(msgspec.Struct, frozen=True):
    """A provider that needs no configuration but its key; `model` is used when none is chosen."""

    name: str
    config: ProviderConfig
    model: str


VENDORS = (
    Vendor(
        "anthropic",
        ProviderConfig("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        "claude-opus-5",
    ),
    Vendor(
        "openai",
        ProviderConfig("openai-chat", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        "gpt-5.6",
    ),
)
"""In the order in which they are chosen where nobody chose."""

NO_PROVIDER = (
    "no model provider is configured; name one with `-m provider/model` and a [providers.NAME] "
    "table in the configuration, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start a local server "
    "such as Ollama"
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
        self._providers = {**_builtin(), **config.providers}

    @property
    def providers(self) -> Mapping[str, ProviderConfig]:
        """Every provider by name, with a key or without."""
        return self._providers

    def select(self, name: str) -> Selected:
        """Return what `provider/model` means; everything behind the first slash is the model.

        Raises UnknownProvider, naming the nearest one, UnknownModel where there is no model name,
        and NoProvider where the provider's key is not in the environment.
        """
        provider, slash, model = name.partition("/")
        if not (slash and provider and model):
            raise UnknownModel(f"{name!r} names no model; write `provider/model`")
        config = self._providers.get(provider)
        if config is None:
            raise UnknownProvider(self._unknown(provider))
        settings = config.models.get(model)
        overrides = Overrides(**msgspec.structs.asdict(settings)) if settings else None
        return Selected(
            name,
            self._endpoint(provider, config),
            profile(provider, model, config.base_url, config.protocol, overrides),
        )

    async def choose(self) -> Selected:
        """Return the model to use where the caller names none.

        The configured one, else that of the first vendor whose key is set, else the first model of
        a configured provider, else the first one that a server on this machine offers. Raises
        NoProvider where there is none of these.
        """
        if name := self._configured():
            return self.select(name)
        for found in await self._look():
            if found.models:
                return self.select(f"{found.name}/{found.models[0]}")
        raise NoProvider(NO_PROVIDER)

    def _configured(self) -> str | None:
        if self._config.model:
            return self._config.model
        for vendor in VENDORS:
            if self._key(vendor.config):
                return f"{vendor.name}/{vendor.model}"
        for provider, config in self._config.providers.items():
            for model in config.models:
                return f"{provider}/{model}"
        return None

    def _endpoint(self, provider: str, config: ProviderConfig) -> Endpoint:
        key = self._key(config)
        if config.api_key_env and not key and not _is_local(config):
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
            api_key_env=config.api_key_env or "",
        )

    def _key(self, config: ProviderConfig) -> str | None:
        return (self._env.get(config.api_key_env) or None) if config.api_key_env else None

    def _unknown(self, provider: str) -> str:
        known = ", ".join(sorted(self._providers))
        near = difflib.get_close_matches(provider, self._providers, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"there is no provider {provider!r}; {hint}known are: {known}"


def _builtin() -> dict[str, ProviderConfig]:
    """Return the providers that are there without configuration: vendors and local servers."""
    local = {
        server.name: ProviderConfig("openai-chat", f"{server.base_url}/v1") for server in SERVERS
    }
    return {**{vendor.name: vendor.config for vendor in VENDORS}, **local}


def _is_local(config: ProviderConfig) -> bool:
    """Tell whether a provider is on this machine, where a key is often named but not needed."""
    host = urlsplit(config.base_url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")
