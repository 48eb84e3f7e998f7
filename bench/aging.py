"""What becomes of a store: after a million jobs, and beside somebody else's long transaction."""

from __future__ import annotations

import contextlib
import statistics
import time

from bench.databases import Database
from bench.servers import Sqlite
from bench.subject import Answer, Failed, Subject, until
from bench.workloads import LATE_S, calibrated

DRAIN_S = 600.0
STILL_TURNS = 4  # how often a store may start to move again before it is taken as it is
LOOK_S = 0.5


def bloat(subject: Subject) -> Answer | None:
    """Sizes of tables and indexes before and after many jobs in waves; the drain of the last wave beside the first."""
    store = subject.store
    if not isinstance(store, Database):
        return None
    wave = subject.settings.bloat_jobs // subject.settings.bloat_waves
    subject.fresh()
    subject.fill(1)
    with subject.worker("throughput"):
        _ran(subject, 1)
    before = store.sizes()
    rates = []
    for number in range(subject.settings.bloat_waves):
        subject.forget_runs()
        subject.fill(wave, number * wave)
        rates.append(round(_drain(subject, wave), 1))
    after = store.sizes()
    began = time.monotonic()
    _settle(store, subject.settings.still)
    answer = {
        "n": wave * subject.settings.bloat_waves,
        "rates": rates,
        "first": rates[0],
        "last": rates[-1],
        "ratio": rates[-1] / rates[0],
        "before": before,
        "after": after,
        "settled": store.sizes(),
        "settled_s": round(time.monotonic() - began),
    }
    return answer | ({"unsettled": subject.call("remaining")["jobs"]} if subject.variant.ours else {})


def _settle(store: Database, still: float) -> None:
    """Wait until neither sizes nor dead rows have changed for `still` seconds; not for ever."""
    for _ in range(STILL_TURNS):
        seen = store.sizes()
        if not until(lambda seen=seen: store.sizes() != seen, still, pause=LOOK_S):  # type: ignore[misc]
            return


def foreign(subject: Subject) -> Answer | None:
    """The drain while another connection holds a snapshot from before the first job, beside the drain without it."""
    store = subject.store
    if not isinstance(store, Database | Sqlite):
        return None
    count = min(calibrated(subject, "noop", "throughput", 1_000), subject.settings.foreign_jobs)
    rates: dict[str, list[float]] = {"alone": [], "held": []}
    ends = []
    for _ in range(subject.settings.repeat):
        for name, found in rates.items():
            subject.fresh()
            subject.fill(1, 10_000_000)  # makes the tables
            with store.snapshot() if name == "held" else contextlib.nullcontext():
                subject.fill(count + subject.settings.waiting)
                found.append(round(_drain(subject, count), 1))
                if name == "held":
                    ends.append(_last_fifth(subject, count))
    alone, held = (statistics.median(rates[name]) for name in ("alone", "held"))
    return {
        "n": count,
        "waiting": subject.settings.waiting,
        "alone": alone,
        "held": held,
        "last_fifth": statistics.median(ends),
        "ratio": held / alone,
        "rates": rates,
    }


def _ran(subject: Subject, count: int) -> list[float]:
    if not subject.record.wait(count, DRAIN_S):
        raise Failed(f"{len(subject.record)} of {count} jobs ran")
    time.sleep(LATE_S)
    return sorted(entry.at for entry in subject.record.read())[:count]


def _drain(subject: Subject, count: int) -> float:
    """The rate at which a new worker runs the first `count` of the jobs."""
    subject.forget_runs()
    with subject.worker("throughput"):
        stamps = _ran(subject, count)
    return (count - 1) / (stamps[-1] - stamps[0])


def _last_fifth(subject: Subject, count: int) -> float:
    """The rate towards the end of the drain that has just been."""
    stamps = sorted(entry.at for entry in subject.record.read())[:count]
    part = stamps[-max(2, count // 5) :]
    return (len(part) - 1) / (part[-1] - part[0])
