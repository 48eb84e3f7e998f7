"""dramatiq on Redis."""

import os

import dramatiq
import peerlib as lib
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(
    url=lib.REDIS_URL,
    heartbeat_timeout=lib.by_profile(60_000, 60_000, 60_000, 10_000),
    # commands in a million that look for dead workers
    maintenance_chance=lib.by_profile(1_000, 1_000, 1_000, 100_000),
)
dramatiq.set_broker(broker)
ACTORS = {kind: dramatiq.actor(job, actor_name=kind) for kind, job in lib.SYNC_JOBS.items()}


class Peer(lib.SyncPeer):
    """Threads."""

    def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        ACTORS[kind].send(order_id=index)

    def work(self) -> None:
        """Be a worker."""
        if lib.PROFILE in {"throughput", "io"}:  # documented knob: messages fetched per round trip
            os.environ["dramatiq_queue_prefetch"] = "1000"  # noqa: SIM112 - its name
        threads = lib.by_profile("8", "100", "8")
        processes = "2" if lib.MODE == "2proc" else "1"
        lib.exec_module("dramatiq", "peer_dramatiq", "--processes", processes, "--threads", threads)


if __name__ == "__main__":
    lib.main(Peer())
