"""A process that claims and settles until it is killed: `mysql_worker.py URL NAME WORKER LOG`."""

import itertools
import sys
from pathlib import Path

from headrace.core import operations as ops
from headrace.core.states import State
from tests.process.mysql_jobs import open_driver

LEASE_US = 1_000_000


def main(url: str, name: str, worker: str, log: str) -> None:
    """Each settled id becomes a line of the log, after the store has said so."""
    driver = open_driver(url, name)
    with Path(log).open("a", encoding="utf-8", buffering=1) as lines:
        for number in itertools.count(1):
            claimed = driver.run(ops.Claim(worker, number, ("q",), 10, LEASE_US))
            outcomes = tuple(ops.Outcome(each.id, "q", each.token, State.SUCCEEDED) for each in claimed.jobs)
            for outcome, settled in zip(outcomes, driver.run(ops.Settle(worker, outcomes)), strict=True):
                if settled:
                    lines.write(f"{outcome.id}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
