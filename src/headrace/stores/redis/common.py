"""What all plans of this store share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from headrace.errors import StoreFull
from headrace.stores.contract import Now
from headrace.stores.plan import Call, Plan
from headrace.stores.redis.keys import Keys
from headrace.stores.redis.records import Packer, text

Id = TypeVar("Id", str, bytes)


class Common:
    """Names, keys and the few things that are remembered between operations; none of them is needed to be right."""

    def __init__(self, name: str, now: Now, *, cluster: bool, allow_eviction: bool) -> None:
        self.now = now
        self.keys = Keys(name)
        self.cluster = cluster
        self.packer = Packer()
        self.registered: set[str] = set()  # queues whose names are known to be written down
        self.allow_eviction = allow_eviction
        self.server: str | None = None  # run_id of the server that was prepared last

    def moment(self) -> str:
        """The overriding now, or '' for the server's own clock."""
        return str(self.now()) if self.now else ""

    def groups(self, queues: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Queues that one call may span: all of them, on a cluster each alone, for it has a slot of its own (B034)."""
        unique = tuple(dict.fromkeys(queues))
        if not unique:
            return []
        return [(queue,) for queue in unique] if self.cluster else [unique]

    def register(self, queues: Iterable[str]) -> Plan[None]:
        """Write the queues' names down before they are first used: what is in them can always be found."""
        fresh = set(queues) - self.registered
        if fresh:
            yield Call("SADD", (self.keys.queues,), tuple(sorted(fresh)))
            self.registered |= fresh

    def announce(self, queues: Iterable[str]) -> Plan[None]:
        """The same for workers: a server that is full may refuse, but whoever enqueued has registered it (B036)."""
        try:
            yield from self.register(queues)
        except StoreFull:
            return

    def known_queues(self, hint: str | None = None) -> Plan[list[str]]:
        """The queue of the hint, else all that were ever registered, sorted."""
        if hint is not None:
            return [hint]
        names = yield Call("SMEMBERS", (self.keys.queues,))
        return sorted(text(name) for name in names)

    def workers(self, queue: str) -> Plan[list[str]]:
        """The workers registered at a queue, whether or not they live."""
        names = yield Call("ZRANGE", (self.keys.one(queue, "workers"),), ("0", "-1"))
        return [text(name) for name in names]

    def holders(self, queue: str, ids: Sequence[Id]) -> Plan[dict[Id, str]]:
        """Which worker holds each of the ids; those that nobody holds are left out."""
        workers = yield from self.workers(queue)
        if not workers or not ids:
            return {}
        keys = tuple(self.keys.held(queue, worker) for worker in workers)
        places = yield Call("holders", keys, tuple(ids))
        return {id: workers[place - 1] for id, place in zip(ids, places, strict=False) if place}
