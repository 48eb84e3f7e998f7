"""RQ on Redis, with and without a fork per job."""

import peerlib as lib
import redis
from rq import Queue, Retry

RELIABLE = lib.PROFILE == "reliable"


class Peer(lib.SyncPeer):
    """One job at a time."""

    def open(self) -> None:
        """Connect."""
        self.queue = Queue("bench", connection=redis.Redis.from_url(lib.REDIS_URL))
        self.retry = Retry(max=3) if RELIABLE else None

    def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        self.queue.enqueue(lib.SYNC_JOBS[kind], order_id=index, result_ttl=0, retry=self.retry)

    def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs."""
        options = {"result_ttl": 0, "retry": self.retry}
        job = lib.SYNC_JOBS[kind]
        self.queue.enqueue_many([Queue.prepare_data(job, kwargs={"order_id": i}, **options) for i in indexes])

    def work(self) -> None:
        """Be a worker."""
        worker = {"simple": "rq.SimpleWorker", "fork": "rq.Worker"}[lib.MODE]
        more = ["--maintenance-interval", "10", "--job-monitoring-interval", "5", "--worker-ttl", "20"]
        options = ["-u", lib.REDIS_URL, "-w", worker, "--logging_level", "WARNING", *(more if RELIABLE else [])]
        lib.exec_script("rq", "worker", *options, "bench")


if __name__ == "__main__":
    lib.main(Peer())
