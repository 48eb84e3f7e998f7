"""Envelopes as lines of JSON, so that a program in any language can enqueue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

import click

from headrace.cli.output import note, say, say_json
from headrace.cli.progress import progress
from headrace.core.wording import counted

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.cli.options import Settings
    from headrace.core.codec import Envelope
    from headrace.core.operations import NewJob

_CHUNK = 1_000


def enqueue_envelopes(settings: Settings, source: BinaryIO, *, unchecked: bool) -> None:
    """Enqueue the envelopes of `source`, in chunks that are stored whole or not at all. Their ids make it repeatable.

    Raises:
        click.UsageError: a line is no envelope, or would not run; names the line and says what is stored.
    """
    app = settings.app()
    lines = enumerate(source, 1)
    stored = new = 0
    with progress("enqueueing") as bar:
        while chunk := list(islice(lines, _CHUNK)):
            try:
                jobs = list(_read(app, iter(chunk), unchecked=unchecked))
            except click.UsageError as error:
                raise click.UsageError(f"{error.message}; {_so_far(stored)}") from None
            answers = app.send(jobs) if jobs else []
            stored += len(answers)
            new += sum(answer.status == "new" for answer in answers)
            if settings.json:
                for answer in answers:
                    say_json(answer)
            bar.update(stored)
    known = f", {stored - new:,} were there already" if stored > new else ""
    if settings.json:
        note(f"{counted(new, 'job')} enqueued{known}")
    else:
        say(f"{counted(new, 'job')} enqueued{known}")


def _so_far(stored: int) -> str:
    if stored:
        return f"the first {counted(stored, 'job')} are stored; sending all again is safe"
    return "nothing is stored"


def _read(app: Headrace, lines: Iterator[tuple[int, bytes]], *, unchecked: bool) -> Iterator[NewJob]:
    from headrace.errors import HeadraceError
    from headrace.inquiries import problem_of

    for number, line in lines:
        body = line.strip()
        if not body:
            continue
        try:
            job = _job(body)
        except HeadraceError as error:
            raise click.UsageError(f"line {number}: {error}") from None
        problem = "" if unchecked else problem_of(body, app.tasks)
        if problem:
            raise click.UsageError(f"line {number}: {problem} (--unchecked enqueues it all the same)")
        yield job


def _job(body: bytes) -> NewJob:
    """The envelope as a job; the body stays as it came.

    Raises:
        HeadraceError: it is none, or a field is out of range.
    """
    from headrace.core import codec, values
    from headrace.core.operations import NewJob
    from headrace.errors import PayloadTooLarge
    from headrace.options import checked_id, checked_priority, checked_queue

    envelope = codec.decode(body)
    codec.checked(body, envelope.task)
    if values.depth(bytes(envelope.args)) > codec.MAX_DEPTH:
        raise PayloadTooLarge(
            f"args is nested deeper than {codec.MAX_DEPTH} levels: store the data elsewhere and pass its id"
        )
    return NewJob(
        checked_id(envelope.id),
        checked_queue(envelope.queue),
        envelope.task,
        body,
        checked_priority(envelope.priority),
        unique=envelope.unique,
        unique_until=envelope.unique_until or "end",
        unique_us=_lifetime_us(envelope),
        derived=True,  # the id comes from outside, so sending it again later must find it
    )


def _lifetime_us(envelope: Envelope) -> int:
    """How long the unique key lives; 0 without one.

    Raises:
        ConfigError: the key or its lifetime is out of range.
    """
    from headrace.core.keys import MAX_KEY
    from headrace.core.unique import Unique
    from headrace.errors import ConfigError

    if envelope.unique is None:
        return 0
    if not 1 <= len(envelope.unique) <= MAX_KEY:
        raise ConfigError(f"unique has {len(envelope.unique)} characters: it must have 1 to {MAX_KEY}")
    lifetime_us = Unique("key").lifetime_us if envelope.unique_us is None else envelope.unique_us
    if lifetime_us <= 0:
        raise ConfigError(f"unique_us is {lifetime_us}: it must be greater than 0 microseconds")
    return lifetime_us
