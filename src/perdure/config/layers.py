"""From tables as files hold them to one Config: every layer is checked, then laid over the last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from perdure.config import values
from perdure.config.known import KNOWN
from perdure.config.reading import Reader, Where, as_table, dotted, each, table, unknown
from perdure.config.schema import (
    Config,
    Ignored,
    InstructionOptions,
    McpServer,
    ModelConfig,
    OnMove,
    Permission,
    PluginOptions,
    Price,
    ProtocolName,
    ProviderConfig,
    Rule,
    ToolOptions,
)
from perdure.errors import ConfigurationError
from perdure.history.content import Form

Keys = tuple[str, ...]

_MODEL = table(
    {
        "context_window": values.count,
        "max_output": values.count,
        "system_messages": values.one_of(*get_args(Form)),
        "images": values.flag,
        "parameters": each(values.any_name, values.parameter),
        "price": table(dict.fromkeys(Price.__struct_fields__, values.dollars)),
    }
)
_PROTOCOLS = get_args(ProtocolName)
_PROVIDER = table(
    {
        "protocol": values.one_of(*_PROTOCOLS),
        "base_url": values.base_url,
        "api_key_env": values.environment_name,
        "headers": each(values.header_name, values.header),
        "connect_timeout": values.seconds,
        "silence_timeout": values.seconds,
        "attempt_timeout": values.seconds,
        "cache_diagnostics": values.flag,
        "models": each(values.model_name, _MODEL),
    }
)
_MCP = table(
    {
        "command": values.text,
        "args": values.arguments,
        "env": values.environment_names,
        "url": values.server_url,
        "token_env": values.environment_name,
        "timeout": values.seconds,
        "disabled": values.flag,
        "tools": values.arguments,
    }
)
_FIELDS: Mapping[str, Reader] = {
    "model": values.model_reference,
    "timezone": values.timezone,
    "step_limit": values.count,
    "on_move": values.one_of(*get_args(OnMove)),
    "titles": values.flag,
    "providers": each(values.provider_name, _PROVIDER),
    "permissions": each(values.tool_pattern, values.rules),
    "instructions": table({"project": values.flag, "claude_md": values.flag}),
    "tools": table({"allowed_paths": values.directories, "allowed_hosts": values.hosts}),
    "plugins": table({"paths": values.files, "disabled": values.plugin_names}),
    "mcp": each(values.server_name, _MCP),
}
_NEEDED = {
    "protocol": f"one of {', '.join(_PROTOCOLS)}",
    "base_url": "the http or https address where it answers",
}
_HARMLESS = frozenset({"model", "timezone", "titles", "instructions"})
"""The keys that a project may set before it is trusted: they redirect no key and run nothing."""


class Layer(msgspec.Struct, frozen=True):
    """The checked content of one file, and the keys in it that do not count."""

    file: str
    content: dict[str, Any]
    ignored: tuple[Ignored, ...] = ()


def protected(content: Mapping[str, object]) -> frozenset[str]:
    """Return the keys in a project's own file that count only after trust."""
    return frozenset(content) & (frozenset(_FIELDS) - _HARMLESS)


def layer(
    content: object,
    file: str,
    env: Mapping[str, str],
    *,
    trusted: bool = True,
    directory: Path | None = None,
) -> Layer:
    """Check what one file says; raise ConfigurationError for a wrong key or value.

    Where `trusted` is False, the protected keys are left out, unread, and listed. Paths may be
    relative to the `directory` that the file lies in.
    """
    where = Where(file, env, directory=directory)
    found = as_table(content, where)
    for key in found:
        if key not in _FIELDS:
            raise unknown(where.at(key), _FIELDS)
    left_out = frozenset[str]() if trusted else protected(found)
    return Layer(
        file,
        {key: _FIELDS[key](found[key], where.at(key)) for key in found if key not in left_out},
        tuple(Ignored(file, key) for key in found if key in left_out),
    )


def combine(layers: Sequence[Layer]) -> Config:
    """Lay each layer over the ones before it: tables merge, everything else replaces.

    Raises ConfigurationError for a provider that no layer describes whole.
    """
    merged: dict[str, Any] = {}
    files: dict[Keys, str] = {}
    for each_layer in layers:
        merged = _merge(merged, each_layer.content)
        files.update(dict.fromkeys(_leaves(each_layer.content), each_layer.file))
    origins = {keys: files[keys] for keys in _leaves(merged)}
    return Config(
        model=merged.get("model"),
        timezone=merged.get("timezone"),
        step_limit=merged.get("step_limit", 100),
        on_move=merged.get("on_move", "epoch"),
        titles=merged.get("titles"),
        providers=_providers(merged.get("providers", {}), origins),
        permissions=tuple(rule for each_layer in layers for rule in _rules(each_layer)),
        instructions=InstructionOptions(**merged.get("instructions", {})),
        tools=ToolOptions(**merged.get("tools", {})),
        plugins=PluginOptions(**merged.get("plugins", {})),
        mcp=_mcp(merged.get("mcp", {}), origins),
        origins={dotted(keys): file for keys, file in origins.items()},
        ignored=tuple(ignored for each_layer in layers for ignored in each_layer.ignored),
    )


def _rules(of: Layer) -> Iterator[Rule]:
    tools: dict[str, Permission | dict[str, Permission]] = of.content.get("permissions", {})
    for tool, given in tools.items():
        if isinstance(given, dict):
            yield from (Rule(tool, *each, of.file) for each in given.items())
        else:
            yield Rule(tool, "*", given, of.file)


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    return {**under, **{key: _laid(under.get(key), value) for key, value in over.items()}}


def _laid(under: object, over: object) -> object:
    if isinstance(under, dict) and isinstance(over, dict):
        return _merge(cast("dict[str, Any]", under), cast("dict[str, Any]", over))
    return over


def _leaves(content: Mapping[str, Any], above: Keys = ()) -> Iterator[Keys]:
    for key, value in content.items():
        keys = (*above, key)
        if isinstance(value, dict) and value:
            yield from _leaves(cast("dict[str, Any]", value), keys)
        else:
            yield keys


def _providers(
    tables: Mapping[str, dict[str, Any]], origins: Mapping[Keys, str]
) -> dict[str, ProviderConfig]:
    return {name: _provider(name, given, origins) for name, given in tables.items()}


def _provider(name: str, given: dict[str, Any], origins: Mapping[Keys, str]) -> ProviderConfig:
    settings = _known(name) | given
    here = ("providers", name)
    settings["models"] = {
        model: _model(fields, (*here, "models", model), origins)
        for model, fields in given.get("models", {}).items()
    }
    for needed, meaning in _NEEDED.items():
        if needed not in settings:
            raise _at(here, origins).error(f"needs {needed}: {meaning}")
    if settings.get("cache_diagnostics") and settings["protocol"] != "anthropic":
        only = 'is known to the protocol "anthropic" alone; remove it'
        raise _at((*here, "cache_diagnostics"), origins).error(only)
    return ProviderConfig(**settings)


def _model(fields: dict[str, Any], here: Keys, origins: Mapping[Keys, str]) -> ModelConfig:
    if "price" in fields:
        fields = fields | {"price": _price(fields["price"], (*here, "price"), origins)}
    return ModelConfig(**fields)


def _price(given: dict[str, float], here: Keys, origins: Mapping[Keys, str]) -> Price:
    for needed in ("input", "output"):
        if needed not in given:
            raise _at(here, origins).error(f"needs {needed}: US dollars per million tokens")
    # Who names no price of the cache pays for it as for all other input.
    return Price(**{"cache_read": given["input"], "cache_write": given["input"]} | given)


def _at(here: Keys, origins: Mapping[Keys, str]) -> Where:
    """Return a place in one of the files that say something about it."""
    return Where(next(origins[keys] for keys in origins if keys[: len(here)] == here), {}, here)


def _mcp(tables: Mapping[str, dict[str, Any]], origins: Mapping[Keys, str]) -> dict[str, McpServer]:
    return {name: _mcp_server(name, given, origins) for name, given in tables.items()}


def _mcp_server(name: str, given: dict[str, Any], origins: Mapping[Keys, str]) -> McpServer:
    def wrong(problem: str) -> ConfigurationError:
        return _at(("mcp", name), origins).error(problem)

    if ("command" in given) == ("url" in given):
        raise wrong("needs either command, a program to run, or url, an address; not both")
    useless = {"token_env"} if "command" in given else {"args", "env"}
    for key in sorted(useless & given.keys()):
        raise wrong(f"has {key}, which goes with {'url' if key == 'token_env' else 'command'} only")
    return McpServer(**given)


def _known(name: str) -> dict[str, Any]:
    known = KNOWN.get(name)
    if known is None:
        return {}
    return {
        "protocol": known.protocol,
        "base_url": known.base_url,
        "api_key_env": known.api_key_env,
    }
