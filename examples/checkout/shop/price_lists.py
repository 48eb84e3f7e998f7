"""Reading the price lists of suppliers."""

from __future__ import annotations

import os
import signal

from sqlalchemy.orm import Session

from .models import PriceList

CORRUPT = 13  # the one list that no parser survives
CURRENCIES = ("EUR",)


class UnknownCurrency(Exception):
    """This shop has no rate for it, and no waiting will give it one."""


def parse(session: Session, list_id: int, currency: str, job_id: str) -> None:
    """Take over the prices. The parser is a C library, and a corrupt list brings down its whole process."""
    if list_id == CORRUPT:
        os.kill(os.getpid(), signal.SIGKILL)
    if currency not in CURRENCIES:
        raise UnknownCurrency(f"list {list_id}: {currency!r} is none of {', '.join(CURRENCIES)}")
    session.merge(PriceList(list_id=list_id, job_id=job_id, currency=currency))
