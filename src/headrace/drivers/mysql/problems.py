"""Errors of servers and client libraries, in words that say what to do."""

from __future__ import annotations

from typing import Any

from headrace.drivers.mysql.address import Address
from headrace.errors import HeadraceError, PayloadTooLarge, StoreError, StoreFull, StoreMisconfigured, StoreUnavailable

# the transaction was rolled back, or one statement that waited too long: begun anew, it may well succeed
RETRYABLE = {1213, 1205, 1020}

# the server ends the connection, or cannot be reached: 4031 is a timeout of MySQL's, 1927 a KILL of MariaDB's
LOST = {
    *(1040, 1042, 1043, 1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1226, 1317),
    *(1927, 1969, 2002, 2003, 2006, 2012, 2013, 2014, 2027, 2055, 3024, 3159, 4031),
}
# RuntimeErrors of asyncmy and uvloop about a connection that was reset a moment ago, and nothing of the program's
_RESET = ("does not expose socket", "the handler is closed")
_RIGHTS = "give its user the right, or run `headrace schema upgrade` once as a user who may create tables"
_WORDS: dict[int, tuple[type[HeadraceError], str]] = {
    1044: (StoreMisconfigured, "{user} may not use {place}: {error}. " + _RIGHTS),
    1045: (StoreMisconfigured, "{place} does not let us in: {error}. Give user and password in the URL"),
    1698: (StoreMisconfigured, "{place} does not let us in: {error}. Give user and password in the URL"),
    1049: (StoreMisconfigured, "{place} does not exist: {error}. Create it, or name another in the URL"),
    1142: (StoreMisconfigured, "{user} may not do that in {place}: {error}. " + _RIGHTS),
    1143: (StoreMisconfigured, "{user} may not do that in {place}: {error}. " + _RIGHTS),
    1227: (StoreMisconfigured, "{user} may not do that in {place}: {error}. " + _RIGHTS),
    1370: (StoreMisconfigured, "{user} may not do that in {place}: {error}. " + _RIGHTS),
    1146: (
        StoreMisconfigured,
        "{place} lacks a table: {error}. Run `headrace schema upgrade`, and see that nobody drops tables of ours",
    ),
    1054: (StoreMisconfigured, "{place} has tables of another shape: {error}. Run `headrace schema upgrade`"),
    1059: (StoreMisconfigured, "{error}: choose a shorter name= of the app"),
    1071: (StoreMisconfigured, "{place} cannot hold our indexes ({error}): it needs InnoDB pages of 16 kB"),
    1064: (
        StoreMisconfigured,
        "{place} does not know a statement ({error}): headrace needs MySQL 8.0.1 or MariaDB 10.6, or newer",
    ),
    1290: (StoreUnavailable, "{place} is read only ({error}): name the primary in the URL, or wait for the failover"),
    1792: (StoreUnavailable, "{place} is read only ({error}): name the primary in the URL, or wait for the failover"),
    1836: (StoreUnavailable, "{place} is read only ({error}): name the primary in the URL, or wait for the failover"),
    1665: (StoreMisconfigured, "{place} cannot log that ({error}): set binlog_format to ROW or MIXED"),
    1153: (PayloadTooLarge, "{place} takes no packet of this size ({error}): raise max_allowed_packet to 16M"),
    **dict.fromkeys(
        (28, 1021, 1026, 1041, 1114, 3674),
        (StoreFull, "{place} has no room left ({error}); nothing was enqueued: give it room, or let workers drain it"),
    ),
}


def code_of(error: BaseException) -> int:
    """The server's number for an error; 0 where it has none."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


class Contended(StoreUnavailable):
    """Others held what the transaction needed: begun anew, it may well succeed."""


def is_lost(error: BaseException) -> bool:
    """Whether the connection is of no use any more, or its state unknown: the library itself has no number for that."""
    return code_of(error) in LOST | {0}


def translate(error: Exception, errors: Any, address: Address) -> Exception:
    """The error to raise instead; `errors` is the client library's module that has `MySQLError`.

    Of PyMySQL the package itself: Django, which imports parts of it as `MySQLdb`, puts another copy in place of
    `pymysql.err`.
    """
    if isinstance(error, OSError | EOFError) or _is_reset(error):
        return StoreUnavailable(f"the connection to {address} was lost: {error}")
    if not isinstance(error, errors.MySQLError):
        return error
    code = code_of(error)
    message = error.args[1] if len(error.args) > 1 else str(error)
    if code in _WORDS:
        kind, words = _WORDS[code]
        return kind(words.format(place=address, user=address.user, error=message))
    if code in RETRYABLE:
        return Contended(f"{address}: others held what we needed for too long: {message}")
    if is_lost(error):
        return StoreUnavailable(f"no answer from {address}: {message}")
    return StoreError(f"{address} refused: {message} ({code})")


def _is_reset(error: Exception) -> bool:
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _RESET)
