"""When things fail: circuits, replays, jobs that must be killed, and a job that kills."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import time
from collections.abc import Sequence

from bench.dependency import Dependency
from bench.subject import Answer, Failed, Subject, summary, until
from bench.workloads import LATE_S, calibrated

OTHERS = 1_000_000  # as in headrace_failing: the first number of the second kind of jobs
STUCK_S, GRACE_S = 0.2, 0.1  # what a stuck job is given, and then to stop by itself
TOGETHER = 250  # jobs of one kind that follow each other, in a queue of two kinds
DRAIN_S = 120.0
CALLS, FAILS_FROM = 3_000, 500  # of the dependency
GOOD = 20
DEATHS = 3  # that a poison job is given
WAYS = ("alone", "closed", "run", "parked", "beside")


def _asked(subject: Subject) -> bool:
    return subject.variant.ours and subject.variant.job == "async"


# -- circuits


def circuit(subject: Subject) -> Answer | None:
    """The no-op drain beside jobs of an open circuit, and through a closed one; calls that come after an opening.

    alone: N jobs of a task without a circuit, nothing else in the queue. closed: N jobs of a task whose circuit is
    closed. run: N jobs among N others, which run too; no circuit anywhere. parked: the same, but the circuit of the
    others is open, and each of them is claimed and parked meanwhile. beside: N jobs without a circuit, while those N
    lie parked.
    """
    if not _asked(subject):
        return None
    count = calibrated(subject, "noop", "throughput", 1_000)
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(subject.settings.repeat):
        _round(subject, count, rates)
    answer: Answer = {"n": count} | {way: summary(found, count) for way, found in rates.items()}
    middle = {way: statistics.median(found) for way, found in rates.items()}
    for way, without in (("closed", "alone"), ("parked", "run"), ("beside", "alone")):
        answer[f"{way}_ratio"] = middle[way] / middle[without]
    for workers in (1, 2):
        answer |= {f"{name}_{workers}": value for name, value in _opening(subject, workers).items()}
    return answer


def _round(subject: Subject, count: int, rates: dict[str, list[float]]) -> None:
    plain, ours = ("work",), ("failing", "work", "0")
    subject.fresh()
    subject.fill(count)
    rates["alone"].append(_drained(subject, count, count, plain))
    subject.fresh()
    subject.call("failing", "fill", count, TOGETHER, "guarded")
    rates["closed"].append(_drained(subject, count, count, ours))
    subject.fresh()
    subject.call("failing", "fill", count, TOGETHER, "noop", "noop")
    rates["run"].append(_drained(subject, count, 2 * count, plain))
    subject.fresh()
    subject.call("failing", "open")
    subject.call("failing", "fill", count, TOGETHER, "noop", "held")
    rates["parked"].append(_drained(subject, count, count, ours, parked=count))
    subject.fill(count)
    rates["beside"].append(_drained(subject, count, count, ours, parked=count))


def _drained(subject: Subject, count: int, runs: int, words: Sequence[str], *, parked: int = 0) -> float:
    """The rate of the first kind of jobs, while a new worker runs so many in all. So many must be parked in the end."""
    subject.forget_runs()
    with subject.worker("throughput", *words):
        subject.record.wait(runs, DRAIN_S)
        time.sleep(LATE_S)
        found = subject.call("failing", "counted", "parked", parked)["jobs"] if parked else 0
    entries = subject.record.read()
    stamps = sorted(entry.at for entry in entries if entry.index < OTHERS)
    if (len(entries), len(stamps), found) != (runs, count, parked):
        raise Failed(f"{len(entries)} of {runs} jobs ran, {found} of {parked} are parked")
    return (count - 1) / (stamps[-1] - stamps[0])


def _opening(subject: Subject, workers: int) -> Answer:
    """A dependency begins to fail under the calls of so many workers, each with 100 jobs at once.

    heard_ms: from the transition in the store until the worker that caused it knows of it: one settle. after: calls
    that came after the transition; last_ms: how long after it. late: those of them that came after it was heard, and
    probes beyond those that are let in. probes: the most of a half-open circuit.
    """
    subject.fresh()
    subject.call("failing", "fill", CALLS, TOGETHER, "call", "noop")
    with Dependency(fails_from=FAILS_FROM) as dependency, contextlib.ExitStack() as cleanup:
        for _ in range(workers):
            cleanup.enter_context(subject.worker("throughput", "failing", "work", str(dependency.port)))
        if not until(lambda: dependency.heard, DRAIN_S):
            raise Failed(f"after {len(dependency.calls)} calls no circuit is open")
        time.sleep(subject.settings.outage)
        calls, heard = list(dependency.calls), list(dependency.heard)
        found = subject.call("failing", "history")  # afterwards, so that it explains each of these calls
    return judged(calls, heard, [(at_us / 1e6, state) for at_us, state in found["steps"]], found["probes"])


def judged(
    calls: Sequence[float], heard: Sequence[tuple[float, str]], steps: Sequence[tuple[float, str]], probes: int
) -> Answer:
    """Calls by what the circuit was when they came. All times in seconds; `steps` are its transitions."""
    after: list[float] = []
    waits: list[float] = []
    most = late = 0
    for place, (begin, state) in enumerate(steps):
        end = steps[place + 1][0] if place + 1 < len(steps) else calls[-1] + 1
        came = [at - begin for at in calls if begin <= at < end]
        if state == "half_open":
            most = max(most, len(came))
            late += max(0, len(came) - probes)
        elif state == "open":
            known = min((at - begin for at, to in heard if to == state and at >= begin), default=0.0)
            waits.append(known)
            after += came
            late += sum(wait > known for wait in came)
    milliseconds = {"heard_ms": 1_000 * max(waits, default=0.0), "last_ms": 1_000 * max(after, default=0.0)}
    return {"late": late, "after": len(after), "probes": most, "openings": len(waits)} | milliseconds


# -- failed jobs


def replay(subject: Subject) -> Answer | None:
    """Failed jobs, each with its traceback, made ready again by one run with progress; no worker is there."""
    if not _asked(subject):
        return None
    count = subject.settings.replay_jobs
    subject.fresh()
    subject.call("failing", "fill", count, TOGETHER, "corrupt")
    with subject.worker("throughput", "failing", "work", "0"):
        failed = subject.call("failing", "counted", "failed", count)["jobs"]
    if failed != count:
        raise Failed(f"{failed} of {count} jobs have failed")
    answer = subject.call("failing", "replay")
    ready = subject.call("failing", "counted", "ready", count)["jobs"]
    if (answer["replayed"], answer["phase"], ready) != (count, "done", count):
        raise Failed(f"of {count} jobs {answer['replayed']} were replayed, {ready} are ready: {answer['phase']}")
    return {"n": count} | answer


# -- jobs that must be killed, and that kill


def hardkill(subject: Subject) -> Answer | None:
    """Jobs in a child process that only a kill can end, in one slot in turn with others.

    Milliseconds from when a job's time and its grace are over, and the child is told to end, until the next job has
    begun: one in the worker ("slot"), and one in another child, which must be started first ("child").
    """
    if not _asked(subject):
        return None
    count = subject.settings.kills
    subject.fresh()
    subject.call("failing", "fill", count, 1, "stuck", "noop")
    one = ("--concurrency", "1", "--processes", "1", "--soft-grace", f"{GRACE_S}s")
    with subject.worker("default", "failing", "work", "0", *one):
        subject.record.wait(2 * count, DRAIN_S)
    began = {entry.index: entry.at for entry in subject.record.read()}
    if len(began) != 2 * count:
        raise Failed(f"{len(began)} of {2 * count} jobs ran")
    over = [began[number] + STUCK_S + GRACE_S for number in range(count)]
    slot = [1_000 * (began[OTHERS + number] - moment) for number, moment in enumerate(over)]
    child = [1_000 * (began[number + 1] - moment) for number, moment in enumerate(over[:-1])]
    answer: Answer = {"n": count, "slots": slot, "children": child}
    for name, found in (("slot", slot), ("child", child)):
        answer |= {f"{name}_median_ms": statistics.median(found), f"{name}_max_ms": max(found)}
    return answer


def poison(subject: Subject) -> Answer | None:
    """Good jobs beside one that kills its worker: 4 workers at concurrency 25, lease 3 s; the dead are replaced.

    Seconds from the first start of a worker until the poison job is convicted and all good ones are done.
    """
    if not _asked(subject):
        return None
    subject.fresh()
    subject.call("failing", "fill", GOOD, GOOD, "good")
    subject.call("failing", "fill", 1, 1, "poison")
    began = time.monotonic()
    with contextlib.ExitStack() as cleanup:

        def start() -> subprocess.Popen[bytes]:
            words = ("failing", "work", "0", "--concurrency", "25")
            return cleanup.enter_context(subject.worker("reliable", *words))

        workers = [start() for _ in range(4)]
        dead: list[subprocess.Popen[bytes]] = []

        def over() -> bool:
            for place, worker in enumerate(workers):
                if worker.poll() is not None:
                    dead.append(worker)
                    workers[place] = start()
            return len(subject.record.ended()) >= GOOD and len(dead) >= DEATHS

        until(over, DRAIN_S, pause=0.05)
        failed = subject.call("failing", "counted", "failed", 1, profile="reliable")["jobs"]
        spent = time.monotonic() - began
        over()
    answer = {"n": GOOD, "deaths": len(dead), "done": len(subject.record.ended()), "failed": failed}
    return answer | {"seconds": spent}
