"""Errors of SQLite and of the file system, in words that say what to do."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

from headrace.errors import HeadraceError, StoreError, StoreFull, StoreMisconfigured, StoreUnavailable

BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

_LOCKED = (
    StoreUnavailable,
    (
        "{path} was locked by another writer for too long ({error}): a frozen or hung process may hold it, or an open "
        "transaction of this very process; to enqueue inside of that one, name it: using(transaction=...)"
    ),
)
_SHUT = (
    StoreMisconfigured,
    "{path} cannot be written ({error}): give this user write access to it and its directory",
)
_AWAY = (StoreUnavailable, "{path} could not be read or written: {error}")
_WORDS: dict[int, tuple[type[HeadraceError], str]] = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _SHUT,
    sqlite3.SQLITE_PERM: _SHUT,
    sqlite3.SQLITE_AUTH: _SHUT,
    sqlite3.SQLITE_IOERR: _AWAY,
    sqlite3.SQLITE_PROTOCOL: _AWAY,
    sqlite3.SQLITE_INTERRUPT: _AWAY,
    sqlite3.SQLITE_NOMEM: _AWAY,
    sqlite3.SQLITE_CANTOPEN: (
        StoreUnavailable,
        "{path} cannot be opened ({error}): check that it and its directory exist and can be written",
    ),
    sqlite3.SQLITE_FULL: (StoreFull, "{path} has no room left ({error}); nothing was enqueued: free some space"),
    sqlite3.SQLITE_NOTADB: (
        StoreMisconfigured,
        "{path} is not a SQLite database: choose another path, or move that file away",
    ),
    sqlite3.SQLITE_CORRUPT: (StoreError, "{path} is damaged ({error}): stop all workers and restore a backup"),
}

# SQLite's write-ahead log keeps its index in shared memory, which machines do not share.
NETWORK = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "afs",
    "ceph",
    "lustre",
    "ncpfs",
    "glusterfs",
    "fuse.glusterfs",
    "fuse.sshfs",
}


class UnreadableText(StoreError):
    """Another program wrote text that is not UTF-8."""


# What comes of a row that holds another kind of value than ours
FOREIGN = (UnreadableText, TypeError, ValueError, OverflowError)


def may_be_foreign(error: Exception) -> bool:
    """Whether an operation may have failed because of what another program wrote, and not because of its caller."""
    return isinstance(error, FOREIGN) and not isinstance(error, UnicodeEncodeError)


def code(error: BaseException) -> int:
    """SQLite's primary result code; 0 for other errors."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether another connection holds the lock."""
    return code(error) in BUSY


def translate(error: Exception, path: Path) -> Exception:
    """The error to raise instead: one of ours where SQLite or the file is at fault, else the error itself."""
    if not isinstance(error, sqlite3.Error):
        return error
    return _ours(error, path).with_traceback(error.__traceback__)


def _ours(error: sqlite3.Error, path: Path) -> HeadraceError:
    if isinstance(error, sqlite3.OperationalError) and str(error).startswith("Could not decode"):  # Python's words
        return UnreadableText(f"{path}: {error}")
    kind, text = _WORDS.get(code(error), (StoreError, "{path}: {error}"))
    return kind(text.format(path=path, error=error))


def check_place(path: Path) -> None:
    """Refuse a path where no shared database can live, before SQLite says so in fewer words.

    Raises:
        StoreMisconfigured: the directory is missing, the path is a directory or cannot be written, or it lies on a
            network file system.
    """
    if not path.parent.is_dir():
        raise StoreMisconfigured(
            f"the directory {path.parent} does not exist: create it, or change the database's path"
        )
    if path.is_dir():
        raise StoreMisconfigured(f"{path} is a directory: name a file in it")
    for place in (path.parent, path):  # the log needs the directory
        if place.exists() and not os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise StoreMisconfigured(f"{place} cannot be written: give this user write access to it")
    if (kind := file_system(path.parent)) in NETWORK:
        raise StoreMisconfigured(
            f"{path} lies on a network file system ({kind}), where SQLite's locks fail: use a local disk or Redis"
        )


def file_system(directory: Path) -> str:
    """The type of the file system that holds `directory`, as Linux names it; empty where it cannot be told."""
    if not sys.platform.startswith("linux"):
        return ""
    try:
        text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return deepest_mount(text, directory.resolve())


def deepest_mount(mountinfo: str, directory: Path) -> str:
    """The type of the last mount in `mountinfo` that is nearest to `directory`."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        fields, facts = mount.split(" "), source.split(" ")
        if len(fields) < 5:
            continue
        point = Path(fields[4].replace("\\040", " "))
        if directory.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), facts[0]
    return kind
