"""Hooks: tasks whose jobs are enqueued with the end of another job, in the same atomic step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from headrace.core import codec, values
from headrace.core.arguments import Arguments
from headrace.core.codec import Envelope
from headrace.core.operations import ClaimedJob, NewJob
from headrace.core.wording import near
from headrace.errors import ConfigError, TaskError
from headrace.task import Task

_encoder = msgspec.json.Encoder(enc_hook=values.enc_hook)
_OPTIONS = frozenset({"name", "aliases", "priority", "retry", "timeout", "keep", "log"})
_PLAIN = (bool, int, float, str)
_BARE = Envelope(id="", task="", args=msgspec.Raw(b"{}"))


class Hook(msgspec.Struct, frozen=True):
    """A task that runs at the end of a job: which of that job's arguments it takes, and how."""

    task: Task[..., Any]
    names: frozenset[str] | None  # None: all
    defaults: Mapping[str, msgspec.Raw]  # those of the job's task that the hook has none for

    def chosen(self, envelope: Envelope) -> dict[str, msgspec.Raw]:
        """The arguments of the job that the hook takes."""
        given = values.decode_raw_object(envelope.args)
        return {
            **self.defaults,
            **{name: raw for name, raw in given.items() if self.names is None or name in self.names},
        }

    def follower(self, id: str, job: ClaimedJob, envelope: Envelope | None, args: Mapping[str, msgspec.Raw]) -> NewJob:
        """The hook's job, in the queue of `job`, whose headers, tags, tenant and trace it takes over."""
        before = _BARE if envelope is None else envelope
        body = msgspec.json.encode(
            Envelope(
                id=id,
                task=self.task.name,
                args=msgspec.Raw(msgspec.json.encode(args)),
                queue=job.queue,
                priority=self.task.priority,
                headers=before.headers,
                tags=before.tags,
                tenant=before.tenant,
                trace=before.trace,
                code_version=self.task.producer.code_version,
            )
        )
        return NewJob(id, job.queue, self.task.name, body, self.task.priority, derived=True)

    def checked(self, job: NewJob) -> NewJob:
        """`job`, unless it is too large.

        Raises:
            PayloadTooLarge: it has more than 1 MB.
        """
        codec.checked(job.body, self.task.name)
        return job


def check_options(what: str, options: Collection[str], owner: str) -> None:
    """Refuse an option of a hook that would part it from its job.

    Raises:
        ConfigError: it has one.
    """
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        close = near(unknown[0], sorted(_OPTIONS))
        hint = f" (did you mean {' or '.join(f'{one}=' for one in close)}?)" if close else ""
        raise ConfigError(
            f"{what} takes no {unknown[0]}={hint}: a hook runs in the queue of its {owner}, once for each"
        )


def check_names(what: str, arguments: Arguments, of: Arguments, extra: Collection[str], owner: str) -> None:
    """Refuse a hook that asks for what there is not.

    Raises:
        TaskError: it takes an argument that is none of `of`, nor `extra`, or one that is plainly of another type.
    """
    known = (*of.names, *extra)
    unknown = [name for name in arguments.names if name not in known]
    if unknown and not of.takes_more:
        raise TaskError(
            f"{what}: {arguments.function_name}() takes {unknown[0]!r}, which the {owner} does not have: it may take "
            f"{', '.join(known) or 'no arguments'}"
        )
    for name, type_ in arguments.types.items():
        theirs = of.types.get(name)
        if not isinstance(type_, type) or not isinstance(theirs, type) or (type_, theirs) == (float, int):
            continue
        if type_ is not theirs and type_ in _PLAIN and theirs in _PLAIN:
            raise TaskError(
                f"{what}: {arguments.function_name}() takes {name!r} as {type_.__name__}, of the {owner} it is "
                f"{theirs.__name__}: it would never run; annotate it alike"
            )


def told_defaults(what: str, arguments: Arguments, of: Arguments) -> dict[str, msgspec.Raw]:
    """A default never travels, so where the hook has none, it is told that of the job's task.

    Raises:
        TaskError: one has no JSON form.
    """
    own = arguments.defaults
    return {
        name: _told(what, name, default, of)
        for name, default in of.defaults.items()
        if name in arguments.types and name not in own
    }


def _told(what: str, name: str, default: object, of: Arguments) -> msgspec.Raw:
    try:
        return msgspec.Raw(_encoder.encode(default))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise TaskError(
            f"{what}: {name!r} may be missing, and its default in {of.function_name}() has no JSON form ({error}): "
            "give it a default here too"
        ) from error
