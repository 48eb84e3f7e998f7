"""Tasks that are called by events: which parameter gets what, and the job that an event makes of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid5

import msgspec

from headrace.core.operations import NewJob
from headrace.errors import ConfigError, InvalidArguments, UnreadableEnvelope
from headrace.outbox.events import Event, Message
from headrace.task import Call, Task


class Subscriber(msgspec.Struct, frozen=True):
    """A task and the names of its parameters for the payload and for the `Event`."""

    task: Task[..., Any]
    payload: str | None
    event: str | None

    @classmethod
    def of(cls, task: Task[..., Any]) -> Subscriber:
        """How `task` is called by an event.

        Raises:
            ConfigError: it takes more than the payload and the event.
        """
        arguments = task.arguments
        events = [name for name, type_ in arguments.types.items() if type_ is Event]
        others = [name for name in arguments.names if name not in events]
        needed = [name for name in others if name not in arguments.defaults]
        if len(events) > 1 or len(needed) > 1:
            raise ConfigError(
                f"{arguments.function_name}({', '.join(arguments.names)}) cannot be called by an event: it may take "
                "one parameter for the whole payload, and one annotated with Event"
            )
        payloads = needed or others
        return cls(task, payloads[0] if payloads else None, events[0] if events else None)

    def job(self, message: Message) -> NewJob:
        """The job of an event. Its id follows from event and task, so that the same event makes no second one."""
        event = message.event
        headers: Mapping[str, str] = {**event.headers, "event_id": event.id, "event_type": event.type}
        id = str(uuid5(_uuid_of(event), self.task.name))
        args = self._arguments(message)
        return Call(self.task.using(id=id, headers=headers), (args, self._key(args), None)).job(id)

    def _arguments(self, message: Message) -> bytes:
        parts = []
        if self.payload is not None:
            parts.append(b"%b:%b" % (msgspec.json.encode(self.payload), message.payload))
        if self.event is not None:
            parts.append(b"%b:%b" % (msgspec.json.encode(self.event), msgspec.json.encode(message.event)))
        return b"{%b}" % b",".join(parts)

    def _key(self, args: bytes) -> str | None:
        unique = self.task.unique
        if unique is None:
            return None
        try:
            named = self.task.arguments.decode(args)
        except InvalidArguments:
            return None  # the worker finds the same and says so: the job will be found among the failed ones
        return unique.render({**self.task.arguments.defaults, **named})


def _uuid_of(event: Event) -> UUID:
    try:
        return UUID(event.id)
    except ValueError:
        raise UnreadableEnvelope(f"the event's id {event.id!r:.80} is no UUID: another program wrote it") from None
