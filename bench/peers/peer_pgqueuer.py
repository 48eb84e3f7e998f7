"""pgqueuer on PostgreSQL, through asyncpg."""

import asyncio
import json
import logging
from datetime import timedelta
from typing import Any

import asyncpg
import orders
import peerlib as lib
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries


class Peer(lib.AsyncPeer):
    """Async entrypoints."""

    def setup(self) -> None:
        """Make the tables."""

        async def go() -> None:
            connection = await asyncpg.connect(lib.POSTGRES_URL)
            await Queries(AsyncpgDriver(connection)).install()
            await connection.close()

        asyncio.run(go())

    async def open(self) -> None:
        """Connect."""
        self.connection = await asyncpg.connect(lib.POSTGRES_URL)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def close(self) -> None:
        """Disconnect."""
        await self.connection.close()

    async def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        await self.queries.enqueue(kind, b'{"order_id": %d}' % index)

    async def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs."""
        count = len(indexes)
        await self.queries.enqueue([kind] * count, [b'{"order_id": %d}' % i for i in indexes], [0] * count)

    def work(self) -> None:
        """Be a worker."""
        logging.basicConfig(level=logging.WARNING)
        lib.use_uvloop()
        asyncio.run(self._work())

    async def _work(self) -> None:
        pool = await asyncpg.create_pool(lib.POSTGRES_URL, min_size=2, max_size=10)
        queuer = PgQueuer(AsyncpgPoolDriver(pool))
        for kind, job in lib.ASYNC_JOBS.items():

            async def run(item: Any, job: Any = job) -> None:
                await job(**json.loads(item.payload))

            queuer.entrypoint(kind)(run)
        await queuer.run(
            batch_size=lib.by_profile(200, 50, 10),
            max_concurrent_tasks=lib.by_profile(400, 100, None),
            heartbeat_timeout=timedelta(seconds=lib.by_profile(30, 30, 30, 5)),
        )


class Shop(orders.Shop):
    """asyncpg: its transactions are objects."""

    async def open(self) -> None:
        """Connect; the job after the commit goes by a connection of its own."""
        self.connection = await asyncpg.connect(lib.POSTGRES_URL)
        await self.connection.execute(orders.TABLE)
        self.joined = Queries(AsyncpgDriver(self.connection))
        self.alone = Peer()
        await self.alone.open()

    async def order(self, number: int) -> None:
        """Store one order."""
        self.transaction = self.connection.transaction()
        await self.transaction.start()
        await self.connection.execute("insert into orders values ($1, '9.90')", number)

    async def join(self, number: int) -> None:
        """Enqueue its job in the transaction."""
        await self.joined.enqueue("noop", b'{"order_id": %d}' % number)

    async def commit(self) -> None:
        """End the transaction."""
        await self.transaction.commit()

    async def enqueue(self, number: int) -> None:
        """Enqueue its job by the other connection."""
        await self.alone.put(number, "noop")

    async def close(self) -> None:
        """Disconnect."""
        await self.alone.close()
        await self.connection.close()


def sell(count: str, way: str, _library: str) -> dict[str, float]:
    """Orders with a job each."""
    return {"n": int(count), "seconds": lib.run_loop(orders.asell(Shop(), int(count), way))}


if __name__ == "__main__":
    lib.main(Peer(), orders=sell)
