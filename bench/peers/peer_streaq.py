"""streaQ on Redis streams."""

import logging

import peerlib as lib
from streaq import Worker

worker = Worker(
    redis_url=lib.REDIS_URL,
    queue_name="bench",
    concurrency=lib.by_profile(100, 100, 16),
    prefetch=lib.by_profile(200, 100, None),
    idle_timeout=lib.by_profile(60, 60, 60, 5),
    anyio_kwargs={"use_uvloop": True},
)
JOBS = lib.SYNC_JOBS if lib.MODE == "sync" else lib.ASYNC_JOBS
TASKS = {kind: worker.task(name=kind, ttl=0, silent=True)(job) for kind, job in JOBS.items()}


class Peer(lib.AsyncPeer):
    """Coroutines, or threads."""

    async def open(self) -> None:
        """Connect."""
        self.scope = worker if hasattr(worker, "__aenter__") else worker.__asynccontextmanager__()
        await self.scope.__aenter__()

    async def close(self) -> None:
        """Disconnect."""
        await self.scope.__aexit__(None, None, None)

    async def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        await TASKS[kind].enqueue(order_id=index)

    async def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs."""
        task = TASKS[kind]
        await worker.enqueue_many([task.enqueue(order_id=index) for index in indexes])

    def work(self) -> None:
        """Be a worker."""
        logging.basicConfig(level=logging.WARNING)
        logging.getLogger("streaq").setLevel(logging.WARNING)
        worker.run_sync()


if __name__ == "__main__":
    lib.main(Peer())
