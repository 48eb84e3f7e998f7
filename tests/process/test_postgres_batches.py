"""Many jobs at once: what another producer of the same jobs does between two statements of one."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.drivers.postgres import PostgresDriver
from headrace.drivers.postgres.line import Line
from headrace.stores.plan import Load, Plan
from tests.process.postgres_jobs import open_driver
from tests.process.redis_jobs import drain, enqueue, job


@pytest.fixture
def driver(postgres_url: str, unique_name: str) -> Iterator[PostgresDriver]:
    driver = open_driver(postgres_url, unique_name)
    driver.run(ops.Prepare())
    yield driver
    driver.close()


def interrupted(plan: Plan[Any], driver: PostgresDriver, meanwhile: ops.Enqueue) -> Plan[Any]:
    """The same plan, but before its jobs are copied in, others of the same ids come and go."""
    answer = None
    try:
        while True:
            step = plan.send(answer)
            if isinstance(step, Load):
                driver.run(meanwhile)
                assert len(drain(driver.run)) == len(meanwhile.jobs)
            answer = yield step
    except StopIteration as end:
        return end.value


@pytest.mark.parametrize("when", ["", "01932c07-20"], ids=["far", "near"])
@pytest.mark.parametrize("derived", [False, True], ids=["random", "derived"])
def test_jobs_that_have_come_and_gone_since_the_look_are_not_stored_again(
    driver: PostgresDriver, when: str, derived: bool
) -> None:
    """A producer whose answer was lost sends again, and is held up while what it had sent is carried out after all.

    It is told that they are new, for all that it can know; but nobody runs them a second time.
    """
    known = [job(f"{when}{n:04}", derived=derived) for n in range(200)]
    line = Line(driver.address, driver.statements)
    jobs = enqueue(*known, job(f"{when}new", derived=derived))
    line.run(interrupted(driver.store.plan(jobs), driver, enqueue(*known)))
    line.close()
    assert drain(driver.run) == [f"{when}new"]
