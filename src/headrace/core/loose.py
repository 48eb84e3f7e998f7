"""Finds values whose type no annotation keeps: wherever an annotation says Any or object, only plain JSON may stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import inspect as types

from headrace.core.values import Trouble, find_changing, parts, short

_FIELDS = (types.StructType, types.DataclassType, types.NamedTupleType, types.TypedDictType)
_ITEMS = (types.ListType, types.SetType, types.FrozenSetType, types.VarTupleType, types.CollectionType)


def is_open(info: types.Type) -> bool:
    """Any or object."""
    return isinstance(info, types.AnyType) or (isinstance(info, types.CustomType) and info.cls is object)


def is_loose(type_: Any) -> bool:
    """Whether the annotation leaves open, somewhere inside, what arrives."""
    return any(is_open(info) for info in parts(types.type_info(type_)))


def find_lost(value: Any, type_: Any, path: str) -> Trouble | None:
    """The first value that would arrive as something else (B096). It fits its annotation by now."""
    return _find(value, types.type_info(type_), path)


def _find(value: Any, info: types.Type, path: str) -> Trouble | None:
    if is_open(info):
        return find_changing(value, path)
    for inner_value, inner_info, inner_path in _inside(value, info, path):
        trouble = _find(inner_value, inner_info, inner_path)
        if trouble is not None:
            return trouble
    return None


def _inside(value: Any, info: types.Type, path: str) -> Iterator[tuple[Any, types.Type, str]]:
    if isinstance(info, types.UnionType):
        # an Any in a union makes the whole of it open
        open_ones = [member for member in info.types if is_open(member)]
        for member in open_ones or info.types:
            yield value, member, path
    elif isinstance(info, _FIELDS):
        for field in info.fields:
            found, inner = _field(value, info, field.name)
            if found:
                yield inner, field.type, f"{path}.{field.name}"
    elif isinstance(info, types.DictType) and isinstance(value, dict):
        for key, inner in value.items():
            yield inner, info.value_type, f"{path}[{short(key)}]"
    elif isinstance(value, list | tuple | set | frozenset):
        for place, (inner, inner_info) in enumerate(zip(value, _item_types(info, len(value)), strict=False)):
            yield inner, inner_info, f"{path}[{place}]"


def _item_types(info: types.Type, length: int) -> Sequence[types.Type]:
    if isinstance(info, types.TupleType):
        return info.item_types
    return [info.item_type] * length if isinstance(info, _ITEMS) else []


def _field(value: Any, info: Any, name: str) -> tuple[bool, Any]:
    """Whether `value` is of the type and has the field, and the field's value."""
    if isinstance(info, types.TypedDictType):
        return isinstance(value, dict) and name in value, value.get(name) if isinstance(value, dict) else None
    return isinstance(value, info.cls) and hasattr(value, name), getattr(value, name, None)
