"""What is watched: an idle worker, a deep queue, a killed worker, a worker's memory."""

from __future__ import annotations

import statistics
import time
from collections import Counter

from bench.processes import cpu_seconds, kill, memory, resident, tree
from bench.record import DONE, START
from bench.subject import Answer, Failed, Subject, until

SHALLOW = 10_000  # a queue of up to so many jobs is filled anew for each round
DEEPEST_PEER = 100_000  # most peers take minutes to fill a queue beyond it
DRAINED = 5_000  # at least so many: fewer are over before the worker has warmed up
SAMPLE_S = 0.1
POLLED_S = 300.0
LOOK_S = 0.5


def idle(subject: Subject) -> Answer:
    """Memory, processor time and store operations of a worker with default settings that has nothing to do."""
    subject.fresh()
    return _idle(subject, subject.settings.idle)


def _idle(subject: Subject, seconds: float) -> Answer:
    subject.forget_runs()
    store = subject.store
    with subject.worker("default") as process:
        subject.produce(5, profile="default")
        if not subject.record.wait(5, 60):
            raise Failed(f"{len(subject.record)} of 5 jobs ran")
        time.sleep(min(2.0, seconds))
        operations = store.operations()
        used, cpu, store_cpu = memory(process.pid), cpu_seconds(process.pid), store.cpu_seconds()
        time.sleep(seconds)
        return {
            **used,
            "processes": len(tree(process.pid)),
            "cpu_percent": (cpu_seconds(process.pid) - cpu) * 100 / seconds,
            "store_cpu_percent": (store.cpu_seconds() - store_cpu) * 100 / seconds,
            "store_ops_per_s": (store.operations() - operations) / seconds,
        }


def polls(subject: Subject) -> Answer | None:
    """The same with many polls waiting for their second query, beside an empty store; watched for twice as long."""
    if not subject.variant.ours or subject.variant.job == "sync":
        return None
    count, seconds = subject.settings.polls, 2 * subject.settings.idle
    subject.fresh()
    empty = _idle(subject, seconds)
    subject.fresh()
    subject.fill(count, 0, "poll")
    with subject.worker("throughput"):
        if not subject.record.wait(count, POLLED_S):
            raise Failed(f"{len(subject.record)} of {count} polls asked")
        if not until(lambda: subject.call("remaining")["scheduled"] == count, POLLED_S, pause=LOOK_S):
            raise Failed(f"of {count} polls {subject.call('remaining')['scheduled']} are waiting")
    stamps = sorted(entry.at for entry in subject.record.read())
    answer = _idle(subject, seconds) | {"n": count, "first_queries": (count - 1) / (stamps[-1] - stamps[0])}
    if (waiting := subject.call("remaining")["scheduled"]) != count:
        raise Failed(f"of {count} polls {waiting} are waiting")
    return answer | {"empty": empty}


def depth(subject: Subject) -> Answer:
    """Enqueue one by one, and drain, with many jobs already waiting; the same number of jobs at each depth."""
    answer: Answer = {}
    settings, variant = subject.settings, subject.variant
    depths = [depth for depth in settings.depths if variant.ours or depth <= DEEPEST_PEER]
    subject.fresh()
    count = max(100, min(20_000, int(subject.produce(200) * settings.seconds / 2)))
    drain = max(DRAINED, min(depths) + count)
    for waiting in depths:
        enqueued, drained = [], []
        filled = 0.0
        for turn in range(settings.repeat):
            if turn == 0 or waiting <= SHALLOW:
                subject.fresh()
                began = time.monotonic()
                subject.fill(waiting, 1_000_000)
                filled = time.monotonic() - began
            enqueued.append(subject.produce(count, 1_000 + turn * count))
            if (short := drain - waiting - count) > 0:
                subject.fill(short, 2_000_000)
            drained.append(_first(subject, drain))
        answer[str(waiting)] = {
            "enqueue1": statistics.median(enqueued),
            "drain": statistics.median(drained),
            "rates": {"enqueue1": enqueued, "drain": drained},
            "n": count,
            "drained": drain,
            "fill_s": round(filled, 1),
            "store_mb": round(subject.store.used_memory() / 2**20, 1),
        }
    return answer


def _first(subject: Subject, count: int) -> float:
    """The rate at which a new worker runs the first `count` of the waiting jobs."""
    subject.forget_runs()
    with subject.worker("throughput"):
        if not subject.record.wait(count, 180):
            raise Failed(f"{len(subject.record)} of {count} jobs ran")
    stamps = sorted(entry.at for entry in subject.record.read())[:count]
    return (count - 1) / (stamps[-1] - stamps[0])


def crash(subject: Subject) -> Answer:
    """SIGKILL of a worker half way through jobs of 50 ms; another starts at once. Watched until all have run."""
    wanted = [profile for profile in subject.settings.profiles if profile == "default" or subject.variant.reliable]
    return {profile: _crash(subject, profile) for profile in wanted}


def _crash(subject: Subject, profile: str) -> Answer:
    count = subject.settings.crash_jobs
    subject.fresh()
    subject.fill(count, 0, "slow50", profile)
    with subject.worker(profile) as process:
        if not subject.record.wait(count, 180):  # two entries a job: half of the jobs
            raise Failed(f"only {len(subject.record)} entries before the kill")
        until(subject.record.interrupted, 10)  # the kill must interrupt something
        kill(process)
    killed = time.monotonic()
    interrupted = subject.record.interrupted()
    with subject.worker(profile):
        if until(lambda: len(subject.record.ended()) == count, subject.settings.watch, pause=0.5):
            time.sleep(subject.settings.settled)
    watched = round(time.monotonic() - killed)
    entries = subject.record.read()
    starts = Counter(entry.index for entry in entries if entry.event == START)
    ends = Counter(entry.index for entry in entries if entry.event == DONE)
    early = {entry.index for entry in entries if entry.event == DONE and entry.at < killed + 60}
    again = sorted(entry.at - killed for entry in entries if entry.event == DONE and entry.index in interrupted)
    return {
        "n": count,
        "running_at_kill": len(interrupted),
        "not_completed_60s": count - len(early),
        "not_completed": count - len(ends),
        "watched_s": watched,
        "interrupted_and_rerun": len(interrupted & set(ends)),
        "completed_twice": sum(number > 1 for number in ends.values()),
        "started_twice": sum(number > 1 for number in starts.values()),
        "rerun_after_s": [round(again[0], 1), round(again[-1], 1)] if again else None,
    }


def memory_growth(subject: Subject) -> Answer | None:
    """Resident memory of a worker while it runs many jobs, beside its size after a warm-up of half as many."""
    if not subject.variant.ours:
        return None
    warm = subject.settings.memory_jobs // 2
    count = warm + subject.settings.memory_jobs
    subject.fresh()
    subject.fill(count)
    samples: list[tuple[int, float]] = []
    with subject.worker("throughput") as process:
        end = time.monotonic() + 300
        while (done := len(subject.record)) < count:
            if process.poll() is not None or time.monotonic() > end:
                raise Failed(f"{done} of {count} jobs ran")
            samples.append((done, round(resident(process.pid), 2)))
            time.sleep(SAMPLE_S)
        samples.append((count, round(resident(process.pid), 2)))
    after = [size for done, size in samples if done >= warm]
    return {
        "n": subject.settings.memory_jobs,
        "warm_up": warm,
        "warm_mb": after[0],
        "most_mb": max(after),
        "last_mb": after[-1],
        "growth_percent": (max(after) / after[0] - 1) * 100,
        "samples": samples[:: max(1, len(samples) // 200)],
    }
