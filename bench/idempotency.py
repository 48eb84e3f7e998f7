"""What it costs that "twice" is harmless: a drain of jobs with `once=`, and a POST with an Idempotency-Key."""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter

from bench.databases import free_port
from bench.subject import Answer, Failed, Subject, summary
from bench.workloads import LATE_S, calibrated, drain

AGAIN = 100  # jobs that are enqueued a second time after a drain: their keys must be known
SYNCS = 100
PAGE = bytes(4_096)
WAYS = ("bare", "guarded", "replay")


def once(subject: Subject) -> Answer | None:
    """The no-op drain of a task with `once=`, each job with a key of its own, beside the same jobs without."""
    if not subject.variant.ours or subject.variant.job == "sync":
        return None
    count = calibrated(subject, "noop", "throughput", 1_000)
    plain, guarded = [], []
    for _ in range(subject.settings.repeat):
        plain.append(drain(subject, count, "noop", "throughput"))
        guarded.append(drain(subject, count, "once", "throughput"))
        _again(subject, count)
    answer = summary([run["rate"] for run in guarded], count)
    answer |= {name: max(run[name] for run in guarded) for name in ("lost", "duplicated", "unsettled")}
    answer["plain"] = summary([run["rate"] for run in plain], count)
    cpu = {"cpu_ms": guarded, "plain_cpu_ms": plain}
    answer |= {name: 1_000 * min(run["cpu_s"] for run in runs) / count for name, runs in cpu.items()}
    return answer | {"ratio": answer["median"] / answer["plain"]["median"]}


def _again(subject: Subject, count: int) -> None:
    """What has been measured is only worth something if keys that have been used let nothing run again.

    Raises:
        Failed: one did.
    """
    repeated = min(AGAIN, count)
    subject.fill(repeated, 0, "once")
    subject.fill(1, count, "once")
    with subject.worker("throughput"):
        subject.record.wait(count + 1, 60)
        time.sleep(LATE_S)
    runs = Counter(entry.index for entry in subject.record.read())
    if len(runs) != count + 1 or max(runs.values()) > 1:
        raise Failed(f"of {count + 1} keys {len(runs)} ran, one of them {max(runs.values())} times")
    if left := subject.call("remaining")["jobs"]:
        raise Failed(f"{left} of {repeated + 1} jobs are left after {repeated} of their keys had been used")


def http(subject: Subject) -> Answer | None:
    """A POST to one uvicorn, without the Idempotency-Key middleware, with it, and sent again; one key each."""
    if not subject.variant.ours or subject.variant.job == "sync":
        return None
    rounds = [_round(subject) for _ in range(subject.settings.repeat)]
    answer: Answer = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    return {"n": subject.settings.samples} | answer | {"rounds": rounds}


def _round(subject: Subject) -> dict[str, float]:
    """Milliseconds of each way in turn, and how much longer the guarded one takes than the bare one."""
    count, port = subject.settings.samples, free_port()
    subject.fresh()
    with subject.worker("default", "web", "serve", str(port)):
        answer = subject.call("web", "ask", port, count, profile="default")
    runs = Counter(entry.index for entry in subject.record.read())
    if len(runs) != answer["orders"] or max(runs.values()) > 1:
        raise Failed(f"{answer['orders']} orders were sent, {len(runs)} handled, one {max(runs.values())} times")
    found = {"sync_p50_ms": _sync_ms(subject)}
    for way in WAYS:
        seconds = sorted(answer["samples"][way])
        for name, place in (("p50", len(seconds) // 2), ("p99", int(len(seconds) * 0.99))):
            found[f"{way}_{name}_ms"] = 1_000 * seconds[place]
    return found | {
        f"added_{name}_ms": found[f"guarded_{name}_ms"] - found[f"bare_{name}_ms"] for name in ("p50", "p99")
    }


def _sync_ms(subject: Subject) -> float:
    """What one synced write takes where SQLite's file lies, in the same minute: a guarded POST makes two commits."""
    path = subject.scratch / "synced"
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    seconds = []
    for _ in range(SYNCS):
        began = time.perf_counter()
        os.write(file, PAGE)
        os.fdatasync(file)
        seconds.append(time.perf_counter() - began)
    os.close(file)
    path.unlink()
    return 1_000 * statistics.median(seconds)
