"""What commands print: tables, JSON, times, and text that cannot do anything to a terminal."""

from __future__ import annotations

import errno
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import click

MICROS = 1_000_000
NO_ROOM = {errno.ENOSPC, errno.EFBIG}
_LONGEST_CELL = 60

# Stored data may hold escape sequences, lone surrogates and marks that turn the line around (B094).
_UNSAFE_FORMAT = {*"\u200e\u200f\u061c\ufeff", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
_UNSAFE_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}
_PLAIN = re.compile(r"[ -~]*")


class ReaderLeft(Exception):
    """Standard output is a pipe whose reader has left, as in `headrace failed list | head`."""


class CannotWrite(Exception):
    """Standard output takes no more, as on a full disk."""

    @classmethod
    def because(cls, error: OSError) -> CannotWrite:
        """With the system's own words."""
        return cls(f"standard output cannot be written: {error.strerror or error}")


@contextmanager
def writing() -> Iterator[None]:
    """Around everything that writes to standard output. Raises as `say`."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderLeft from None
    except OSError as error:
        raise CannotWrite.because(error) from error


def printable(value: object, *, lines: bool = False) -> str:
    """`value` as text without control characters, escapes in their place; `lines` keeps line breaks and tabs."""
    text = value if isinstance(value, str) else str(value)
    if _PLAIN.fullmatch(text):
        return text
    return "".join(char if (lines and char in "\n\t") or not _is_unsafe(char) else _escaped(char) for char in text)


def _is_unsafe(char: str) -> bool:
    return unicodedata.category(char) in _UNSAFE_CATEGORIES or char in _UNSAFE_FORMAT


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def say(text: str = "") -> None:
    """One line on standard output; `text` is already printable.

    Raises:
        ReaderLeft: nobody reads it any more.
        CannotWrite: there is no room for it.
    """
    with writing():
        click.echo(text)


def flush() -> None:
    """Write what is still buffered. Raises as `say`. A closed standard output (`>&-`) asked for silence."""
    if sys.stdout is not None:
        with writing():
            sys.stdout.flush()


def note(text: str) -> None:
    """One line for the human on standard error, made printable."""
    with suppress(OSError):  # nobody to tell: the exit code says it as well
        click.echo(printable(text), err=True)


def as_json(value: Any) -> str:
    """One line of JSON in ASCII: it holds no control character and survives every terminal and pipe."""
    import msgspec

    return json.dumps(msgspec.to_builtins(value), ensure_ascii=True).replace("\x7f", "\\u007f")


def say_json(value: Any) -> None:
    """One JSON value on one line of standard output. Raises as `say`."""
    say(as_json(value))


def iso(moment_us: int | None) -> str | None:
    """A moment in microseconds since the epoch as ISO-8601 in UTC with its offset; None stays None."""
    if moment_us is None:
        return None
    try:
        return datetime.fromtimestamp(moment_us / MICROS, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{moment_us} us"


def local(moment_us: int | None) -> str:
    """The same for humans: in the local zone, to the second, `-` for None."""
    if moment_us is None:
        return "-"
    try:
        return datetime.fromtimestamp(moment_us // MICROS, UTC).astimezone().isoformat(sep=" ")
    except (OverflowError, ValueError, OSError):
        return f"{moment_us} us"


def now_us() -> int:
    """This machine's clock: good enough to tell an operator how old something is."""
    return int(datetime.now(UTC).timestamp() * MICROS)


def age(duration_us: int | None) -> str:
    """A duration in its two largest units: `250 ms`, `12 s`, `3 m 12 s`, `5 d 2 h`; `-` for None."""
    if duration_us is None:
        return "-"
    duration_us = max(0, duration_us)
    if duration_us < MICROS:
        return f"{duration_us // 1000} ms"
    seconds = duration_us // MICROS
    for size, unit, below, below_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            rest = seconds % size // below
            return f"{seconds // size} {unit}" + (f" {rest} {below_unit}" if rest else "")
    return f"{seconds} s"


def shortened(text: str, limit: int = _LONGEST_CELL) -> str:
    """`text` cut to `limit` characters with a mark."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def columns(text: str) -> int:
    """Terminal columns that `text` takes: wide characters take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    combining = sum(bool(unicodedata.combining(char)) for char in text)
    return len(text) + wide - combining


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Aligned columns; numbers to the right. Cells are made printable."""
    shown = [["-" if cell is None or cell == "" else printable(cell) for cell in row] for row in rows]
    right = [_are_numbers([row[place] for row in shown]) for place in range(len(heads))]
    widths = [max(columns(row[place]) for row in [list(heads), *shown]) for place in range(len(heads))]
    for row in [list(heads), *shown]:
        cells = [_padded(*cell) for cell in zip(row, widths, right, strict=True)]
        say("  ".join(cells).rstrip())


def _are_numbers(cells: Sequence[str]) -> bool:
    return any(map(str.isdecimal, cells)) and all(cell == "-" or cell.isdecimal() for cell in cells)


def _padded(text: str, width: int, right: bool) -> str:  # noqa: FBT001 - one of three columns of the same table
    space = " " * (width - columns(text))
    return space + text if right else text + space


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """`name  value` lines, aligned; None and empty values are left out."""
    shown = [(name, printable(value)) for name, value in pairs if value is not None and value != ""]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        say(f"{name:<{width}}  {value}")


def survive_any_encoding() -> None:
    """A terminal or pipe that cannot show a character gets its escape instead of an error (B094)."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
