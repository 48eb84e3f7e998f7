"""taskiq on Redis lists or streams."""

import peerlib as lib
from taskiq_redis import ListQueueBroker, RedisStreamBroker

if lib.MODE.startswith("stream"):
    broker = RedisStreamBroker(
        lib.REDIS_URL,
        queue_name="bench",
        consumer_id="0",  # the default "$" would skip what was queued before the first worker started
        idle_timeout=lib.by_profile(600_000, 600_000, 600_000, 5_000),
        unacknowledged_lock_timeout=lib.by_profile(None, None, None, 5),
    )
else:
    broker = ListQueueBroker(lib.REDIS_URL, queue_name="bench")
JOBS = lib.SYNC_JOBS if lib.MODE.endswith("sync") else lib.ASYNC_JOBS
TASKS = {kind: broker.task(task_name=kind)(job) for kind, job in JOBS.items()}


class Peer(lib.AsyncPeer):
    """Coroutines, or threads."""

    async def open(self) -> None:
        """Connect."""
        await broker.startup()

    async def close(self) -> None:
        """Disconnect."""
        await broker.shutdown()

    async def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        await TASKS[kind].kiq(order_id=index)

    def work(self) -> None:
        """Be a worker."""
        tuned = [] if lib.PROFILE in {"default", "reliable"} else ["--max-async-tasks", "100", "--max-prefetch", "100"]
        threads = ["--max-threadpool-threads", "100"] if lib.PROFILE == "io" else []
        options = ["--workers", "1", "--no-parse", "--log-level", "ERROR", *tuned, *threads]
        lib.exec_script("taskiq", "worker", "peer_taskiq:broker", *options)


if __name__ == "__main__":
    lib.main(Peer())
