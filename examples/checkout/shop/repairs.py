"""A repair of many failed jobs at once: python -m examples.checkout.shop.repairs FINGERPRINT --by ann"""

from __future__ import annotations

import argparse

from headrace import FailedFilter

from .jobs import app


def write_eur(fingerprint: str, by: str) -> str:
    """Make "EURO" "EUR" in the failed jobs of a group: each is checked and noted down, as an edit by hand is."""
    failed = app.jobs.find_failed(FailedFilter(fingerprint=fingerprint), limit=1000).jobs
    jobs = [job for job in map(app.jobs.get, [one.id for one in failed]) if job is not None]
    meant = [job.id for job in jobs if job.args["currency"] == "EURO"]
    for id in meant:
        app.jobs.edit(id, {"currency": "EUR"}, by=by, why="EURO is a typing error")
    return f"{len(meant)} of {len(jobs)} jobs corrected"


def main() -> None:
    """As a command."""
    parser = argparse.ArgumentParser(prog="python -m examples.checkout.shop.repairs")
    parser.add_argument("fingerprint", help="as `headrace failed groups` shows it")
    parser.add_argument("--by", required=True, help="who does it")
    options = parser.parse_args()
    print(write_eur(options.fingerprint, options.by))


if __name__ == "__main__":
    main()
