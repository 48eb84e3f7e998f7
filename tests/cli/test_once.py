"""Once keys as operators see them: in `job show`, and by themselves."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import Headrace, Once, Task
from headrace.core import operations as ops
from headrace.core.once import fingerprint, task_scope
from headrace.core.once_records import OnceClaim, TakeOnce
from tests.cli.conftest import Command


@pytest.fixture
def charge(shop: Headrace) -> Task[..., Any]:
    def charge(order_id: int) -> dict[str, int]:
        return {"charged": order_id}

    return shop.task(name="shop.charge", once=Once("charge:{order_id}"), keep="1h", aliases=["charge"])(charge)


@pytest.fixture
def work(shop: Headrace) -> Callable[[], None]:
    """Run what waits."""

    def run() -> None:
        asyncio.run(shop.worker("default", burst=True).run())

    return run


def test_a_key_that_was_never_used_is_free(headrace: Command, charge: Task[..., Any]) -> None:
    job = charge.enqueue(17)
    shown = headrace("job", "show", job.id)
    assert "once key     charge:17\nonce record  free\n" in shown.out
    found = json.loads(headrace("job", "show", job.id, "--json").out)["once"]
    assert (found["key"], found["state"], found["fence"], found["result"]) == ("charge:17", "free", None, None)
    nothing = headrace("once", "show", "shop.charge", "charge:17")
    assert (nothing.code, nothing.out) == (4, "")
    assert "shop.charge has no record of 'charge:17': nothing has run under this key" in nothing.err


def test_what_took_effect_is_shown(headrace: Command, charge: Task[..., Any], work: Callable[[], None]) -> None:
    first = charge.enqueue(17)
    work()
    second = charge.enqueue(17)
    assert "once record  done by this job, until " in headrace("job", "show", first.id).out
    shown = headrace("job", "show", second.id).out
    assert f"once record  done by {first.id}, until " in shown
    assert 'once result  {"charged": 17}\n' in shown
    by_itself = headrace("once", "show", "charge", "charge:17")  # by an alias of the task
    assert by_itself.code == 0
    facts = dict(line.split(None, 1) for line in by_itself.lines)
    assert (facts["task"], facts["state"], facts["holder"]) == ("shop.charge", "done", first.id)
    assert json.loads(facts["result"]) == {"charged": 17}
    found = json.loads(headrace("once", "show", "shop.charge", "charge:17", "--json").out)
    assert list(found) == ["task", "key", "state", "holder", "fence", "until", "result"]
    assert (found["holder"], found["result"]) == (first.id, {"charged": 17})
    assert str(found["fence"]) == facts["fence"]
    assert datetime.fromisoformat(found["until"]) > datetime.now(UTC)


def test_who_holds_a_key_is_shown(shop: Headrace, headrace: Command, charge: Task[..., Any]) -> None:
    first, second = charge.enqueue(17), charge.enqueue(17)
    (job,) = shop.driver.run(ops.Claim("w1", shop.clock.unix_us(), ("default",), 1, 30_000_000)).jobs
    print_ = fingerprint(b'{"order_id":17}')
    claim = OnceClaim(task_scope("shop.charge"), "charge:17", print_, job.id, job.token, job.queue)
    assert [taken.status for taken in shop.driver.run(TakeOnce((claim,)))] == ["mine"]
    assert f"once record  held by {first.id}\n" in headrace("job", "show", second.id).out
    assert "once record  held by this job\n" in headrace("job", "show", first.id).out
    assert "result" not in headrace("once", "show", "shop.charge", "charge:17").out


def test_a_key_that_the_producer_did_not_make_is_shown_as_the_worker_makes_it(
    shop: Headrace, headrace: Command, charge: Task[..., Any]
) -> None:
    for id, args in (("foreign", b'{"order_id":9}'), ("odd", b'{"order_id":"x"}')):
        body = b'{"v":1,"id":"%b","task":"charge","args":%b}' % (id.encode(), args)
        shop.driver.run(ops.Enqueue((ops.NewJob(id, "default", "charge", body),)))
    assert json.loads(headrace("job", "show", "foreign", "--json").out)["once"]["key"] == "charge:9"
    odd = headrace("job", "show", "odd", "--json")
    assert (odd.code, json.loads(odd.out)["once"]) == (0, None)


def test_a_task_that_is_not_known_is_refused_unless_its_queue_is_named(
    headrace: Command, charge: Task[..., Any]
) -> None:
    result = headrace("once", "show", "shop.chrge", "charge:17")
    assert (result.code, result.err) == (
        2,
        "headrace: the app has no task 'shop.chrge': did you mean shop.charge or charge?\n",
    )
    assert headrace("once", "show", "other.task", "k").err.endswith("name the queue= of its jobs too\n")
    assert headrace("once", "show", "other.task", "k", "--queue", "default").code == 4
    assert headrace("once", "show", "shop.charge", "k" * 501).code == 2
