"""procrastinate on PostgreSQL, through psycopg."""

import asyncio
import logging
from typing import Any

import orders_psycopg
import peerlib as lib
import procrastinate

RELIABLE = lib.PROFILE == "reliable"
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=lib.POSTGRES_URL, min_size=1, max_size=10))
TASKS = {kind: app.task(name=kind, queue="bench")(job) for kind, job in lib.ASYNC_JOBS.items()}

if RELIABLE:  # the documented recipe for jobs of dead workers

    @app.periodic(cron="* * * * * */5")
    @app.task(name="retry_stalled", queueing_lock="retry_stalled", pass_context=True)
    async def retry_stalled(context: Any, timestamp: int) -> None:
        """Enqueue again what a dead worker held."""
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=10):
            await app.job_manager.retry_job(job)


class Peer(lib.AsyncPeer):
    """Async tasks."""

    def setup(self) -> None:
        """Make the tables."""

        async def go() -> None:
            async with app.open_async():
                await app.schema_manager.apply_schema_async()

        asyncio.run(go())

    async def open(self) -> None:
        """Connect."""
        await app.open_async()

    async def close(self) -> None:
        """Disconnect."""
        await app.close_async()

    async def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        await TASKS[kind].defer_async(order_id=index)

    async def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs."""
        await TASKS[kind].batch_defer_async(*[{"order_id": index} for index in indexes])

    def work(self) -> None:
        """Be a worker."""
        logging.basicConfig(level=logging.WARNING)
        lib.use_uvloop()
        asyncio.run(self._work())

    async def _work(self) -> None:
        timing = {"update_heartbeat_interval": 2, "stalled_worker_timeout": 10} if RELIABLE else {}
        async with app.open_async():
            await app.run_worker_async(concurrency=lib.by_profile(100, 100, 10), **timing)


class Shop(orders_psycopg.Shop):
    """The job after the commit goes by a connection of the system's own."""

    async def open(self) -> None:
        """Connect."""
        await super().open()
        self.alone = Peer()
        await self.alone.open()

    async def join(self, number: int) -> None:
        """Enqueue its job in the transaction."""
        await TASKS["noop"].configure(connection=self.connection).defer_async(order_id=number)

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
