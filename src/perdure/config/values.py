"""Checks of single values: each returns the value as it is used, or raises ConfigurationError."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from perdure.config.paths import home_dir
from perdure.config.reading import Reader, Where, each
from perdure.config.schema import Permission

_PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PLUGIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_TOOL = re.compile(r"[A-Za-z0-9_.*?-]{1,128}")
_PERMISSIONS = get_args(Permission)
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SERVER = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
_HOST = re.compile(r"[A-Za-z0-9.:-]+")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CREDENTIALS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}
)
_OWN_PARAMETERS = frozenset({"model", "messages", "system", "tools", "stream"})


def text(value: object, where: Where) -> str:
    """Take printable text that is not empty."""
    if isinstance(value, str) and value.strip() and value.isprintable():
        return value
    raise where.error("must be text on one line")


def flag(value: object, where: Where) -> bool:
    """Take true or false."""
    if isinstance(value, bool):
        return value
    raise where.error("must be true or false")


def count(value: object, where: Where) -> int:
    """Take a whole number of at least 1."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1_000_000_000:
        return value
    raise where.error("must be a whole number from 1 to 1000000000")


def seconds(value: object, where: Where) -> float:
    """Take a time in seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 86_400:
        return float(value)
    raise where.error("must be a number of seconds above 0 and up to 86400")


def dollars(value: object, where: Where) -> float:
    """Take a price in US dollars; nothing is a price too."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1_000_000:
        return float(value)
    raise where.error("must be a number of US dollars from 0 to 1000000")


def one_of(*allowed: str) -> Reader:
    """Return a reader that takes one of these words."""

    def read(value: object, where: Where) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        given = f", not {value!a}" if isinstance(value, str) and len(value) <= 40 else ""
        raise where.error(f"must be one of {', '.join(allowed)}{given}")

    return read


def rules(value: object, where: Where) -> str | dict[str, str]:
    """Take one permission for all that a tool does, or a table of them by resource."""
    permission = one_of(*_PERMISSIONS)
    if isinstance(value, Mapping):
        return each(_resource, permission)(cast("object", value), where)
    if isinstance(value, str):
        return cast("str", permission(value, where))
    raise where.error(f"must be one of {', '.join(_PERMISSIONS)}, or a table of them by resource")


def _resource(key: str) -> str | None:
    return None if key.strip() and "\0" not in key else "a pattern that is not empty"


def model_reference(value: object, where: Where) -> str:
    """Take `provider/model`."""
    reference = value if isinstance(value, str) else ""
    provider, _, model = reference.partition("/")
    if _PROVIDER.fullmatch(provider) and model and model.isprintable() and " " not in model:
        return reference
    raise where.error('must be "provider/model", such as "anthropic/claude-opus-5"')


def timezone(value: object, where: Where) -> str:
    """Take the IANA name of a time zone that the host knows."""
    # Only those who configure a zone pay for the import.
    from zoneinfo import ZoneInfo

    name = text(value, where)
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise where.error(
            'must be the name of a time zone that this host knows, such as "Europe/Berlin"'
        ) from error
    return name


def base_url(value: object, where: Where) -> str:
    """Take an HTTP address without credentials, query or trailing slash.

    The value is never repeated in a message, since it may hold what should not be there.
    """
    return _address(value, where, "api_key_env").rstrip("/")


def server_url(value: object, where: Where) -> str:
    """Take the HTTP address of an MCP server, as `base_url` takes one."""
    return _address(value, where, "token_env")


def _address(value: object, where: Where, instead: str) -> str:
    from urllib.parse import urlsplit

    address = text(value, where)
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise where.error("must be an http or https address") from None
    if not usable or any(char.isspace() for char in address):
        raise where.error("must be an http or https address")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise where.error(f"must hold no user, password, query or fragment; use {instead}")
    return address


def environment_name(value: object, where: Where) -> str:
    """Take the name of an environment variable; the value is never repeated in a message."""
    if isinstance(value, str) and _ENVIRONMENT.fullmatch(value):
        return value
    raise where.error("must be the name of an environment variable, not the key itself")


def environment_names(value: object, where: Where) -> tuple[str, ...]:
    """Take a list of names of environment variables."""
    if not isinstance(value, (list, tuple)):
        raise where.error("must be a list of names of environment variables")
    return tuple(environment_name(name, where) for name in cast("list[object]", value))


def arguments(value: object, where: Where) -> tuple[str, ...]:
    """Take a list of texts."""
    listed = cast("list[object]", value) if isinstance(value, (list, tuple)) else [None]
    if all(isinstance(each, str) and "\0" not in each for each in listed):
        return tuple(cast("list[str]", listed))
    raise where.error("must be a list of texts")


def header(value: object, where: Where) -> str:
    """Take the value of an HTTP header; in a file it must be no credential."""
    if where.directory is not None and where.keys[-1].lower() in _CREDENTIALS:
        raise where.error("holds a credential; name its environment variable with api_key_env")
    if isinstance(value, str) and value.isascii() and value.isprintable():
        return value
    raise where.error("must be printable ASCII text")


def parameter(value: object, where: Where) -> Any:
    """Take JSON data for a member of the request body that the runtime does not own."""
    if where.keys[-1] in _OWN_PARAMETERS:
        raise where.error("is set by Perdure itself and cannot be configured")
    encoded = json_text(value)
    if encoded is None:
        raise where.error("must be JSON data: text, numbers, true, false, lists, tables")
    return msgspec.json.decode(encoded)


def directories(value: object, where: Where) -> tuple[Path, ...]:
    """Take a list of directories, each absolute or below `~/`; return them resolved."""
    if not isinstance(value, (list, tuple)):
        raise where.error("must be a list of paths")
    return tuple(_directory(item, where) for item in cast("list[object]", value))


def hosts(value: object, where: Where) -> tuple[str, ...]:
    """Take a list of hosts, each a name or an address, perhaps with a port behind a colon."""
    if not isinstance(value, (list, tuple)):
        raise where.error("must be a list of hosts")
    listed = cast("list[object]", value)
    if not all(isinstance(host, str) and _HOST.fullmatch(host) for host in listed):
        raise where.error('must list hosts, such as "wiki.internal" or "localhost:8000"')
    return tuple(str(host).lower() for host in listed)


def files(value: object, where: Where) -> tuple[Path, ...]:
    """Take a list of files: absolute, below `~/`, or relative to the file that lists them."""
    if not isinstance(value, (list, tuple)):
        raise where.error("must be a list of paths")
    listed = [_file(item, where) for item in cast("list[object]", value)]
    return tuple(dict.fromkeys(listed))


def _file(value: object, where: Where) -> Path:
    name = text(value, where) if isinstance(value, str) else ""
    if not name:
        raise where.error("must be a list of paths")
    if name.startswith("~/"):
        path = home_dir(where.env) / name[2:]
    elif name.startswith("/") or where.directory is None:
        path = Path(name)
    else:
        path = where.directory / name
    if not path.is_absolute():
        raise where.error('must list paths that begin with "/" or "~/", since no file says it')
    return Path(os.path.normpath(path))


def plugin_names(value: object, where: Where) -> tuple[str, ...]:
    """Take a list of names of plugins."""
    if not isinstance(value, (list, tuple)):
        raise where.error("must be a list of names")
    names = cast("list[object]", value)
    for name in names:
        if not isinstance(name, str) or plugin_name(name):
            raise where.error(f"must list names of plugins: each is {plugin_name('')}")
    return tuple(cast("list[str]", names))


def _directory(value: object, where: Where) -> Path:
    name = text(value, where) if isinstance(value, str) else ""
    if name == "~" or name.startswith("~/"):
        return Path(os.path.realpath(home_dir(where.env) / name[2:]))
    if not name.startswith("/"):
        raise where.error('must list paths that begin with "/" or "~/"')
    return Path(os.path.realpath(name))


def provider_name(key: str) -> str | None:
    """Letters, digits, dot, dash and underscore; a slash would end it in `provider/model`."""
    return None if _PROVIDER.fullmatch(key) else "letters, digits, '.', '-' and '_'"


def model_name(key: str) -> str | None:
    """Whatever a provider calls its models."""
    return None if key and key.isprintable() and " " not in key else "printable, without spaces"


def plugin_name(key: str) -> str | None:
    """A name that can begin the keys of Context Sources and the names of tools."""
    if _PLUGIN.fullmatch(key):
        return None
    return "1 to 40 lower case letters, digits, '_' and '-', the first a letter or digit"


def server_name(key: str) -> str | None:
    """A name that can stand in the names of tools without a doubt where it ends."""
    if _SERVER.fullmatch(key):
        return None
    return "1 to 24 lower case letters, digits and '-', the first a letter or digit"


def tool_pattern(key: str) -> str | None:
    """The names that providers allow for tools, with wildcards."""
    return None if _TOOL.fullmatch(key) else "letters, digits, '_', '-', '.', '*' and '?'"


def header_name(key: str) -> str | None:
    """What HTTP allows."""
    return None if _HEADER.fullmatch(key) else "the name of an HTTP header"


def any_name(key: str) -> str | None:
    """Any printable text."""
    return None if key and key.isprintable() else "printable text"


def json_text(value: object) -> bytes | None:
    """Return plain JSON data as deterministic JSON; None where it is anything else.

    NaN, infinities, text that is not Unicode and objects of other kinds are no JSON data.
    """
    try:
        encoded = msgspec.json.encode(value, order="deterministic")
        return encoded if msgspec.json.decode(encoded) == value else None
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
