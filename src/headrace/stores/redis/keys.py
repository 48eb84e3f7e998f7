"""The keys of a queue and the texts of the scripts.

All keys of one queue share the hash tag `{NAME:QUEUE}`, so that a cluster keeps them in one slot (B034). Names are
escaped inside the tag: a brace or a colon in a queue's name can neither end the tag nor make two queues one.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

# The order is that of `queue_at` in library.lua; every script that touches a queue is handed all of them.
SUFFIXES = (
    "jobs",
    "state",
    "ready",
    "due",
    "waiting",
    "running",
    "workers",
    "claims",
    "meta",
    "short0",
    "short1",
    "day0",
    "day1",
    "failed",
    "succeeded",
    "cancelled",
    "expired",
    "kept",
    "uniques",
    "unique_of",
    "cancels",
    "wake",
    "parked",
    "once",
    "once_until",
    "parked_for",
)

ONE_SUFFIXES = ("jobs", "ready", "due", "meta", "wake", "short0", "short1", "day0", "day1")
"""What enqueue_one.lua is handed."""

LIBRARIES = {
    "enqueue": ("library_enqueue",),
    "settle": ("library_settle",),
    "settle_more": ("library_settle", "library_enqueue", "library_once"),
    "sweep": ("library_once",),
    "take_once": ("library_once",),
    "renew_once": ("library_once",),
    "end_once": ("library_once",),
    "sweep_once": ("library_once",),
    "unpark": ("library_parked",),
    "look_parked": ("library_parked",),
    "mend_parked": ("library_parked",),
}
"""What scripts share besides library.lua."""

_ESCAPES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D", ":": "%3A"})


class Keys:
    """The keys under one name."""

    def __init__(self, name: str) -> None:
        self._name = name.translate(_ESCAPES)
        self._of_queue: dict[str, tuple[str, ...]] = {}
        self._for_one: dict[str, tuple[str, ...]] = {}
        self.queues = f"{{{self._name}}}:queues"
        """A set: the names of all queues. In a slot of its own, so no script of a queue touches it."""
        self.once = (f"{{{self._name}}}:once", f"{{{self._name}}}:once_until")
        """Once records that are held by a lease: as `once` and `once_until` of a queue, in the slot of no queue."""
        self.registers = tuple(
            f"{{{self._name}}}:{suffix}" for suffix in ("registers", "registers_names", "registers_until")
        )
        """Registers, in the same slot; see amend.lua."""

    def tag(self, queue: str) -> str:
        """The hash tag of a queue, braces included."""
        return f"{{{self._name}:{queue.translate(_ESCAPES)}}}"

    def of(self, queue: str) -> tuple[str, ...]:
        """Every key of a queue but those of single workers."""
        known = self._of_queue.get(queue)
        if known is None:
            tag = self.tag(queue)
            known = self._of_queue[queue] = tuple(f"{tag}:{suffix}" for suffix in SUFFIXES)
        return known

    def for_one(self, queue: str) -> tuple[str, ...]:
        """The keys of enqueue_one.lua."""
        known = self._for_one.get(queue)
        if known is None:
            tag = self.tag(queue)
            known = self._for_one[queue] = tuple(f"{tag}:{suffix}" for suffix in ONE_SUFFIXES)
        return known

    def one(self, queue: str, suffix: str) -> str:
        """One key of a queue."""
        return f"{self.tag(queue)}:{suffix}"

    def held(self, queue: str, worker: str) -> str:
        """What `worker` holds in `queue`."""
        return f"{self.tag(queue)}:held:{worker}"

    def of_all(self, queues: tuple[str, ...], worker: str | None = None) -> tuple[str, ...]:
        """The keys of several queues, then for each what `worker` holds there."""
        together = tuple(key for queue in queues for key in self.of(queue))
        return together if worker is None else together + tuple(self.held(queue, worker) for queue in queues)


@cache
def scripts() -> dict[str, str]:
    """Every script by name: what it shares with others followed by the script, as they stand in their files.

    The one that is sent most often stands alone.
    """
    texts = {
        file.name.removesuffix(".lua"): file.read_text(encoding="utf-8")
        for file in resources.files(__package__).joinpath("lua").iterdir()
        if file.name.endswith(".lua")
    }
    shared = {name: texts.pop(name) for name in [name for name in texts if name.startswith("library")]}
    return {
        name: text
        if name == "enqueue_one"
        else "".join(shared[each] for each in ("library", *LIBRARIES.get(name, ()))) + text
        for name, text in texts.items()
    }
