"""Results as Markdown tables."""

from __future__ import annotations

from typing import Any

from bench.catalog import VARIANTS
from bench.failing_tables import failing_tables
from bench.figures import Measured, figures, written_by
from bench.tables import Named, has, number, rates, table

SYSTEMS = (
    *(
        "headrace",
        "dramatiq",
        "huey",
        "taskiq",
        "taskiq-redis",
        "ardiq",
        "bullmq",
        "celery",
        "rq",
        "arq",
        "saq",
        "streaq",
        "pgqueuer",
        "awa-pg",
        "procrastinate",
    ),
    *(
        "redis",
        "hiredis",
        "coredis",
        "ioredis",
        "psycopg",
        "asyncpg",
        "asyncmy",
        "msgspec",
        "uvicorn",
        "uvloop",
        "python",
        "node",
    ),
)
NOTES = """\
How to read it: rates are jobs per second, the median of the runs, with the range where it exceeds 10 %. Drains and
bulk enqueues are counted by the jobs whose body ran and by the jobs that were acknowledged. "async" rows have `async
def` handlers and an awaited producer, "sync" rows plain handlers and a producer without an event loop. Producer,
worker and store share the machine. Redis runs without persistence; PostgreSQL and MariaDB sync each commit, as
installed; SQLite is as durable as each system sets it (headrace syncs each commit). Peers run with the settings named
at the end, their best documented ones, without a sweep. Figures of another run or machine must not be put beside
these.
"""


def render(results: dict[str, Any]) -> str:
    """The whole report."""
    order = {variant.id: place for place, variant in enumerate(VARIANTS)}
    entries = sorted(results["variants"].items(), key=lambda item: order.get(item[0], len(order)))
    measured = [(name, entry) for name, entry in entries if "settings" in entry]
    parts = [
        _head(results, measured),
        _figures(figures(results)),
        _speed(measured),
        _concurrent(measured),
        _footprint(measured),
        _memory(measured),
        _depth(measured),
        _once(measured),
        _http(measured),
        _polls(measured),
        *failing_tables(measured),
        _transactions(measured),
        _relay(measured),
        _foreign(measured),
        _bloat(measured),
        _crash(measured),
        _versions(measured),
        _problems(entries),
    ]
    return "\n".join(part for part in parts if part)


def _head(results: dict[str, Any], measured: Named) -> str:
    machine, settings = results["machine"], results["settings"]
    stores = sorted({entry["store_version"] for _, entry in measured})
    when = f"{results['date']}, {results['began']} to {results.get('ended', '?')}, commit {results['commit']}."
    where = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['ram_gib']} GiB, {machine['system']}, "
        f"Python {machine['python']}; {'; '.join(stores)}. Load average at the start: {results['load']:.2f}."
    )
    how = f"Timed runs of about {settings['seconds']:g} s, {settings['repeat']} each."
    lines = ["# Results\n", f"{when} {where} {how}\n"]
    if settings["quick"]:
        lines.append("**A quick run, only to see that everything works: the figures mean nothing.**\n")
    return "\n".join([*lines, NOTES])


def _figures(found: list[Measured]) -> str:
    words = {True: "yes", False: "**no**", None: "–"}
    rows = [[one.figure, one.wanted or "–", one.shown, words[one.reached]] for one in found]
    return table("Figures wanted", ["figure", "wanted", "measured", "reached"], rows, words=True)


def _speed(measured: Named) -> str:
    rows = []
    for name, entry in measured:
        late = entry["latency"] if has(entry, "latency") else {}
        cells = [rates(entry.get(key)) for key in ("enqueue1", "bulk", "drain_noop", "drain_io")]
        io = entry.get("drain_io") or {}
        if "of_ceiling" in io:
            cells[3] += f", {io['of_ceiling']:.0%} of the ceiling"
        if any(cell != "–" for cell in cells) or late:
            rows.append(
                [f"{name} ({entry['job']})", *cells, number(late.get("p50_ms"), 2), number(late.get("p99_ms"), 2)]
            )
    head = ["variant", "enqueue one by one", "enqueue bulk", "drain no-op", "drain 10 ms I/O", "latency p50 ms", "p99"]
    return table("Throughput (jobs/s) and latency", head, rows)


def _concurrent(measured: Named) -> str:
    rows = [
        [name, rates(entry["enqueue50"]), number(entry["enqueue50"]["alone"]), f"{entry['enqueue50']['ratio']:.1f}x"]
        for name, entry in measured
        if has(entry, "enqueue50")
    ]
    return table("50 concurrent enqueues in one event loop (jobs/s)", ["variant", "50", "one", "ratio"], rows)


def _footprint(measured: Named) -> str:
    rows = []
    for name, entry in measured:
        if not has(entry, "idle"):
            continue
        idle, drained = entry["idle"], entry.get("drain_noop") or {}
        cost = [1_000 * run["cpu_s"] / run["n"] for run in drained.get("runs", [])]
        size = (entry.get("enqueue1") or {}).get("store_bytes_per_job")
        operations = idle["store_ops_per_s"] if entry["store"] != "sqlite" else None
        rows.append(
            [
                name,
                str(idle["processes"]),
                number(idle["rss_mb"]),
                number(idle["pss_mb"]),
                number(drained.get("rss_after_mb")),
                number(idle["cpu_percent"], 2),
                number(operations, 1),
                number(min(cost) if cost else None, 3),
                number(size),
            ]
        )
    head = ["variant", "processes", "RSS MB idle", "PSS MB idle", "RSS MB after drain", "idle CPU %"]
    head += ["idle store ops/s", "worker CPU ms per no-op job", "Redis bytes per queued job"]
    return table("Footprint of a worker (default settings)", head, rows)


def _memory(measured: Named) -> str:
    rows = [
        [
            name,
            number(memory["n"]),
            number(memory["warm_mb"], 1),
            number(memory["most_mb"], 1),
            number(memory["last_mb"], 1),
            f"{memory['growth_percent']:.1f} %",
        ]
        for name, entry in measured
        if has(entry, "memory")
        for memory in [entry["memory"]]
    ]
    head = [
        "variant",
        "jobs",
        "RSS MB after a warm-up of half as many",
        "most after that",
        "at the end",
        "growth to the most",
    ]
    return table("Memory of a worker over many jobs", head, rows)


def _depth(measured: Named) -> str:
    found = [(name, entry["depth"]) for name, entry in measured if has(entry, "depth")]
    depths = sorted({int(depth) for _, by_depth in found for depth in by_depth})
    rows = [
        [name]
        + [
            number(by_depth.get(str(depth), {}).get(key), digits)
            for key, digits in (("enqueue1", 0), ("drain", 0), ("store_mb", 0))
            for depth in depths
        ]
        for name, by_depth in found
    ]
    head = ["variant"] + [f"{key} {depth:,}" for key in ("enqueue", "drain", "store MB") for depth in depths]
    return table("Rates (jobs/s) with this many jobs already waiting", head, rows)


def _once(measured: Named) -> str:
    rows = [
        [
            name,
            rates(found["plain"]),
            rates(found),
            f"{found['ratio']:.2f}x",
            number(found["plain_cpu_ms"], 3),
            number(found["cpu_ms"], 3),
        ]
        for name, entry in measured
        if has(entry, "once")
        for found in [entry["once"]]
    ]
    head = ["variant", "without", "with once=", "ratio", "worker CPU ms per job without", "with"]
    return table("Once: no-op drain, a key for each job (jobs/s)", head, rows)


def _http(measured: Named) -> str:
    timed = [f"{way}_{part}_ms" for way in ("bare", "guarded", "added", "replay") for part in ("p50", "p99")]
    rows = [
        [
            name,
            *(number(entry["http"][key], 2) for key in timed),
            number(entry["http"]["sync_p50_ms"] if entry["store"] == "sqlite" else None, 2),
        ]
        for name, entry in measured
        if has(entry, "http")
    ]
    head = ["variant", "without p50 ms", "p99", "with the middleware p50", "p99", "added p50", "p99"]
    head += ["a replay p50", "p99", "one synced write beside SQLite's file p50"]
    return table("Idempotency-Key: one POST after another to uvicorn", head, rows)


def _polls(measured: Named) -> str:
    rows = [
        [
            name,
            number(found["n"]),
            number(found["first_queries"]),
            number(found["empty"]["cpu_percent"], 2),
            number(found["cpu_percent"], 2),
            number(found["empty"]["store_cpu_percent"], 2) if entry["store"] != "sqlite" else "–",
            number(found["store_cpu_percent"], 2) if entry["store"] != "sqlite" else "–",
            number(found["rss_mb"]),
        ]
        for name, entry in measured
        if has(entry, "polls")
        for found in [entry["polls"]]
    ]
    head = ["variant", "polls waiting", "first queries/s", "CPU % of an idle worker without them", "with them"]
    head += ["CPU % of the store's server without them", "with them", "worker RSS MB"]
    return table("Polls that wait for their second query, beside an idle worker", head, rows)


def _transactions(measured: Named) -> str:
    rows = [
        [f"{name}, {library}", *(number(found[way]) for way in ("row", "both", "after"))]
        for name, entry in measured
        if has(entry, "transaction")
        for library, found in entry["transaction"].items()
    ]
    head = ["variant", "the order alone", "with its job in the transaction", "with its job after the commit"]
    return table("Orders of one producer (per second), one transaction each", head, rows)


def _relay(measured: Named) -> str:
    rows = []
    for name, entry in measured:
        if not has(entry, "relay"):
            continue
        found = entry["relay"]
        speed = [rates(found), rates(found["few"])]
        for writer, lag in found["lag"].items():
            times = [number(lag[key], 1) for key in ("p50_ms", "p99_ms", "max_ms")]
            rows.append([name, *speed, written_by(writer), *times])
            speed = ["", ""]
    head = ["variant", "events/s, an aggregate each", "events/s, 100 aggregates", "events written by"]
    head += ["lag of an idle relay p50 ms", "p99", "most"]
    return table("Outbox: events into jobs by one relay", head, rows)


def _foreign(measured: Named) -> str:
    rows = [
        [name, number(found["n"]), number(found["alone"]), number(found["held"]), number(found["last_fifth"])]
        for name, entry in measured
        if has(entry, "foreign")
        for found in [entry["foreign"]]
    ]
    head = ["variant", "jobs", "drain without it", "drain beside it", "last fifth of that"]
    return table("Another connection's snapshot from before the first job (no-op drain, jobs/s)", head, rows)


def _bloat(measured: Named) -> str:
    rows = []
    for name, entry in measured:
        if not has(entry, "bloat"):
            continue
        found = entry["bloat"]
        sizes = [
            f"{size['tables'] / 2**20:,.1f} + {size['indexes'] / 2**20:,.1f}"
            for size in (found["before"], found["after"], found["settled"])
        ]
        dead = [number(found[when]["dead"]) for when in ("after", "settled")]
        speed = [number(found["first"]), number(found["last"])]
        rows.append([name, number(found["n"]), *sizes, *dead, *speed])
    head = ["variant", "jobs", "tables + indexes MB before", "after", "once cleaned", "dead rows after", "once cleaned"]
    return table("Tables after many jobs", [*head, "drain of the first wave", "of the last"], rows)


def _crash(measured: Named) -> str:
    rows = [
        [
            name,
            "default" if profile == "default" else entry["reliable"],
            str(crash["running_at_kill"]),
            str(crash["not_completed_60s"]),
            f"{crash['not_completed']} ({crash['watched_s']} s)",
            str(crash["interrupted_and_rerun"]),
            "{}–{}".format(*crash["rerun_after_s"]) if crash["rerun_after_s"] else "–",
            str(crash["completed_twice"]),
        ]
        for name, entry in measured
        if has(entry, "crash")
        for profile, crash in entry["crash"].items()
    ]
    head = ["variant", "settings", "running at the kill", "not completed 60 s later", "at the end of the watch"]
    head += ["interrupted and rerun", "rerun after s", "completed twice"]
    return table("SIGKILL half way through jobs of 50 ms, a new worker at once", head, rows)


def _versions(measured: Named) -> str:
    rows = []
    for name, entry in measured:
        versions = entry["versions"]
        shown = [f"{system} {versions[system]}" for system in SYSTEMS if system in versions]
        rows.append([name, entry["settings"], ", ".join(shown)])
    head = ["variant", "worker settings in the throughput runs", "versions"]
    return table("Settings and versions", head, rows, words=True)


def _problems(entries: Named) -> str:
    found = [f"- {name}: {entry['error']}" for name, entry in entries if entry.get("error")]
    found += [
        f"- {name}, {workload}: {answer['error']}"
        for name, entry in entries
        for workload, answer in entry.items()
        if isinstance(answer, dict) and "error" in answer
    ]
    return "## Not measured\n\n" + "\n".join(found) + "\n" if found else ""
