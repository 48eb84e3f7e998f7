"""`headrace hold list` and `release`."""

import json

import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core.hold import Convict, reason_of, register_of
from headrace.core.registers import Amend
from headrace.core.states import State
from headrace.middleware import notice
from headrace.observe import LogSink, TaskHeld
from headrace.signals import TaskHeld as Held
from tests.cli.conftest import Command


def convict(shop: Headrace, task: str, version: str, count: int = 3) -> None:
    shop.driver.run(
        Amend(
            tuple(
                Convict(register=register_of(task), task=task, version=version, job=f"{task}-{number}", after=3)
                for number in range(count)
            )
        )
    )


def test_what_is_held_is_listed_and_released(headrace: Command, shop: Headrace) -> None:
    convict(shop, "mail", "v1")
    convict(shop, "mail", "v2", count=4)
    convict(shop, "report", "", count=2)
    listed = headrace("hold", "list")
    heads, first, second = listed.lines
    assert heads.split("  ")[0] == "TASK"
    assert first.split()[:2] + first.split()[-3:] == ["mail", "v1", "3", "no", "-"]
    assert second.split()[:2] + second.split()[-3:] == ["mail", "v2", "4", "no", "-"]
    one, _ = (json.loads(line) for line in headrace("hold", "list", "--json").lines)
    assert (one["task"], one["version"], one["tried"]) == ("mail", "v1", False)
    assert one["jobs"] == ["mail-0", "mail-1", "mail-2"]
    assert headrace("hold", "release", "mail", "--version", "v1").lines == ["released mail, held under version v1"]
    assert headrace("hold", "release", "mail").lines == ["released mail, held under version v2"]
    assert "no task is held" in headrace("hold", "list").err


def test_why_says_that_a_task_is_held(headrace: Command, shop: Headrace) -> None:
    id = shop.tasks["mail"].enqueue(order_id=1).id
    (job,) = shop.driver.run(ops.Claim("w", 1, ("mail",), 1, 30_000_000)).jobs
    parked = ops.Outcome(job.id, job.queue, job.token, State.PARKED, reason=reason_of("mail", "v1"))
    assert shop.driver.run(ops.Settle("w", (parked,))) == [True]
    told = headrace("why", id)
    assert "its task is held: too many of them killed their workers (held mail v1)" in told.out
    assert "`headrace hold release`" in told.out


def test_what_is_not_held(headrace: Command, shop: Headrace) -> None:
    again = headrace("hold", "release", "mail")
    assert (again.code, "mail is not held" in again.err) == (1, True)
    misspelt = headrace("hold", "release", "male")
    assert (misspelt.code, "no task 'male' is held" in misspelt.err) == (4, True)


def test_a_release_is_an_alert_where_the_hold_was_one(
    headrace: Command, shop: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headrace.alerts")
    made = shop.alerts(rules=[TaskHeld()], sinks=[LogSink()])
    convict(shop, "mail", "v1")
    notice(shop.middleware, Held("mail", "v1", 3, "w"))
    assert made.flush(20)
    assert headrace("hold", "release", "mail").code == 0
    assert made.flush(20)
    texts = [record.getMessage() for record in caplog.records if record.name == "headrace.alerts"]
    assert texts[0].startswith("[shop] task mail is held under version v1: 3 jobs of it killed")
    assert texts[1] == "[shop] resolved: task mail, held under version v1, runs again"
