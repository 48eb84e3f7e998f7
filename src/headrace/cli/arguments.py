"""A call's arguments as they stand on a command line: `order_id=17`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from headrace.task import Task


def split(pair: str, what: str) -> tuple[str, str]:
    """Name and value of a pair.

    Raises:
        click.UsageError: it is none.
    """
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{what} {pair!r}: write NAME=VALUE")
    return name, value


def as_object(task: Task[..., Any], arguments: Iterable[str], what: str) -> bytes:
    """`NAME=VALUE` pairs as a JSON object. `what`: how they are called, for messages.

    Raises:
        click.UsageError: one is no such pair, or a name comes twice.
    """
    import msgspec

    members: dict[str, msgspec.Raw] = {}
    for pair in arguments:
        name, text = split(pair, what)
        if name in members:
            raise click.UsageError(f"argument {name!r} is given twice")
        try:
            members[name] = value_of(text, task.arguments.types.get(name, Any))
        except UnicodeError:
            raise click.UsageError(f"argument {name!r} is not valid UTF-8") from None
    return msgspec.json.encode(members)


def value_of(text: str, annotation: Any) -> Any:
    """`text` as the JSON value that fits the annotation: as it stands for str, else read as JSON, else as text."""
    import msgspec

    from headrace.core import values

    as_text = msgspec.json.encode(text)
    if annotation is str:
        return msgspec.Raw(as_text)
    decoder = values.decoder(annotation)
    for candidate in (text.encode(), as_text):
        try:
            decoder.decode(candidate)
        except (msgspec.DecodeError, RecursionError):
            continue
        return msgspec.Raw(candidate)
    try:  # neither fits: the error that follows should show the value as it was most likely meant
        msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        return msgspec.Raw(as_text)
    return msgspec.Raw(text.encode())
