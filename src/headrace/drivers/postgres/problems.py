"""Errors of PostgreSQL and of the way to it, in words that say what to do."""

from __future__ import annotations

import psycopg

from headrace.errors import HeadraceError, InvalidArguments, StoreError, StoreFull, StoreMisconfigured, StoreUnavailable

UNDONE = {"40001", "40P01"}  # a conflict with another transaction: ours was undone, and may be tried again at once
MISSING = {"42P01", "42883", "3F000"}  # tables are not there, or not any more
STANDBY = "25006"
STALE_PLAN = "0A000"  # a prepared statement whose tables have changed; nothing of ours is unsupported

_AWAY = (StoreUnavailable, "{place} does not serve now: {error}")
_SLOW = (StoreUnavailable, "{place} took too long: {error}")
_NO_TABLES = (
    StoreUnavailable,
    "{place}: tables of headrace are missing, the next operation makes them: {error}",
)
_UNSTORABLE = (
    InvalidArguments,
    "PostgreSQL cannot store a text of this job: ids, queue names and keys cannot hold NUL characters ({error})",
)
_WORDS: dict[str, tuple[type[HeadraceError], str]] = {
    "08": _AWAY,
    "57P": _AWAY,
    "25P": _AWAY,
    "53": _AWAY,
    "58": _AWAY,
    "57014": _SLOW,
    "55P03": _SLOW,
    "40": (StoreUnavailable, "{place}: too many transactions at once, repeat the operation: {error}"),
    "53100": (StoreFull, "{place} has no room left ({error}); nothing was enqueued: free some space"),
    STALE_PLAN: (StoreUnavailable, "{place}: its tables have just been changed, repeat the operation: {error}"),
    "42P01": _NO_TABLES,
    "42883": _NO_TABLES,
    "3F000": (StoreMisconfigured, "{place}: {error}. Create the schema, or set search_path for the user or database"),
    STANDBY: (StoreMisconfigured, "{place} is a standby and takes no writes: connect to the primary ({error})"),
    "42501": (
        StoreMisconfigured,
        "{place}: a right is missing ({error}): let the owner run `headrace schema upgrade`, grant tables, sequences",
    ),
    "28": (StoreMisconfigured, "{place} does not let this user in: {error}"),
    "3D": (StoreMisconfigured, "{place}: {error}. Create the database, or name another one"),
    "54": (InvalidArguments, "an id, a queue's name or a unique key is too long for PostgreSQL's indexes: {error}"),
    "22021": _UNSTORABLE,
    "22P05": _UNSTORABLE,
}


def translate(error: Exception, place: object) -> Exception:
    """The error to raise instead: one of ours where PostgreSQL or the way to it is at fault, else the error itself."""
    if isinstance(error, UnicodeEncodeError):
        return InvalidArguments(f"a text of this job is not valid Unicode: {error}")
    if not isinstance(error, psycopg.Error):
        return error
    if error.sqlstate is None and isinstance(error.__context__, StoreUnavailable):
        return error.__context__  # what follows, such as a pipeline that cannot be left, only hides it
    kind, text = _kind(error)
    said = " ".join(str(error).split()) or type(error).__name__
    return kind(text.format(place=place, error=said)).with_traceback(error.__traceback__)


def _kind(error: psycopg.Error) -> tuple[type[HeadraceError], str]:
    state = error.sqlstate
    if state is None:
        if isinstance(error, psycopg.DataError):
            return _UNSTORABLE
        if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            return StoreUnavailable, "no connection to {place}: {error}"
        return StoreError, "{place}: {error}"
    for length in (5, 3, 2):
        if state[:length] in _WORDS:
            return _WORDS[state[:length]]
    return StoreError, "{place} refused ({error})"
