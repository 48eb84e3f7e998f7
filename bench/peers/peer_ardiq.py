"""ardiq, whose core is native, on Redis."""

import peerlib as lib
from ardiq import Ardiq

app = Ardiq(
    lib.REDIS_URL,
    queue_name="bench",
    concurrency=lib.by_profile(100, 100, 16),
    prefetch=lib.by_profile(200, 200, 32),
    idle_timeout_ms=lib.by_profile(60_000, 60_000, 60_000, 5_000),
)
JOBS = lib.SYNC_JOBS if lib.MODE == "sync" else lib.ASYNC_JOBS
TASKS = {kind: app.task(job, name=kind) for kind, job in JOBS.items()}


class Peer(lib.AsyncPeer):
    """Coroutines, or threads."""

    async def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        await TASKS[kind].enqueue(order_id=index)

    async def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs."""
        task = TASKS[kind]
        await app.enqueue_many(task.prepare(order_id=index) for index in indexes)

    def work(self) -> None:
        """Be a worker."""
        lib.exec_script("ardiq", "run", "peer_ardiq:app", "--quiet")


if __name__ == "__main__":
    lib.main(Peer())
