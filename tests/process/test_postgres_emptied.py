"""What a statement costs does not depend on what the planner was last told about the tables."""

import pytest

from headrace.core import operations as ops
from headrace.core import outbox
from tests.process.postgres_jobs import open_driver, plain
from tests.process.redis_jobs import claim, enqueue, job, settle

MANY = 10_000
TIMEOUT = (
    "timeout=3"  # seconds that each statement has: a hundred times what it takes, a third of comparing all with all
)


@pytest.mark.parametrize("derived", [False, True], ids=["random", "derived"])
def test_a_queue_that_was_vacuumed_empty_takes_many_jobs(derived: bool, postgres_url: str, unique_name: str) -> None:
    """Within the time that a statement has, which is plenty unless new jobs are compared with all other ones."""
    driver = open_driver(postgres_url, unique_name, TIMEOUT)
    driver.run(enqueue(job("a"), job("b")))
    assert driver.run(settle(driver.run(claim(1)).jobs)) == [True, True]
    jobs, gone = f"{unique_name}_jobs", f"{unique_name}_gone"
    with plain(postgres_url) as connection:
        connection.autocommit = True
        connection.execute(f"delete from {gone}".encode())
        for table in (jobs, gone):
            connection.execute(f"vacuum analyze {table}".encode())
        forever = 2**62
        connection.execute(
            f"insert into {gone} select 'gone' || n, {forever}, 1 from generate_series(1, {MANY}) as n".encode()
        )
    new = [job(f"{number:05}", derived=derived) for number in range(MANY)]
    assert {each.status for each in driver.run(enqueue(*new))} == {"new"}
    assert driver.run(ops.Queues())[0].ready == MANY
    driver.close()


OUTBOX = """insert into {name}_outbox
    (id, event_type, aggregate_type, aggregate_id, payload, status, created_at, published_at)
    select gen_random_uuid(), 'x', 'a', n::text, '{{}}', '{kind}', {old}, {old} from generate_series(1, 5) as n"""
INBOX = """insert into {name}_inbox (consumer, message_id, nonce, received_at)
    select 'c', n::text, 'n', {old} from generate_series(1, 5) as n"""


@pytest.mark.parametrize("kind", ["published", "cdc", "inbox"])
def test_tables_that_were_vacuumed_empty_are_pruned_in_steps(kind: str, postgres_url: str, unique_name: str) -> None:
    """B160: not more rows than were asked for, whatever plan deletes them."""
    driver = open_driver(postgres_url, unique_name)
    driver.run(ops.Prepare())
    prune = outbox.PruneInbox(0, 2) if kind == "inbox" else outbox.PruneEvents(0, 2, cdc=kind == "cdc")
    table = f"{unique_name}_{'inbox' if kind == 'inbox' else 'outbox'}"
    fill = (INBOX if kind == "inbox" else OUTBOX).format(name=unique_name, kind=kind, old="timestamp '2020-01-01'")
    with plain(postgres_url) as connection:
        connection.autocommit = True
        for statement in (fill, f"delete from {table}", f"vacuum analyze {table}", fill):
            connection.execute(statement.encode())
    assert [driver.run(prune) for _ in "abc"] == [outbox.PrunedRows(count, count == 2) for count in (2, 2, 1)]
    driver.close()
