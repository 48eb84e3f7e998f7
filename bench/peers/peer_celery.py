"""Celery on Redis, with processes or threads."""

import peerlib as lib
from celery import Celery, group

app = Celery("peer_celery", broker=lib.REDIS_URL)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=lib.by_profile(64, 4, 4),
    broker_connection_retry_on_startup=True,
    task_acks_late=lib.PROFILE == "reliable",
    task_reject_on_worker_lost=lib.PROFILE == "reliable",
    broker_transport_options={"visibility_timeout": lib.by_profile(3600, 3600, 3600, 10)},
)
TASKS = {kind: app.task(job, name=kind) for kind, job in lib.SYNC_JOBS.items()}


class Peer(lib.SyncPeer):
    """Processes or threads."""

    def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        TASKS[kind].delay(order_id=index)

    def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs on one producer; there is no real bulk call."""
        task = TASKS[kind]
        with app.producer_pool.acquire(block=True) as producer:
            group(task.s(order_id=i) for i in indexes).apply_async(producer=producer, add_to_parent=False)

    def work(self) -> None:
        """Be a worker."""
        pool, size = {
            "prefork": ("prefork", lib.by_profile("2", "16", "2")),
            "threads": ("threads", lib.by_profile("10", "100", "10")),
        }[lib.MODE]
        options = ["-P", pool, "-c", size, "-l", "WARNING", "--without-gossip", "--without-mingle"]
        lib.exec_module("celery", "-A", "peer_celery", "worker", *options, "--without-heartbeat")


if __name__ == "__main__":
    lib.main(Peer())
