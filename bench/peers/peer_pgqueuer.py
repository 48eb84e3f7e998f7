"""pgqueuer on PostgreSQL, through asyncpg."""

import asyncio
import json
import logging
from datetime import timedelta
from typing import Any

import asyncpg
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


if __name__ == "__main__":
    lib.main(Peer())
