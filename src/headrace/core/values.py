"""Which values may be arguments, and what would become of them in JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect as types

PLAIN_SCALARS = frozenset({int, str, bool, type(None), float})
_JSON_TYPES = PLAIN_SCALARS | {dict, list}
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_MOST_PARTS = 1_000_000  # a value that contains itself must not be walked for ever
_LEAST, _MOST = -(2**63), 2**64 - 1


class Trouble(msgspec.Struct, frozen=True):
    """A value that cannot be sent as it is."""

    path: str
    what: str
    fix: str


def _is_pydantic(type_: Any) -> bool:
    # recognised by what every model carries, so that pydantic is never imported here
    return isinstance(type_, type) and hasattr(type_, "__pydantic_core_schema__") and hasattr(type_, "model_validate")


def enc_hook(value: Any) -> Any:
    """JSON values of a pydantic model; anything else is refused."""
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json")
    raise TypeError(f"values of type {type(value).__name__} are not supported")


def dec_hook(type_: Any, value: Any) -> Any:
    """A pydantic model from JSON values; its ValidationError is a ValueError, which msgspec reports with the path."""
    if type_ is object:
        return value
    if _is_pydantic(type_):
        return type_.model_validate(value)
    raise TypeError(f"type {type_!r} is not supported")


def decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    """A decoder of JSON into `type_`."""
    return msgspec.json.Decoder(type_, dec_hook=dec_hook)


_object_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode_raw_object(raw: bytes | bytearray | memoryview | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of a JSON object, not decoded."""
    return _object_decoder.decode(raw)


# -- annotations


def unsupported(type_: Any) -> str:
    """Why no argument may be annotated with `type_`, naming what to use; empty when it may."""
    try:
        info = types.type_info(type_)
        for part in parts(info):
            if isinstance(part, types.CustomType) and part.cls is not object and not _is_pydantic(part.cls):
                return (
                    f"{part.cls.__module__}.{part.cls.__qualname__}, which has no JSON form: pass an id, or make it a "
                    "dataclass, a msgspec.Struct or a pydantic model"
                )
            if isinstance(part, types.ExtType | types.RawType):
                return f"{type_!r}, which is not for arguments"
        decoder(type_)
    except (TypeError, ValueError, NotImplementedError) as error:
        return f"{type_!r}, which has no JSON form ({error})"
    return ""


def find_misfit(value: Any, type_: Any) -> str:
    """Why `value` is none of `type_`; empty when it is, and for objects without a JSON form, such as sentinels."""
    try:
        plain = msgspec.to_builtins(value, enc_hook=enc_hook, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return ""
    try:
        msgspec.convert(plain, type_, dec_hook=dec_hook, str_keys=True)
    except (msgspec.ValidationError, RecursionError) as error:
        return str(error).replace("`", "").replace("null", "None")
    return ""


def parts(info: types.Type, seen: set[Any] | None = None) -> Iterator[types.Type]:
    """The type and all types inside it. `seen` ends recursive types."""
    seen = set() if seen is None else seen
    yield info
    if isinstance(info, types.StructType | types.DataclassType | types.NamedTupleType | types.TypedDictType):
        if info.cls in seen:
            return
        seen.add(info.cls)
        for field in info.fields:
            yield from parts(field.type, seen)
        return
    for name in ("item_type", "key_type", "value_type", "type"):
        inner = getattr(info, name, None)
        if isinstance(inner, types.Type):
            yield from parts(inner, seen)
    inner_types = getattr(info, "types", None) or getattr(info, "item_types", None) or ()
    for inner in inner_types:
        yield from parts(inner, seen)


# -- values


def short(value: Any) -> str:
    """`repr` of at most 80 characters; never raises."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a message about a value must not fail because of the value
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= 80 else f"{text[:77]}..."


def find_lossy_number(value: Any, path: str) -> Trouble | None:
    """The first NaN, Infinity or number beyond 64 bits: JSON has none, or other readers would round it (B100)."""
    for at, part in _walk(msgspec.to_builtins(value, enc_hook=enc_hook, str_keys=True), path):
        if isinstance(part, float) and not math.isfinite(part):
            return Trouble(at, repr(part), "JSON has no such number; pass None or a str")
        if isinstance(part, int) and not _LEAST <= part <= _MOST:
            return Trouble(at, f"the number {short(part)}", "it does not fit 64 bits; pass a str or a Decimal")
    return None


def find_changing(value: Any, path: str) -> Trouble | None:
    """The first value that would arrive as something else, where no annotation says what it is (B096)."""
    for at, part in _walk(value, path):
        kind = type(part)
        if kind is dict:
            odd = next((key for key in part if type(key) is not str), None)
            if odd is not None:
                return Trouble(
                    at,
                    f"a dict with the key {short(odd)}",
                    "keys arrive as str; annotate the argument, or use str keys",
                )
        elif kind not in _JSON_TYPES:
            return Trouble(
                at,
                f"{short(part)} of type {kind.__qualname__}",
                "its type would be lost on the way; annotate the argument with it",
            )
    return None


def find_unencodable(value: Any, path: str) -> Trouble | None:
    """The first value that cannot be encoded at all."""
    for at, part in _walk(value, path):
        if isinstance(part, dict | list | tuple | set | frozenset):
            continue
        try:
            msgspec.json.encode(part, enc_hook=enc_hook)
        except UnicodeEncodeError:
            return Trouble(at, f"the text {short(part)}", "it holds a lone surrogate, which is no character; clean it")
        except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
            return Trouble(at, f"{short(part)} of type {type(part).__qualname__}", f"it cannot be sent ({error})")
    return None


def depth(raw: bytes) -> int:
    """How deep valid JSON is nested. Scans instead of recursing (B102)."""
    deepest = level = 0
    for byte in _STRINGS.sub(b"", raw):
        if byte in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif byte in b"]}":
            level -= 1
    return deepest


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """`value` and everything in its dicts, lists, tuples and sets, in order, with paths: at most `_MOST_PARTS`."""
    stack = [(path, value)]
    for _ in range(_MOST_PARTS):
        if not stack:
            return
        at, part = stack.pop()
        yield at, part
        if isinstance(part, dict):
            stack.extend((f"{at}[{short(key)}]", inner) for key, inner in reversed(part.items()))
        elif isinstance(part, list | tuple):
            stack.extend((f"{at}[{place}]", part[place]) for place in range(len(part) - 1, -1, -1))
        elif isinstance(part, set | frozenset):
            stack.extend((f"{at}{{}}", inner) for inner in part)
