"""Tables of what happens when things fail."""

from __future__ import annotations

from collections.abc import Iterable

from bench.tables import Named, has, number, rates, table


def failing_tables(measured: Named) -> Iterable[str]:
    """All of them."""
    return (_drains(measured), _openings(measured), _replay(measured), _hardkill(measured), _poison(measured))


def _drains(measured: Named) -> str:
    rows = [
        [
            name,
            rates(found["alone"]),
            f"{rates(found['closed'])}, {found['closed_ratio']:.2f}x",
            f"{rates(found['beside'])}, {found['beside_ratio']:.2f}x",
            rates(found["run"]),
            f"{rates(found['parked'])}, {found['parked_ratio']:.2f}x",
        ]
        for name, entry in measured
        if has(entry, "circuit")
        for found in [entry["circuit"]]
    ]
    head = ["variant", "N jobs alone", "N through a closed circuit", "N while N of an open one lie parked"]
    head += ["N among N others, which run", "N among N others, which are parked meanwhile"]
    return table("Circuits: no-op drain (jobs/s, of the N that have no open circuit)", head, rows)


def _openings(measured: Named) -> str:
    rows = [
        [
            name,
            str(workers),
            number(found[f"heard_ms_{workers}"], 1),
            str(found[f"after_{workers}"]),
            number(found[f"last_ms_{workers}"], 1),
            str(found[f"late_{workers}"]),
            str(found[f"probes_{workers}"]),
        ]
        for name, entry in measured
        if has(entry, "circuit")
        for found in [entry["circuit"]]
        for workers in (1, 2)
    ]
    head = ["variant", "workers", "one settle: from the opening until it is heard, ms", "calls after the opening"]
    head += ["the last of them after ms", "after it was heard", "most probes of a half-open circuit"]
    return table("Circuits: calls that a dependency sees once the circuit has opened", head, rows)


def _replay(measured: Named) -> str:
    rows = [
        [name, number(found["n"]), number(found["seconds"], 2), number(found["n"] / found["seconds"])]
        for name, entry in measured
        if has(entry, "replay")
        for found in [entry["replay"]]
    ]
    return table("Replay of failed jobs", ["variant", "failed jobs", "seconds", "jobs/s"], rows)


def _hardkill(measured: Named) -> str:
    timed = ("slot_median_ms", "slot_max_ms", "child_median_ms", "child_max_ms")
    rows = [
        [name, str(entry["hardkill"]["n"]), *(number(entry["hardkill"][key]) for key in timed)]
        for name, entry in measured
        if has(entry, "hardkill")
    ]
    head = ["variant", "jobs killed", "next job in that slot, median ms", "most", "next one in a new child, median"]
    return table("Hard-killed jobs: from the order to end until the next job has begun", [*head, "most"], rows)


def _poison(measured: Named) -> str:
    rows = [
        [name, str(found["deaths"]), f"{found['done']} of {found['n']}", number(found["seconds"], 1)]
        for name, entry in measured
        if has(entry, "poison")
        for found in [entry["poison"]]
    ]
    head = ["variant", "deaths", "good jobs done", "seconds until all is over"]
    return table("One poison job beside good ones: 4 workers at concurrency 25, lease 3 s", head, rows)
