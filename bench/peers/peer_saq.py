"""SAQ on Redis."""

import asyncio
import logging

import peerlib as lib
from saq import Job, Queue, Worker

RELIABLE = lib.PROFILE == "reliable"
OPTIONS = {"retries": 3, "timeout": 4, "heartbeat": 2} if RELIABLE else {}


def bind(kind, job):
    """A job with the context argument that SAQ hands in."""

    async def run(_context, *, order_id):
        await job(order_id)

    run.__qualname__ = run.__name__ = kind
    return kind, run


class Peer(lib.AsyncPeer):
    """Coroutines."""

    async def open(self) -> None:
        """Connect."""
        self.queue = Queue.from_url(lib.REDIS_URL, name="bench")
        await self.queue.connect()

    async def close(self) -> None:
        """Disconnect."""
        await self.queue.disconnect()

    async def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        await self.queue.enqueue(Job(kind, kwargs={"order_id": index}, ttl=-1, **OPTIONS))

    def work(self) -> None:
        """Be a worker."""
        logging.basicConfig(level=logging.WARNING)
        lib.use_uvloop()

        async def go() -> None:
            queue = Queue.from_url(lib.REDIS_URL, name="bench")
            worker = Worker(
                queue,
                functions=[bind(kind, job) for kind, job in lib.ASYNC_JOBS.items()],
                concurrency=lib.by_profile(100, 100, 10),
                timers={"sweep": 5} if RELIABLE else None,
            )
            await queue.connect()
            await worker.start()

        asyncio.run(go())


if __name__ == "__main__":
    lib.main(Peer())
