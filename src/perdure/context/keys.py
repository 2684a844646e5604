"""The names of Context Sources."""

from __future__ import annotations

import re

from perdure.errors import InvalidKey

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9._-]*")


def check_key(key: object) -> None:
    """Refuse a key that is not `namespace/name`.

    The namespace ends at the first slash and is lower case: `[a-z0-9][a-z0-9._-]*`. The name is any
    non-empty printable text and may contain slashes. Raises InvalidKey, which names the key.
    """
    if not (isinstance(key, str) and _is_valid(key)):
        raise InvalidKey(
            f"{key!r} is not a key of a context source: write namespace/name, the namespace in "
            "lower case letters, digits, '.', '_' and '-', the name in printable characters"
        )


def _is_valid(key: str) -> bool:
    namespace, _, name = key.partition("/")
    return bool(_NAMESPACE.fullmatch(namespace) and name and name.isprintable())
