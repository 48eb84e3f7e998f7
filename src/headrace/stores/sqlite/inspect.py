"""The plan of `headrace doctor`: what the settings of the file promise."""

from __future__ import annotations

from headrace.core import operations as ops
from headrace.core.wording import counted
from headrace.stores.plan import Plan, Statement

SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


def inspect(op: ops.Inspect, now: int) -> Plan[list[ops.Finding]]:
    """Library, journal, durability, checkpoints, whether the file is sound, and rows that nobody can claim."""
    library = (yield Statement("inspect.library"))[0][0]
    journal = (yield Statement("inspect.journal_mode"))[0][0]
    synchronous = (yield Statement("inspect.synchronous"))[0][0]
    autocheckpoint = (yield Statement("inspect.autocheckpoint"))[0][0]
    problem = (yield Statement("inspect.check"))[0][0]
    strange = (yield Statement("inspect.strange"))[0][0]
    queues = yield Statement("inspect.queues")
    return [
        _journal(journal),
        _durability(synchronous),
        _checkpoints(library, autocheckpoint),
        _soundness(problem),
        _rows(strange, [queue for (queue,) in queues]),
    ]


def _journal(mode: str) -> ops.Finding:
    if mode == "wal":
        return ops.Finding("ok", "journal", "write-ahead log: readers and the writer do not block each other")
    return ops.Finding("error", "journal", f"journal_mode is {mode}", "let nothing change it from WAL")


def _durability(level: int) -> ops.Finding:
    name = SYNCHRONOUS.get(level, str(level))
    if level >= 2:
        return ops.Finding("ok", "durability", f"synchronous is {name}: what was acknowledged survives a power cut")
    text = f"synchronous is {name}: the last commits may be lost in a power cut"
    return ops.Finding("warning", "durability", text, "set it to FULL")


def _checkpoints(library: str, autocheckpoint: int) -> ops.Finding:
    if has_reset_fix(library):
        return ops.Finding("ok", "checkpoints", f"SQLite {library} has the fix of the WAL-reset bug")
    if autocheckpoint:
        text = f"SQLite {library} has the WAL-reset bug, and this connection checkpoints by itself"
        return ops.Finding("error", "checkpoints", text, "set wal_autocheckpoint=0, or upgrade SQLite to 3.51.3")
    text = (
        f"SQLite {library} has the WAL-reset bug; headrace checkpoints only while it holds the write lock, where the "
        "bug cannot strike. Other programs that write to this file must set wal_autocheckpoint=0"
    )
    return ops.Finding("info", "checkpoints", text, "upgrade SQLite to 3.51.3 or newer")


def has_reset_fix(library: str) -> bool:
    """Whether this SQLite version has the fix: 3.51.3, or the same on the 3.50 and 3.44 branches."""
    version = tuple(int(part) for part in library.split("."))
    return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)


def _soundness(problem: str) -> ops.Finding:
    if problem == "ok":
        return ops.Finding("ok", "integrity", "quick_check found nothing")
    return ops.Finding("error", "integrity", f"the file is damaged: {problem}", "stop all workers and restore a backup")


def _rows(strange: int, queues: list[bytes]) -> ops.Finding:
    """Only another program can have written them."""
    nameless = sum(not is_text(queue) for queue in queues)
    if not strange and not nameless:
        return ops.Finding("ok", "rows", "every waiting job has a state and a queue that workers know how to read")
    rows, names = counted(strange, "row"), counted(nameless, "queue")
    text = f"nobody will claim {rows} in states that do not exist, and those of {names} with a name that is no text"
    return ops.Finding(
        "warning", "rows", text, "another program wrote them to headrace_jobs: correct or delete them there"
    )


def is_text(name: bytes) -> bool:
    """Whether these bytes are UTF-8."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
