"""`python -m bench`: measure, or turn results into a report."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench import report, retry_storm
from bench.catalog import BY_ID, FAST, OURS, VARIANTS, Variant
from bench.results import ROOT, Results
from bench.run import COMPARED, WORKLOADS, install, measure, stop_cleanly
from bench.subject import Settings

WORK = ROOT / "build" / "bench"
REPORT = ROOT / "bench" / "RESULTS.md"
QUICK: dict[str, Any] = {
    "seconds": 0.3,
    "repeat": 1,
    "depths": (1_000, 5_000),
    "profiles": ("reliable",),
    "crash_jobs": 300,
    "memory_jobs": 10_000,
    "watch": 20.0,
    "settled": 0.5,
    "idle": 1.0,
    "polls": 2_000,
    "samples": 20,
    "bloat_jobs": 2_000,
    "bloat_waves": 2,
    "still": 0.5,
    "foreign_jobs": 2_000,
    "waiting": 500,
    "outage": 1.2,
    "replay_jobs": 300,
    "kills": 2,
}


def names(text: str) -> list[str]:
    """A comma-separated list."""
    return [name for name in text.split(",") if name]


def parse(words: list[str]) -> argparse.Namespace:
    """The command line of a run."""
    cli = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure headrace beside other job systems. `python -m bench report FILE` renders a finished run; "
        "`python -m bench storm` simulates a service that comes back.",
    )
    cli.add_argument("--list", action="store_true", help="list the variants and exit")
    cli.add_argument("--all", action="store_true", help="all variants, and all workloads for peers too (hours)")
    cli.add_argument("--only", type=names, metavar="IDS", help="these variants, separated by commas")
    cli.add_argument("--workloads", type=names, metavar="NAMES", help=f"some of: {','.join(WORKLOADS)}")
    cli.add_argument("--seconds", type=float, help="wanted length of one timed run (2)")
    cli.add_argument("--repeat", type=int, help="timed runs, of which the median is reported (3)")
    cli.add_argument("--depths", type=names, metavar="NUMBERS", help="jobs waiting (1000,100000,1000000)")
    cli.add_argument(
        "--profiles", type=names, metavar="NAMES", help="of the crash workload: default,reliable (default)"
    )
    cli.add_argument("--watch", type=float, help="longest time to watch for recovery after a crash, seconds (240)")
    cli.add_argument("--polls", type=int, help="polls waiting beside an idle worker (100000)")
    cli.add_argument("--bloat-jobs", type=int, help="jobs of the bloat workload, in 10 waves (1000000)")
    cli.add_argument("--quick", action="store_true", help="tiny numbers: does everything work? Never quote these")
    cli.add_argument("--report", action="store_true", help=f"write {REPORT.relative_to(ROOT)} at the end")
    cli.add_argument("--out", type=Path, help="the results; a file that exists is added to")
    cli.add_argument("--work-dir", type=Path, default=WORK, help="environments, logs and results (build/bench)")
    cli.add_argument("--install-only", action="store_true", help="make the peers' environments and exit")
    cli.add_argument("--verbose", action="store_true", help="show what producers and workers print")
    given = cli.parse_args(words)
    for name in given.only or []:
        if name not in BY_ID:
            cli.error(f"there is no variant {name!r}: see --list")
    for name in given.workloads or []:
        if name not in WORKLOADS:
            cli.error(f"there is no workload {name!r}: choose from {', '.join(WORKLOADS)}")
    return given


def settings_of(given: argparse.Namespace) -> Settings:
    """The defaults, or the quick ones, with what was given."""
    settings = Settings(work=given.work_dir.resolve(), verbose=given.verbose)
    if given.quick:
        settings = dataclasses.replace(settings, **QUICK)
    alike = ("seconds", "repeat", "watch", "bloat_jobs", "polls")
    changes: dict[str, Any] = {name: getattr(given, name) for name in alike}
    changes["depths"] = tuple(sorted(map(int, given.depths))) if given.depths else None
    changes["profiles"] = tuple(given.profiles) if given.profiles else None
    return dataclasses.replace(settings, **{name: value for name, value in changes.items() if value is not None})


def chosen_of(given: argparse.Namespace, variants: list[Variant]) -> dict[str, list[str]]:
    """The workloads of each variant."""
    if given.workloads:
        return {variant.id: given.workloads for variant in variants}
    return {variant.id: list(WORKLOADS if variant.ours or given.all else COMPARED) for variant in variants}


def run(words: list[str]) -> int:
    """Measure; answers the exit code."""
    given = parse(words)
    if given.list:
        for variant in VARIANTS:
            print(f"{variant.id:20} {variant.store:7} {variant.job:6} {variant.settings}")
        return 0
    variants = [BY_ID[name] for name in given.only] if given.only else VARIANTS if given.all else [*OURS, *FAST]
    settings = settings_of(given)
    kept = {name: value for name, value in dataclasses.asdict(settings).items() if name not in {"work", "verbose"}}
    out = given.out or settings.work / f"results-{time.strftime('%Y%m%d-%H%M%S')}.json"
    results = Results(out, kept | {"quick": given.quick})
    code = 0
    stop_cleanly()
    try:
        there = install(variants, settings.work, results)
        if given.install_only:
            return int(len(there) < len(variants))
        measure(there, chosen_of(given, there), settings, results)
    except KeyboardInterrupt:
        print("interrupted; what was measured is kept", flush=True)
        code = 130
    print(f"results: {out}")
    if given.report and code == 0:
        REPORT.write_text(report.render(results.data))
        print(f"report:  {REPORT}")
    else:
        print(f"tables:  python -m bench report {out}")
    return code


def write_report(words: list[str]) -> int:
    """Render results; answers the exit code."""
    cli = argparse.ArgumentParser(prog="python -m bench report", description="Write the report of a run.")
    cli.add_argument("results", type=Path)
    cli.add_argument("--out", type=Path, default=REPORT, help="by default bench/RESULTS.md; - prints it")
    given = cli.parse_args(words)
    text = report.render(json.loads(given.results.read_text()))
    if str(given.out) == "-":
        print(text)
    else:
        given.out.write_text(text)
    return 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments == ["storm"]:
        retry_storm.main()
        sys.exit()
    sys.exit(write_report(arguments[1:]) if arguments[:1] == ["report"] else run(arguments))
