"""What is wrong with a call, in words: the argument, what was expected, what was given.

A value is shown only where it is short and its name does not say that it is a secret: the text ends in logs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from headrace.core.values import short

MOST_SHOWN = 20  # characters of a value
_PATH = re.compile(r" - at `\$\.?([^`]*)`$")
_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")
_OTHER_TYPE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_SECRET = re.compile(r"pass|secret|token|credential|auth|(api|private|access)_?key", re.IGNORECASE)
_PYTHON = {"null": "None", "array": "list"}  # what is called otherwise in JSON


def at(error: msgspec.ValidationError, name: str) -> msgspec.ValidationError:
    """The same error of a decoder that was given one argument only."""
    text = str(error)
    text = text.replace(" - at `$", f" - at `$.{name}", 1) if _PATH.search(text) else f"{text} - at `$.{name}`"
    return msgspec.ValidationError(text)


def describe(
    error: Exception, types: Mapping[str, Any], required: Collection[str], named: Mapping[str, Any] | None
) -> str:
    """The trouble that a decoder met, to stand behind the function's name. `named` is the call, where it is known."""
    text = str(error)
    where = _PATH.search(text)
    path, text = (where[1], text[: where.start()]) if where else ("", text)
    if not path:
        return _of_the_call(text, types, required, named)
    if field := _MISSING.fullmatch(text):
        return f": argument {path!r} has no field {field[1]!r}, which is required"
    if field := _UNKNOWN.fullmatch(text):
        return f": argument {path!r} has the field {field[1]!r}, which is unknown"
    shown, got = _given(path, named)
    if found := _OTHER_TYPE.fullmatch(text):
        wanted = _type_name(types[path]) if path in types else _python(found[1])
        return f": argument {path!r} must be of type {wanted}, not {got or _python(found[2])}{shown}"
    return f": argument {path!r} does not fit its annotation: {_reason(error, text)}{shown}"


def takes(types: Mapping[str, Any]) -> str:
    """`it takes (a, b)`."""
    return f"it takes ({', '.join(types)})" if types else "it takes no arguments"


def _of_the_call(
    text: str, types: Mapping[str, Any], required: Collection[str], named: Mapping[str, Any] | None
) -> str:
    if field := _MISSING.fullmatch(text):
        absent = [name for name in required if name not in named] if named is not None else [field[1]]
        names = " and ".join(map(repr, absent))
        return f": argument{'s' if len(absent) > 1 else ''} {names} {_are(len(absent))} missing; {takes(types)}"
    if field := _UNKNOWN.fullmatch(text):
        return f" has no argument {field[1]!r}{_meant(field[1], types)}; {takes(types)}"
    return f": its arguments cannot be read: {text.replace('`', '')}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _meant(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, 1, 0.7)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _given(name: str, named: Mapping[str, Any] | None) -> tuple[str, str]:
    """The value of a whole argument, if it is to be shown, and its type."""
    if named is None or name not in named:
        return "", ""
    value = named[name]
    text = short(value)
    shown = "" if len(text) > MOST_SHOWN or _SECRET.search(f"{name} {text}") else f", given {text}"
    return shown, "None" if value is None else type(value).__qualname__


def _type_name(type_: Any) -> str:
    """`int`, `list[int]`, `Line | None`: as the annotation is written."""
    return type_.__qualname__ if isinstance(type_, type) and not hasattr(type_, "__args__") else _bare(repr(type_))


def _bare(text: str) -> str:
    """Without the modules: `shop.models.Line | None` is `Line | None`."""
    return re.sub(r"\b(?:\w+\.)+(?:<locals>\.)?(?=\w)", "", text)


def _python(names: str) -> str:
    return " | ".join(_PYTHON.get(name, name) for name in names.split(" | "))


def _reason(error: Exception, text: str) -> str:
    """What a pydantic model says about each field, without the value that it quotes; else the decoder's own words."""
    errors = getattr(error.__cause__, "errors", None)
    if not callable(errors):
        return text.replace("`", "")
    return ", ".join(": ".join((*map(str, one["loc"]), one["msg"])) for one in errors(include_input=False))
