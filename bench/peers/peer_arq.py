"""arq on Redis."""

import logging

import arq
import peerlib as lib
from arq.connections import RedisSettings

SETTINGS = RedisSettings.from_dsn(lib.REDIS_URL)


def bind(kind, job):
    """A job with the context argument that arq hands in."""

    async def run(_context, order_id):
        await job(order_id)

    return arq.worker.func(run, name=kind, keep_result=0)


class WorkerSettings:
    """What arq's worker reads."""

    redis_settings = SETTINGS
    functions = tuple(bind(kind, job) for kind, job in lib.ASYNC_JOBS.items())
    keep_result = 0
    max_jobs = lib.by_profile(100, 100, 10)
    poll_delay = lib.by_profile(0.02, 0.02, 0.5)
    job_timeout = lib.by_profile(300, 300, 300, 5)


class Peer(lib.AsyncPeer):
    """Coroutines."""

    async def open(self) -> None:
        """Connect."""
        self.pool = await arq.create_pool(SETTINGS)

    async def close(self) -> None:
        """Disconnect."""
        await self.pool.aclose()

    async def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        await self.pool.enqueue_job(kind, order_id=index)

    def work(self) -> None:
        """Be a worker."""
        lib.use_uvloop()
        logging.basicConfig(level=logging.WARNING)
        arq.run_worker(WorkerSettings)


if __name__ == "__main__":
    lib.main(Peer())
