"""The value of an `Idempotency-Key` header: an Item of RFC 9651 whose value is a String, or the bare key."""

from __future__ import annotations

import re
from collections.abc import Sequence

HEADER = "Idempotency-Key"
MAX_KEY = 255  # characters

_STRING = r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"'
_NUMBER = r"-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})"
_WORD = r"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*"
_BYTES = r":[A-Za-z0-9+/=]*:"
_BOOLEAN = r"\?[01]"
_DATE = r"@-?[0-9]{1,15}"
_DISPLAY = r'%"(?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*"'
_BARE_ITEM = "|".join((_STRING.replace("((?:", "(?:(?:"), _NUMBER, _WORD, _BYTES, _BOOLEAN, _DATE, _DISPLAY))
_PARAMETER = rf"; *[a-z*][a-z0-9_\-.*]*(?:=(?:{_BARE_ITEM}))?"

_ITEM = re.compile(rf"{_STRING}(?:{_PARAMETER})*\Z")
_ESCAPE = re.compile(r'\\(["\\])')
# Visible ASCII without a comma: servers and proxies join two headers of one name with one, and two are refused
_BARE = re.compile(r"[\x21\x23-\x2b\x2d-\x7e][\x21-\x2b\x2d-\x7e]*\Z")


class BadKey(ValueError):
    """The message tells the client what is wrong."""


def parse(values: Sequence[str], *, strict: bool = False) -> str | None:
    """The key in the headers of that name, None where there is none. Parameters of the item are ignored.

    Args:
        values: of all headers of that name, decoded as Latin-1.
        strict: refuse a key without its quotation marks.

    Raises:
        BadKey: there are two headers, or the value is neither a String of 1 to 255 characters nor, unless strict, that
            many visible ASCII characters without a comma.
    """
    if not values:
        return None
    if len(values) > 1:
        raise BadKey(f"There is more than one {HEADER} header.")
    value = values[0].strip(" \t")
    if value.startswith('"'):
        found = _ITEM.match(value)
        if found is None:
            raise BadKey(f"The {HEADER} header holds no String as RFC 9651 defines it.")
        return _checked(_ESCAPE.sub(r"\1", found[1]))
    if strict:
        raise BadKey(f'The {HEADER} header must be a String in quotation marks, as in {HEADER}: "8e03978e-40d5".')
    if not _BARE.match(value):
        raise BadKey(f"The {HEADER} header must be a String as RFC 9651 defines it, or visible ASCII without commas.")
    return _checked(value)


def _checked(key: str) -> str:
    if not 1 <= len(key) <= MAX_KEY:
        raise BadKey(f"The key in the {HEADER} header has {len(key)} characters: it must have 1 to {MAX_KEY}.")
    return key
