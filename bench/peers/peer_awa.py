"""awa on PostgreSQL: a native core with Python handlers."""

import asyncio
from dataclasses import dataclass
from typing import Any

import awa
import orders_psycopg
import peerlib as lib
from awa.bridge import insert_job


@dataclass
class Noop:
    """Arguments."""

    order_id: int


@dataclass
class Io10:
    """Arguments."""

    order_id: int


@dataclass
class Slow50:
    """Arguments."""

    order_id: int


ARGUMENTS = {"noop": Noop, "io10": Io10, "slow50": Slow50}
TIMING = {"heartbeat_staleness_ms": 6000, "heartbeat_interval_ms": 2000, "heartbeat_rescue_interval_ms": 2000}


class Peer(lib.AsyncPeer):
    """Async handlers."""

    chunk = 5000

    def setup(self) -> None:
        """Make the tables."""

        async def go() -> None:
            await awa.migrate(lib.POSTGRES_URL)
            await awa.AsyncClient(lib.POSTGRES_URL).install_queue_storage(schema="awa")

        asyncio.run(go())

    async def open(self) -> None:
        """Connect."""
        self.client = awa.AsyncClient(lib.POSTGRES_URL)

    async def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        await self.client.insert(ARGUMENTS[kind](index), queue="bench")

    async def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs."""
        make = ARGUMENTS[kind]
        await self.client.enqueue_many_copy([make(index) for index in indexes], queue="bench")

    def work(self) -> None:
        """Be a worker."""
        asyncio.run(self._work())

    async def _work(self) -> None:
        client = awa.AsyncClient(lib.POSTGRES_URL)
        for kind, job in lib.ASYNC_JOBS.items():

            async def run(item: Any, job: Any = job) -> None:
                await job(item.args.order_id)

            client.task(ARGUMENTS[kind], queue="bench")(run)
        await client.start([("bench", lib.by_profile(200, 100, 10))], **(TIMING if lib.PROFILE == "reliable" else {}))
        await asyncio.Event().wait()


class Shop(orders_psycopg.Shop):
    """The job after the commit goes by a connection of the system's own."""

    async def open(self) -> None:
        """Connect."""
        await super().open()
        self.alone = Peer()
        await self.alone.open()

    async def join(self, number: int) -> None:
        """Enqueue its job in the transaction."""
        await insert_job(self.connection, Noop(number), queue="bench")

    async def enqueue(self, number: int) -> None:
        """Enqueue its job."""
        await self.alone.put(number, "noop")

    async def close(self) -> None:
        """Disconnect."""
        await self.alone.close()
        await super().close()


def sell(count: str, way: str, _library: str) -> dict[str, float]:
    """Orders with a job each."""
    return orders_psycopg.measured(Shop(), count, way)


if __name__ == "__main__":
    lib.main(Peer(), orders=sell)
