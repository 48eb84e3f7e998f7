"""Errors of SQLite and of the file system, in words that say what to do."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

from headrace.errors import HeadraceError, StoreError, StoreFull, StoreMisconfigured, StoreUnavailable

BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
AWAY = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_NOMEM}
SHUT = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}

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
    number = code(error)
    if number in BUSY:
        return StoreUnavailable(f"{path} was locked by another writer for too long: {error}")
    if number == sqlite3.SQLITE_FULL:
        return StoreFull(f"{path} has no room left ({error}); nothing was enqueued: free some space")
    if number == sqlite3.SQLITE_NOTADB:
        return StoreMisconfigured(f"{path} is not a SQLite database: choose another path, or move that file away")
    if number == sqlite3.SQLITE_CORRUPT:
        return StoreError(f"{path} is damaged ({error}): stop all workers and restore a backup")
    if number in SHUT:
        return StoreMisconfigured(
            f"{path} cannot be written ({error}): give this user write access to it and its directory"
        )
    if number == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable(
            f"{path} cannot be opened ({error}): check that its directory exists and can be written"
        )
    if number in AWAY:
        return StoreUnavailable(f"{path} could not be read or written: {error}")
    return StoreError(f"{path}: {error}")


def check_place(path: Path) -> None:
    """Refuse a path where no shared database can live, before SQLite says so in fewer words.

    Raises:
        StoreMisconfigured: the directory is missing, the path is a directory, or it lies on a network file system.
    """
    if not path.parent.is_dir():
        raise StoreMisconfigured(
            f"the directory {path.parent} does not exist: create it, or change the path of the database"
        )
    if path.is_dir():
        raise StoreMisconfigured(f"{path} is a directory: name a file in it")
    if (kind := file_system(path.parent)) in NETWORK:
        raise StoreMisconfigured(
            f"{path} lies on a network file system ({kind}), where SQLite's locks do not hold: use a local disk, or Redis"
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
