"""Turn values of any type that msgspec or pydantic can encode into JSON, and back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Protocol, cast

import msgspec
from msgspec import inspect

from perdure.context.compare import is_finite
from perdure.context.guard import Failed, attempt
from perdure.errors import ContextError


class Codec(Protocol):
    """Encode values of one type as JSON text and decode them again.

    `dump` raises when the value does not conform to the type, `load` when the text does not;
    which exception depends on the library beneath.
    """

    def dump(self, value: Any) -> bytes: ...
    def load(self, text: bytes) -> Any: ...


class Found(msgspec.Struct, frozen=True):
    """One value after it went through its codec: as JSON `data` and as the typed `value`."""

    data: Any
    value: Any


def encode(codec: Codec, value: object) -> Found | Failed:
    """Send a value through its codec, there and back.

    NaN and infinities are refused wherever they are: JSON has no word for them, and NaN would
    differ from itself at every comparison.
    """
    finite = attempt(is_finite, value)
    if finite is False:
        return Failed("holds NaN or an infinity")
    found = attempt(_there_and_back, codec, value)
    if isinstance(found, Failed):
        name = type(value).__name__
        return Failed(f"(of class {name}) does not fit the source's type: the codec {found.reason}")
    return found


def _there_and_back(codec: Codec, value: object) -> Found:
    text = codec.dump(value)
    return Found(data=msgspec.json.decode(text), value=codec.load(text))


def decode(codec: Codec, data: Any) -> Found | Failed:
    """Decode a stored value; Failed where it is no value of the codec's type any more."""
    value = attempt(lambda: codec.load(msgspec.json.encode(data)))
    return value if isinstance(value, Failed) else Found(data=data, value=value)


def codec_for(kind: Any) -> Codec:
    """Return the codec of a type: msgspec's, or pydantic's where msgspec does not know the type.

    `kind` is a type annotation or a pydantic TypeAdapter. A class that only pydantic knows may
    also be nested in one that msgspec knows. Raises ContextError when neither can encode the type.
    """
    try:
        hash(kind)
    except TypeError:  # an annotation may carry anything
        return _build(kind)
    return _remembered(kind)


def _build(kind: Any) -> Codec:
    if not isinstance(kind, type) and hasattr(kind, "validate_json"):
        return _PydanticCodec(kind)
    codec = attempt(_MsgspecCodec, kind)
    return _PydanticCodec(_adapter(kind)) if isinstance(codec, Failed) else codec


# Sources are often declared anew for each boundary, and a codec takes longer to build than to use.
_remembered = lru_cache(maxsize=256)(_build)


class _PydanticCodec:
    """The codec of a TypeAdapter.

    Fields go by their own names, not by aliases: an alias may differ between reading and writing.
    """

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def dump(self, value: Any) -> bytes:
        return self._adapter.dump_json(value, round_trip=True, by_alias=False, warnings="error")

    def load(self, text: bytes) -> Any:
        return self._adapter.validate_json(text, by_alias=False, by_name=True)


class _MsgspecCodec:
    """The codec of a type that msgspec knows, some nested classes perhaps being pydantic's."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        custom = _custom(inspect.type_info(kind), set())
        self._nested = {each: _PydanticCodec(_adapter(each)) for each in custom}
        self._encoder = msgspec.json.Encoder(enc_hook=self._dump_custom)
        self._decoder = msgspec.json.Decoder(kind, dec_hook=self._load_custom)

    def dump(self, value: Any) -> bytes:
        # Encoding alone looks at the value's own class: bytes would pass for a string.
        return self._encoder.encode(msgspec.convert(value, self._kind, from_attributes=True))

    def load(self, text: bytes) -> Any:
        return self._decoder.decode(text)

    def _dump_custom(self, value: Any) -> Any:
        for custom, codec in self._nested.items():
            if isinstance(value, custom):
                return msgspec.Raw(codec.dump(value))
        raise NotImplementedError

    def _load_custom(self, kind: type, data: Any) -> Any:
        return self._nested[kind].load(msgspec.json.encode(data))


def _custom(node: object, seen: set[int]) -> Iterator[type]:
    """Walk msgspec's description of a type and yield the classes that msgspec does not know."""
    if isinstance(node, inspect.CustomType):
        yield node.cls
    elif isinstance(node, tuple):
        for child in cast("tuple[object, ...]", node):
            yield from _custom(child, seen)
    elif isinstance(node, (inspect.Type, inspect.Field)) and id(node) not in seen:
        seen.add(id(node))
        for name in node.__struct_fields__:
            yield from _custom(getattr(node, name), seen)


def _adapter(kind: Any) -> Any:
    """Return pydantic's adapter of a type."""
    try:
        # Imported here because few contexts need pydantic and it is slow to load.
        from pydantic import TypeAdapter
    except ImportError:
        raise ContextError(f"msgspec cannot encode {kind!r}: install pydantic 2.11") from None
    adapter = attempt(cast("Any", TypeAdapter), kind)
    if isinstance(adapter, Failed):
        raise ContextError(f"neither msgspec nor pydantic can encode {kind!r}")
    return adapter
