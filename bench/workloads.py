"""What is timed: enqueueing, draining and latency."""

from __future__ import annotations

import statistics
import time
from collections import Counter

from bench.processes import cpu_seconds, memory
from bench.subject import Answer, Failed, Subject, summary

WIDTH = 50  # concurrent enqueues
LATE_S = 0.5  # after the last job: a duplicate would show up, and what is settled in batches is settled


def enqueue1(subject: Subject) -> Answer:
    """One producer, one job a call, each answered before the next."""
    subject.fresh()
    count = subject.scaled(subject.produce(300), 300, 200_000)
    rates = []
    for _ in range(subject.settings.repeat):
        subject.fresh()
        rates.append(subject.produce(count))
    answer = summary(rates, count)
    if subject.variant.store == "redis":
        filled = subject.store.used_memory()
        subject.store.reset()
        answer["store_bytes_per_job"] = (filled - subject.store.used_memory()) / count
    return answer


def enqueue50(subject: Subject) -> Answer | None:
    """50 coroutines of one producer that enqueue one by one at the same time; beside one coroutine alone."""
    if not subject.variant.ours or subject.variant.job == "sync":
        return None
    subject.fresh()
    probe = subject.call("gather", 2_000, WIDTH)
    count = subject.scaled(2_000 / probe["seconds"], 500, 200_000)
    rates, alone = [], []
    for _ in range(subject.settings.repeat):
        subject.fresh()
        alone.append(subject.produce(max(300, count // 8)))
        subject.fresh()
        rates.append(count / subject.call("gather", count, WIDTH)["seconds"])
    answer = summary(rates, count)
    answer["alone"] = statistics.median(alone)
    return answer | {"ratio": answer["median"] / answer["alone"]}


def bulk(subject: Subject) -> Answer | None:
    """The variant's bulk call."""
    if not subject.variant.bulk:
        return None
    subject.fresh()
    count = subject.scaled(subject.bulk(5_000), 2_000, 300_000)
    rates = []
    for _ in range(subject.settings.repeat):
        subject.fresh()
        rates.append(subject.bulk(count))
    return summary(rates, count) | {"how": subject.variant.bulk}


def drain_noop(subject: Subject) -> Answer:
    """The queue is filled, then one worker starts: jobs that do nothing."""
    count = calibrated(subject, "noop", "throughput", 1_000)
    return _drains([drain(subject, count, "noop", "throughput") for _ in range(subject.settings.repeat)])


def drain_io(subject: Subject) -> Answer:
    """The same with jobs that wait for 10 ms, 100 at once; beside the same jobs without any job system."""
    count = calibrated(subject, "io10", "io", 300)
    runs, ceilings = [], []
    for _ in range(subject.settings.repeat):
        if subject.variant.ours:
            ceilings.append(count / subject.call("ceiling", count, profile="io")["seconds"])
        runs.append(drain(subject, count, "io10", "io"))
    answer = _drains(runs)
    if ceilings:
        ceiling = statistics.median(ceilings)
        answer |= {"ceilings": ceilings, "ceiling": ceiling, "of_ceiling": answer["median"] / ceiling}
    return answer


def latency(subject: Subject) -> Answer:
    """An idle worker with default settings: from just before the enqueue call to the job's first line."""
    samples = min(subject.variant.samples, subject.settings.samples)
    rounds = []
    for _ in range(subject.settings.repeat if samples >= 300 else 1):
        subject.fresh()
        with subject.worker("default"):
            answer = subject.call("latency", samples, subject.variant.gap, profile="default")
        seconds = sorted(answer["samples"])
        rounds.append([1_000 * seconds[int(len(seconds) * part)] for part in (0.5, 0.99)] + [1_000 * seconds[-1]])
    middle, high, most = (statistics.median(column) for column in zip(*rounds, strict=True))
    return {"samples": samples, "p50_ms": middle, "p99_ms": high, "max_ms": most, "rounds": rounds}


def calibrated(subject: Subject, kind: str, profile: str, probe: int) -> int:
    """How many jobs make a run of the wanted length. Asked twice: a short first drain is mostly warming up."""
    rate = drain(subject, probe, kind, profile)["rate"]
    if rate * subject.settings.seconds > 4 * probe:
        rate = drain(subject, int(rate * subject.settings.seconds / 3), kind, profile)["rate"]
    return subject.scaled(rate, 200, 300_000)


def drain(subject: Subject, count: int, kind: str, profile: str) -> Answer:
    """The queue is filled, then one worker starts: the rate, and what it cost."""
    subject.fresh()
    subject.fill(count, 0, kind, profile)
    began = time.monotonic()
    with subject.worker(profile) as process:
        subject.record.wait(count, 120 + subject.settings.seconds * 4)
        time.sleep(LATE_S)
        used, cpu = memory(process.pid), cpu_seconds(process.pid)
    entries = subject.record.read()
    if len(entries) < 2:
        raise Failed(f"{len(entries)} of {count} jobs ran")
    runs = Counter(entry.index for entry in entries)
    stamps = sorted(entry.at for entry in entries)
    spent = stamps[-1] - stamps[0]
    answer = {
        "n": count,
        "rate": (len(stamps) - 1) / spent,
        "seconds": round(spent, 3),
        "lost": count - len(runs),
        "duplicated": len(entries) - len(runs),
        "startup_s": round(stamps[0] - began, 3),
        "cpu_s": round(cpu, 2),
    }
    if subject.variant.ours:
        answer["unsettled"] = subject.call("remaining", profile=profile)["jobs"]
    return answer | used


def _drains(runs: list[Answer]) -> Answer:
    answer = summary([run["rate"] for run in runs], runs[0]["n"]) | {"runs": runs}
    answer["rss_after_mb"] = max(run["rss_mb"] for run in runs)
    return answer | {name: max(run.get(name, 0) for run in runs) for name in ("lost", "duplicated", "unsettled")}
