"""A shop that stores orders on a connection of its own, and enqueues a job for each: in the transaction, or after it.

Shared by the peers whose jobs can join the caller's transaction, and imported inside each peer's virtual environment.
"""

import time
from typing import Any

TABLE = "create table if not exists orders (id bigint primary key, total varchar(20) not null)"
WAYS = ("row", "both", "after")


class Shop:
    """One connection, in one transaction after the other. Each library has its own."""

    def open(self) -> Any:
        """Connect, and make the table of orders."""
        raise NotImplementedError

    def order(self, number: int) -> Any:
        """Store one order; begins the transaction."""
        raise NotImplementedError

    def join(self, number: int) -> Any:
        """Enqueue its job in the transaction."""
        raise NotImplementedError

    def commit(self) -> Any:
        """End the transaction."""
        raise NotImplementedError

    def enqueue(self, number: int) -> Any:
        """Enqueue its job by the system's own connection."""
        raise NotImplementedError

    def close(self) -> Any:
        """Disconnect."""
        raise NotImplementedError


def sell(shop: Shop, count: int, way: str) -> float:
    """Store orders: alone ("row"), with a job ("both"), with a job after each commit ("after"); answers seconds."""
    shop.open()
    began = 0.0
    for number in range(-1, count):  # the first prepares statements
        if number == 0:
            began = time.perf_counter()
        shop.order(number)
        if way == "both":
            shop.join(number)
        shop.commit()
        if way == "after":
            shop.enqueue(number)
    spent = time.perf_counter() - began
    shop.close()
    return spent


async def asell(shop: Shop, count: int, way: str) -> float:
    """The same, awaited."""
    await shop.open()
    began = 0.0
    for number in range(-1, count):
        if number == 0:
            began = time.perf_counter()
        await shop.order(number)
        if way == "both":
            await shop.join(number)
        await shop.commit()
        if way == "after":
            await shop.enqueue(number)
    spent = time.perf_counter() - began
    await shop.close()
    return spent
