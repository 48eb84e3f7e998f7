"""One run of the benchmark: every workload over all variants in turn, so that what is compared is measured together."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from bench import aging, endurance, environments, failing, idempotency, servers, transactions, workloads
from bench.catalog import Variant
from bench.results import Results
from bench.subject import Answer, Failed, Settings, Subject

WORKLOADS: dict[str, Callable[[Subject], Answer | None]] = {
    "enqueue1": workloads.enqueue1,
    "enqueue50": workloads.enqueue50,
    "bulk": workloads.bulk,
    "drain_noop": workloads.drain_noop,
    "drain_io": workloads.drain_io,
    "latency": workloads.latency,
    "once": idempotency.once,
    "http": idempotency.http,
    "circuit": failing.circuit,
    "replay": failing.replay,
    "hardkill": failing.hardkill,
    "poison": failing.poison,
    "transaction": transactions.transaction,
    "relay": transactions.relay,
    "idle": endurance.idle,
    "polls": endurance.polls,
    "memory": endurance.memory_growth,
    "depth": endurance.depth,
    "foreign": aging.foreign,
    "bloat": aging.bloat,
    "crash": endurance.crash,
}
COMPARED = (
    "enqueue1",
    "bulk",
    "drain_noop",
    "drain_io",
    "latency",
    "transaction",
)  # what peers are asked for by default
SHOWN = (
    "median",
    "ratio",
    "of_ceiling",
    "p50_ms",
    "p99_ms",
    "added_p50_ms",
    "added_p99_ms",
    "replay_p50_ms",
    "cpu_percent",
    "rss_mb",
    "growth_percent",
    "closed_ratio",
    "parked_ratio",
    "beside_ratio",
    "late_1",
    "last_ms_1",
    "heard_ms_1",
    "late_2",
    "last_ms_2",
    "seconds",
    "slot_max_ms",
    "child_max_ms",
    "deaths",
    "lost",
    "error",
)


def stop_cleanly() -> None:
    """Have a signal end the run together with its servers and workers; a second one does not cut that short."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)


def install(variants: Sequence[Variant], work: Path, results: Results) -> list[Variant]:
    """Make all environments; answers those that are there."""
    there = []
    for variant in variants:
        try:
            versions = environments.install(variant, work)
        except environments.NotInstalled as problem:
            print(f"{variant.id}: not installed: {problem}", flush=True)
            results.put(variant.id, error=f"not installed: {problem}")
        else:
            results.put(variant.id, versions=versions, error=None)
            there.append(variant)
    return there


def measure(variants: Sequence[Variant], chosen: dict[str, list[str]], settings: Settings, results: Results) -> None:
    """Run the workloads that are chosen for each variant, and keep each answer at once."""
    scratch = settings.work / f"run-{time.strftime('%H%M%S')}"
    scratch.mkdir(parents=True)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, scratch, ignore_errors=True)
        stores: dict[str, servers.Server] = {}
        subjects = []
        for variant in variants:
            if variant.store not in stores:
                stores[variant.store] = servers.start(variant.store, scratch)
                cleanup.callback(stores[variant.store].stop)
            store = stores[variant.store]
            subjects.append(Subject(settings, variant, store, scratch))
            results.put(variant.id, **described(variant), store_version=store.version())
        for workload in WORKLOADS:
            for subject in subjects:
                if workload in chosen[subject.variant.id]:
                    _one(subject, workload, results)


def described(variant: Variant) -> dict[str, Any]:
    """What the report says of a variant beside its figures."""
    names = ("store", "core", "job", "settings", "reliable", "processes")
    return {name: getattr(variant, name) for name in names}


def _one(subject: Subject, workload: str, results: Results) -> None:
    began = time.monotonic()
    try:
        answer = WORKLOADS[workload](subject)
    except (Failed, subprocess.SubprocessError, OSError) as problem:
        answer = {"error": str(problem)[:300]}
    subject.store.reset()
    if answer is None:
        return
    results.put(subject.variant.id, **{workload: answer})
    spent = time.monotonic() - began
    print(f"{workload:10} {subject.variant.id:20} {spent:6.1f} s  {_brief(answer)}", flush=True)


def _brief(answer: Answer) -> str:
    shown = {name: answer[name] for name in SHOWN if answer.get(name) is not None}
    if not shown:  # by depth or by profile
        shown = {key: {k: v for k, v in part.items() if k != "rates"} for key, part in answer.items()}
    return json.dumps(_rounded(shown))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, float):
        return round(value) if value >= 1000 else round(value, 3)
    return value
