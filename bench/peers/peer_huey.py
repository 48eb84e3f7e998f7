"""huey on Redis or SQLite."""

import huey as huey_module
import peerlib as lib

if lib.MODE == "sqlite":
    huey = huey_module.SqliteHuey("bench", filename=lib.SQLITE_PATH, results=False)
else:
    huey = huey_module.RedisHuey("bench", url=lib.REDIS_URL, results=False)
TASKS = {kind: huey.task(name=kind)(job) for kind, job in lib.SYNC_JOBS.items()}


class Peer(lib.SyncPeer):
    """Threads."""

    def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        TASKS[kind](order_id=index)

    def work(self) -> None:
        """Be a worker."""
        workers = lib.by_profile("4", "100", "4")
        lib.exec_script("huey_consumer", "peer_huey.huey", "-k", "thread", "-w", workers, "-q", "-n")


if __name__ == "__main__":
    lib.main(Peer())
