"""Corrections of failed jobs: other arguments in the same message, and what that changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from headrace.core import codec, values
from headrace.core.arguments import Arguments
from headrace.core.codec import Envelope
from headrace.core.once import Once
from headrace.core.trail import Difference
from headrace.core.unique import Unique
from headrace.core.wording import near
from headrace.errors import ConfigError, InvalidArguments


class Corrected(msgspec.Struct, frozen=True):
    """A message with other arguments. `notes`: what else there is to know, in sentences."""

    body: bytes
    diff: tuple[Difference, ...]
    notes: tuple[str, ...]


class Rules(msgspec.Struct, frozen=True):
    """What a task says about its arguments."""

    arguments: Arguments
    once: Once | None = None
    unique: Unique | None = None

    def whole(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """All arguments of a call, defaults included."""
        return {**self.arguments.defaults, **self.arguments.decode(raw)}


def correct(
    body: bytes, rules: Rules, unique: str | None, changes: Mapping[str, Any], drop: Collection[str] | None
) -> Corrected:
    """The message `body` with `changes` of its arguments, without those in `drop` (None: all others).

    Only `args` and, where there is one, `once_key` are written anew: all other fields stay, known or not. `unique` is
    the unique key that the store has for the job.

    Raises:
        ConfigError: `drop` is a text.
        InvalidArguments, PayloadTooLarge: the new arguments do not fit the task, or what is to go is needed or unknown.
        UnreadableEnvelope: the message is none.
    """
    if isinstance(drop, str):
        raise ConfigError(f"drop is {drop!r}: give a list of names, such as [{drop!r}]")
    envelope = codec.decode(body)
    before = values.decode_raw_object(envelope.args)
    absent = [] if drop is None else _absent(before, rules.arguments, changes, drop)
    kept = {name: raw for name, raw in before.items() if drop is not None and name not in drop}
    args = rules.arguments.amend(kept, changes)
    after = values.decode_raw_object(args)
    fields = values.decode_raw_object(body) | {"args": msgspec.Raw(args)}
    once, notes = _keys(envelope, rules, unique, args)
    if once is not None:
        fields["once_key"] = msgspec.Raw(msgspec.json.encode(once))
    names = dict.fromkeys((*before, *after))
    diff = [Difference(name, _text(before.get(name)), _text(after.get(name))) for name in names]
    notes += [f"it has no argument {name!r} that could go" for name in absent]
    made = codec.checked(msgspec.json.encode(fields), envelope.task)
    return Corrected(made, tuple(one for one in diff if one.was != one.now), tuple(notes))


def _absent(
    before: Mapping[str, msgspec.Raw], arguments: Arguments, changes: Mapping[str, Any], drop: Collection[str]
) -> list[str]:
    """What is to go and is not there.

    Raises:
        InvalidArguments: one of `drop` is needed, or neither the job nor its task has it.
    """
    absent = [name for name in drop if name not in before]
    for name in absent:
        if name not in arguments.names:
            known = list(dict.fromkeys((*before, *arguments.names)))
            close = near(name, known)
            hint = f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
            raise InvalidArguments(f"there is no argument {name!r} to drop{hint}; the job has ({', '.join(before)})")
    for name in drop:
        if name in arguments.names and name not in arguments.defaults and name not in changes:
            raise InvalidArguments(f"{arguments.function_name}() needs {name!r}, which has no default: it cannot go")
    return absent


def _keys(envelope: Envelope, rules: Rules, unique: str | None, args: bytes) -> tuple[str | None, list[str]]:
    """The once key to be written, and what to say of the keys."""
    notes: list[str] = []
    old, new = envelope.once_key, None
    if old is not None and rules.once is None:
        notes.append(f"its once key stays {old!r}: the task has no once= any more")
    elif old is not None and rules.once is not None:
        new = rules.once.render(rules.whole(args))
        if new != old:
            notes.append(f"its once key is {new!r} now, which was {old!r}")
    if unique is not None:
        notes.append(f"its unique key stays {unique!r}{_otherwise(rules, unique, args)}")
    return new, notes


def _otherwise(rules: Rules, unique: str, args: bytes) -> str:
    if rules.unique is None:
        return ""
    other = rules.unique.render(rules.whole(args))
    return "" if other == unique else f", though these arguments would make {other!r}"


def _text(raw: msgspec.Raw | None) -> str | None:
    return None if raw is None else bytes(raw).decode("utf-8", "replace")
