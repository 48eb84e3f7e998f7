"""The figures that headrace is held to, as ratios within one run wherever they compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Entries = dict[str, dict[str, Any]]

STORES = {"redis": "Redis", "sqlite": "SQLite", "postgres": "PostgreSQL", "mysql": "MariaDB"}


@dataclass(frozen=True)
class Measured:
    """One figure as it came out. `value` is None when a part of it was not measured."""

    figure: str
    wanted: str  # empty: nobody asked for it, it stands there to be fair
    value: float | None
    shown: str
    reached: bool | None = None


def figures(results: dict[str, Any]) -> list[Measured]:
    """All figures, in the order of the report."""
    entries: Entries = results["variants"]
    answer = [*_redis(entries), *_sqlite(entries), *_postgres(entries), *_mysql(entries)]
    for store in STORES:
        answer += [*_depth(entries, store), _growth(entries, store)]
    for store in STORES:
        answer += [_once(entries, store), *_post(entries, store), _polls(entries, store)]
    for store in STORES:
        answer += [*_circuit(entries, store), *_repair(entries, store)]
    for variant in ("headrace-sqlite-sync", "headrace-postgres-sync", "headrace-mysql"):
        answer += [*_orders(entries, variant), *_relay(entries, variant)]
    for store in ("sqlite", "postgres", "mysql"):
        answer += [*_old_snapshot(entries, store), *_bloat(entries, store)]
    return answer


def _redis(entries: Entries) -> Iterable[Measured]:
    ours = "headrace-redis"
    python = _fastest(entries, "drain_noop", lambda entry: entry["core"] == "python" and entry["store"] == "redis")
    native = _fastest(entries, "drain_noop", lambda entry: entry["core"] == "native")
    node = _fastest(entries, "drain_noop", lambda entry: entry["core"] == "node")
    yield _versus(entries, "Redis: no-op drain, beside the fastest pure-Python peer", "drain_noop", (ours, python), 10)
    yield _versus(entries, "Redis: no-op drain, beside the fastest native core", "drain_noop", (ours, native), 3)
    yield _versus(entries, "Redis: no-op drain, beside Node", "drain_noop", (ours, node), None)
    yield _least(entries, "Redis: no-op drain", ours, "drain_noop", 30_000)
    for variant, least in ((ours, 0.85), ("headrace-redis-sync", None)):
        yield _ceiling(entries, variant, least)
    yield _least(entries, "Redis: bulk enqueue", _best(entries, "bulk", "redis"), "bulk", 100_000)
    every = _fastest(entries, "enqueue1", lambda entry: entry["store"] == "redis")
    awaited = _fastest(entries, "enqueue1", lambda entry: entry["store"] == "redis" and entry["job"] == "async")
    one = "Redis: enqueue one by one"
    yield _versus(entries, f"{one}, beside the fastest peer", "enqueue1", ("headrace-redis-sync", every), 1)
    yield _versus(entries, f"{one}, awaited, beside the fastest awaited peer", "enqueue1", (ours, awaited), 1)
    yield _concurrent(entries, ours, 4)
    for variant in (ours, "headrace-redis-sync"):
        yield _most(entries, f"Redis: latency p50, {_job(variant)}", (variant, "latency", "p50_ms"), 1, "ms")
        yield _most(entries, f"Redis: idle worker, {_job(variant)}", (variant, "idle", "cpu_percent"), 1, "% CPU")


def _sqlite(entries: Entries) -> Iterable[Measured]:
    ours = "headrace-sqlite"
    peer = _fastest(entries, "drain_noop", lambda entry: entry["store"] == "sqlite")
    one = _fastest(entries, "enqueue1", lambda entry: entry["store"] == "sqlite")
    yield _versus(entries, "SQLite: no-op drain, beside the fastest peer", "drain_noop", (ours, peer), 6)
    yield _least(entries, "SQLite: no-op drain", ours, "drain_noop", 15_000)
    yield _ceiling(entries, ours, None)
    yield _least(entries, "SQLite: bulk enqueue", _best(entries, "bulk", "sqlite"), "bulk", 45_000)
    yield _versus(
        entries, "SQLite: enqueue one by one, beside the peer", "enqueue1", ("headrace-sqlite-sync", one), None
    )
    yield _concurrent(entries, ours, None)
    for variant in (ours, "headrace-sqlite-sync"):
        yield _most(entries, f"SQLite: latency p50, {_job(variant)}", (variant, "latency", "p50_ms"), 5, "ms")
        yield _most(entries, f"SQLite: idle worker, {_job(variant)}", (variant, "idle", "cpu_percent"), None, "% CPU")


def _postgres(entries: Entries) -> Iterable[Measured]:
    ours = "headrace-postgres"
    python = _fastest(entries, "drain_noop", lambda entry: entry["core"] == "python" and entry["store"] == "postgres")
    every = _fastest(entries, "drain_noop", lambda entry: entry["store"] == "postgres")
    bulk = _fastest(entries, "bulk", lambda entry: entry["store"] == "postgres")
    one = _fastest(entries, "enqueue1", lambda entry: entry["store"] == "postgres")
    yield _versus(entries, "PostgreSQL: no-op drain, beside the fastest Python peer", "drain_noop", (ours, python), 2)
    yield _versus(entries, "PostgreSQL: no-op drain, beside the fastest peer of all", "drain_noop", (ours, every), None)
    yield _ceiling(entries, ours, None)
    best = _best(entries, "bulk", "postgres")
    yield _versus(entries, "PostgreSQL: bulk enqueue, beside the fastest peer", "bulk", (best, bulk), 1.5)
    yield _versus(entries, "PostgreSQL: enqueue one by one, beside the fastest peer", "enqueue1", (ours, one), None)
    yield _concurrent(entries, ours, None)
    for variant in (ours, "headrace-postgres-sync"):
        yield _most(entries, f"PostgreSQL: latency p50, {_job(variant)}", (variant, "latency", "p50_ms"), 3, "ms")
    yield _most(entries, "PostgreSQL: idle worker", (ours, "idle", "cpu_percent"), None, "% CPU")


def _mysql(entries: Entries) -> Iterable[Measured]:
    ours = "headrace-mysql"
    for workload, what in (("drain_noop", "no-op drain"), ("bulk", "bulk enqueue")):
        name = f"MariaDB: {what}, beside headrace on PostgreSQL"
        yield _versus(entries, name, workload, (ours, "headrace-postgres"), 0.5)
    yield _ceiling(entries, ours, None)
    yield _most(entries, "MariaDB: latency p50", (ours, "latency", "p50_ms"), None, "ms")
    yield _most(entries, "MariaDB: idle worker", (ours, "idle", "cpu_percent"), None, "% CPU")


def _depth(entries: Entries, store: str) -> Iterable[Measured]:
    by_depth = entries.get(f"headrace-{store}", {}).get("depth") or {}
    depths = sorted(int(depth) for depth in by_depth if depth.isdigit())
    for key, what in (("enqueue1", "enqueue one by one"), ("drain", "drain")):
        name = f"{STORES[store]}: {what}, deepest queue beside the shallowest"
        if len(depths) < 2:
            yield _missing(name, "at least 0.80x")
            continue
        low, high = (by_depth[str(depth)][key] for depth in (depths[0], depths[-1]))
        shown = f"{high / low:.2f}x ({high:,.0f}/s at {depths[-1]:,}, {low:,.0f}/s at {depths[0]:,})"
        yield Measured(name, "at least 0.80x", high / low, shown, high / low >= 0.8)


def _growth(entries: Entries, store: str) -> Measured:
    variant = f"headrace-{store}"
    entry = entries.get(variant, {}).get("memory") or {}
    name = f"{STORES[store]}: growth of a worker's memory over {entry.get('n', 200_000):,} jobs"
    return _most(entries, name, (variant, "memory", "growth_percent"), 5, "%")


def _once(entries: Entries, store: str) -> Measured:
    name = f"{STORES[store]}: no-op drain of a task with once=, beside the same jobs without"
    found = entries.get(f"headrace-{store}", {}).get("once") or {}
    if "ratio" not in found:
        return _missing(name, "at least 0.50x")
    shown = f"{found['ratio']:.2f}x ({found['median']:,.0f}/s, {found['plain']['median']:,.0f}/s)"
    return Measured(name, "at least 0.50x", found["ratio"], shown, found["ratio"] >= 0.5)


def _post(entries: Entries, store: str) -> Iterable[Measured]:
    """Asked for where a request costs no round trip to a database's server that syncs each commit."""
    most = 1 if store in {"redis", "sqlite"} else None
    name = f"{STORES[store]}: what the Idempotency-Key middleware adds to a POST"
    yield _most(entries, f"{name}, p50", (f"headrace-{store}", "http", "added_p50_ms"), most, "ms")
    yield _most(entries, f"{name}, p99", (f"headrace-{store}", "http", "added_p99_ms"), None, "ms")


def _polls(entries: Entries, store: str) -> Measured:
    variant = f"headrace-{store}"
    entry = entries.get(variant, {}).get("polls") or {}
    name = f"{STORES[store]}: idle worker beside {entry.get('n', 100_000):,} waiting polls"
    return _most(entries, name, (variant, "polls", "cpu_percent"), 2, "% CPU")


def _circuit(entries: Entries, store: str) -> Iterable[Measured]:
    found = _of(entries, store, "circuit")
    name = f"{STORES[store]}: calls of a worker later than one settle after its circuit opened, but for the probes"
    if "late_1" not in found:
        yield _missing(name, "none")
    else:
        shown = f"{found['late_1']} (the last {found['last_ms_1']:.1f} ms after, a settle {found['heard_ms_1']:.1f} ms)"
        yield Measured(name, "none", found["late_1"], shown, found["late_1"] == 0)
    for way, without, least, what in (
        ("parked", "run", 0.9, "among as many of an open circuit, beside the same jobs without a circuit"),
        ("beside", "alone", 0.9, "while as many of an open circuit lie parked, beside none"),
        ("closed", "alone", None, "of a task with a closed circuit, beside one without"),
    ):
        name, wanted = f"{STORES[store]}: no-op drain {what}", f"at least {least:.2f}x" if least else ""
        ratio = found.get(f"{way}_ratio")
        if ratio is None:
            yield _missing(name, wanted)
        else:
            shown = f"{ratio:.2f}x ({found[way]['median']:,.0f}/s, {found[without]['median']:,.0f}/s)"
            yield Measured(name, wanted, ratio, shown, ratio >= least if least else None)


def _repair(entries: Entries, store: str) -> Iterable[Measured]:
    variant, jobs = f"headrace-{store}", _of(entries, store, "replay").get("n", 10_000)
    most = 30 if store == "sqlite" else None
    yield _most(entries, f"{STORES[store]}: replay of {jobs:,} failed jobs", (variant, "replay", "seconds"), most, "s")
    name = f"{STORES[store]}: longest time from the order to end a hard-killed job until the next one in its slot"
    yield _most(entries, name, (variant, "hardkill", "slot_max_ms"), 1_000, "ms")
    name, wanted = f"{STORES[store]}: 20 good jobs beside one poison", "3 deaths, all good ones done"
    found = _of(entries, store, "poison")
    if "deaths" not in found:
        yield _missing(name, wanted)
        return
    shown = f"{found['deaths']} deaths, {found['done']} done, {found['seconds']:.0f} s"
    reached = (found["deaths"], found["done"], found["failed"]) == (3, found["n"], 1)
    yield Measured(name, wanted, found["deaths"], shown, reached)


def _of(entries: Entries, store: str, workload: str) -> dict[str, Any]:
    return entries.get(f"headrace-{store}", {}).get(workload) or {}


def _orders(entries: Entries, variant: str) -> Iterable[Measured]:
    """The producer's gain is one commit instead of two; beside the fastest peer whose job joins as well."""
    name = f"{_store(variant)}: order and job in one transaction"
    found = _joined(entries.get(variant, {}))
    if found is None:
        yield _missing(f"{name}, beside the job after the commit", "")
        return
    library, rates = found
    both, after = rates["both"], rates["after"]
    shown = f"{both / after:.2f}x ({both:,.0f}/s, {after:,.0f}/s; {library})"
    yield Measured(f"{name}, beside the job after the commit", "", both / after, shown)
    peers = {
        peer: joined[1]["both"]
        for peer, entry in entries.items()
        if entry.get("core", "ours") != "ours" and entry["store"] == entries[variant]["store"]
        if (joined := _joined(entry))
    }
    if peers:
        peer = max(peers, key=lambda name: peers[name])
        shown = f"{both / peers[peer]:.2f}x ({both:,.0f}/s, {peer} {peers[peer]:,.0f}/s)"
        yield Measured(f"{name}, beside the fastest peer", "", both / peers[peer], shown)


def _joined(entry: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The library with which a variant is fastest."""
    found = entry.get("transaction") or {}
    if not found or "error" in found:
        return None
    library = max(found, key=lambda name: found[name]["both"])
    return library, found[library]


def _relay(entries: Entries, variant: str) -> Iterable[Measured]:
    yield _least(entries, f"{_store(variant)}: relay, events into jobs", variant, "relay", 5_000)
    lags = (entries.get(variant, {}).get("relay") or {}).get("lag") or {"any transaction": {}}
    for writer, lag in lags.items():
        name = f"{_store(variant)}: lag of an idle relay p50, events written by {written_by(writer)}"
        value = lag.get("p50_ms")
        if value is None:
            yield _missing(name, "under 100 ms")
        else:
            yield Measured(name, "under 100 ms", value, f"{value:.2f} ms", value < 100)


def written_by(writer: str) -> str:
    """In words: a library, in whose transactions events were written."""
    return "headrace itself" if writer.endswith("/add") else writer


def _old_snapshot(entries: Entries, store: str) -> Iterable[Measured]:
    found = entries.get(f"headrace-{store}", {}).get("foreign") or {}
    name = f"{STORES[store]}: no-op drain beside another connection's old snapshot, beside the drain without it"
    yield _beside(name, found, "held", "alone")


def _bloat(entries: Entries, store: str) -> Iterable[Measured]:
    if store == "sqlite":
        return
    found = entries.get(f"headrace-{store}", {}).get("bloat") or {}
    name = f"{STORES[store]}: no-op drain after {found.get('n', 1_000_000):,} jobs, beside the first"
    yield _beside(name, found, "last", "first")


def _beside(name: str, found: dict[str, Any], aged: str, fresh: str) -> Measured:
    """One drain beside another, which it must come near to."""
    if "ratio" not in found:
        return _missing(name, "at least 0.80x")
    shown = f"{found['ratio']:.2f}x ({found[aged]:,.0f}/s, {found[fresh]:,.0f}/s)"
    return Measured(name, "at least 0.80x", found["ratio"], shown, found["ratio"] >= 0.8)


# -- kinds of figures


def rate(entries: Entries, variant: str | None, workload: str) -> float | None:
    """The median rate, if it was measured."""
    found = (entries.get(variant or "", {}).get(workload) or {}).get("median")
    return None if found is None else float(found)


def _fastest(entries: Entries, workload: str, matches: Callable[[dict[str, Any]], bool]) -> str | None:
    """The peer with one process for jobs that did it fastest."""
    rates = {
        name: measured
        for name, entry in entries.items()
        if entry.get("core", "ours") != "ours" and entry["processes"] == 1 and matches(entry)
        if (measured := rate(entries, name, workload))
    }
    return max(rates, key=lambda name: rates[name]) if rates else None


def _best(entries: Entries, workload: str, store: str) -> str:
    """Whichever of our two colours is faster: there is one bulk path behind both."""
    return max(
        (f"headrace-{store}", f"headrace-{store}-sync"), key=lambda variant: rate(entries, variant, workload) or 0
    )


def _versus(entries: Entries, name: str, workload: str, sides: tuple[str, str | None], least: float | None) -> Measured:
    wanted = "" if least is None else f"at least {least:g}x"
    ours, peer = sides
    mine, other = rate(entries, ours, workload), rate(entries, peer, workload)
    if mine is None or other is None:
        return _missing(name, wanted)
    shown = f"{mine / other:.2f}x ({mine:,.0f}/s, {peer} {other:,.0f}/s)"
    return Measured(name, wanted, mine / other, shown, None if least is None else mine / other >= least)


def _least(entries: Entries, name: str, variant: str, workload: str, least: float) -> Measured:
    value = rate(entries, variant, workload)
    wanted = f"at least {least:,.0f}/s"
    return _missing(name, wanted) if value is None else Measured(name, wanted, value, f"{value:,.0f}/s", value >= least)


def _most(entries: Entries, name: str, path: tuple[str, str, str], most: float | None, unit: str) -> Measured:
    variant, workload, field = path
    wanted = "" if most is None else f"under {most:g} {unit}"
    value = (entries.get(variant, {}).get(workload) or {}).get(field)
    if value is None:
        return _missing(name, wanted)
    return Measured(name, wanted, value, f"{value:.2f} {unit}", None if most is None else value < most)


def _ceiling(entries: Entries, variant: str, least: float | None) -> Measured:
    bare = "threads" if _job(variant) == "sync" else "asyncio.sleep"
    name = f"{_store(variant)}: 10 ms I/O at concurrency 100, beside bare {bare}"
    wanted = "" if least is None else f"at least {least:.0%}"
    entry = entries.get(variant, {}).get("drain_io") or {}
    if "of_ceiling" not in entry:
        return _missing(name, wanted)
    shown = f"{entry['of_ceiling']:.0%} ({entry['median']:,.0f}/s of {entry['ceiling']:,.0f}/s)"
    return Measured(name, wanted, entry["of_ceiling"], shown, None if least is None else entry["of_ceiling"] >= least)


def _concurrent(entries: Entries, variant: str, least: float | None) -> Measured:
    name = f"{_store(variant)}: 50 concurrent enqueues, beside one by one"
    wanted = "" if least is None else f"at least {least:g}x"
    entry = entries.get(variant, {}).get("enqueue50") or {}
    if "ratio" not in entry:
        return _missing(name, wanted)
    shown = f"{entry['ratio']:.2f}x ({entry['median']:,.0f}/s, alone {entry['alone']:,.0f}/s)"
    return Measured(name, wanted, entry["ratio"], shown, None if least is None else entry["ratio"] >= least)


def _missing(name: str, wanted: str) -> Measured:
    return Measured(name, wanted, None, "not measured")


def _store(variant: str) -> str:
    return STORES[variant.split("-")[1]]


def _job(variant: str) -> str:
    return "sync" if variant.endswith("-sync") else "async"
