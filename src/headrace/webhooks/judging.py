"""What an answer means: delivered, again later, or never again. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec

from headrace.errors import ConfigError
from headrace.webhooks.client import Answer

LONGEST_WAIT_S = 86_400.0  # that an answer may ask for; more is taken for this
SHOWN = 200  # characters of an answer's body in log and history
GONE = 410

Success = Literal["2xx", "success"] | Callable[[Answer], bool]


class Delivered(msgspec.Struct, frozen=True):
    """The receiver has it, as agreed."""

    said: str


class Again(msgspec.Struct, frozen=True):
    """Not delivered: to be tried again by schedule, and not before `wait_s` seconds are over."""

    said: str
    wait_s: float = 0.0


class Gone(msgspec.Struct, frozen=True):
    """The receiver wants no webhooks at this address any more."""

    said: str


Judgement = Delivered | Again | Gone


def checked_success(success: Success) -> Success:
    """`success`, if it says what has been agreed on.

    Raises:
        ConfigError: it is none of "2xx", "success" and a callable.
    """
    if success in ("2xx", "success") or callable(success):
        return success
    raise ConfigError(f"success is {success!r}: give '2xx', 'success', or a callable that is handed the Answer")


def judge(answer: Answer, success: Success, now_s: float) -> Judgement:
    """What becomes of the delivery. `now_s` is in seconds since the epoch, for dates in `Retry-After`.

    Any status but 2xx and 410 is tried again: the specification calls every other one a failure and no end, and what is
    400, 401 or 404 in the middle of a deploy of the receiver's is 200 an hour later.
    """
    said = describe(answer)
    if _is_success(answer, success):
        return Delivered(said)
    if answer.status == GONE:
        return Gone(said)
    return Again(said, min(LONGEST_WAIT_S, retry_after(answer.retry_after, now_s)))


def _is_success(answer: Answer, success: Success) -> bool:
    if callable(success):
        return success(answer) is True
    if not 200 <= answer.status <= 299:
        return False
    return success == "2xx" or (answer.whole and answer.body == b"success")


def describe(answer: Answer) -> str:
    """An answer in one line: its status and the first 200 characters of its body."""
    text = answer.body.decode("utf-8", "replace")
    text = "".join(letter if letter.isprintable() else " " for letter in text[:SHOWN])
    return f"{answer.status} {text}".rstrip()


def retry_after(value: str | None, now_s: float) -> float:
    """The header `Retry-After`, a number of seconds or a date, in seconds from now; 0 where it cannot be read.

    Source: RFC 9110, 10.2.3.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):  # what its parser makes of nonsense
        return 0.0
    if moment.tzinfo is None:  # "-0000", and the form of asctime: both mean UTC
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now_s)
