"""awa on PostgreSQL: a native core with Python handlers."""

import asyncio
from dataclasses import dataclass
from typing import Any

import awa
import peerlib as lib


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


if __name__ == "__main__":
    lib.main(Peer())
