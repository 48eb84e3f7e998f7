"""Tasks: their definition, and what their options put on a job."""

import asyncio
import calendar
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headrace import ConfigError, Headrace, InvalidArguments, Retry, TaskError, Unique
from headrace.context import current_job
from headrace.core import codec
from headrace.core import operations as ops
from headrace.core.states import State
from tests.public.drivers import WatchedDriver, define, finish, new_job

# -- definition


def test_a_task_is_still_its_function(app: Headrace) -> None:
    @app.task
    def double(number: int) -> int:
        """Twice."""
        return number * 2

    @app.task(queue="slow")
    async def adouble(number: int) -> int:
        return number * 2

    assert double(4) == double(number=4) == asyncio.run(adouble(4)) == 8
    assert (double.is_async, adouble.is_async) == (False, True)
    assert double.__wrapped__.__doc__ == "Twice."
    assert double.name == f"{__name__}.test_a_task_is_still_its_function.<locals>.double"
    assert app.tasks[double.name] is double


def test_a_task_is_frozen_and_using_copies(app: Headrace) -> None:
    task = define(app)
    changed = task.using(queue="other", priority=7, tags=["a"])
    assert (task.queue, task.priority, task.sending.tags) == ("default", 0, ())
    assert (changed.queue, changed.priority, changed.sending.tags) == ("other", 7, ("a",))
    assert changed.using(priority=1).queue == "other"
    with pytest.raises(AttributeError):
        task.queue = "x"  # type: ignore[misc]


def test_aliases_are_names_too(app: Headrace) -> None:
    task = define(app, name="shop.mail", aliases=["shop.old_mail"])
    assert app.tasks["shop.old_mail"] is app.tasks["shop.mail"] is task


@pytest.mark.parametrize("options", [{"name": "taken"}, {"name": "free", "aliases": ("taken",)}])
def test_a_name_belongs_to_one_function(app: Headrace, options: dict[str, Any]) -> None:
    define(app, name="taken")

    with pytest.raises(ConfigError, match=r"'taken' is taken by .*mail"):

        @app.task(**options)
        def other() -> None: ...

    assert set(app.tasks) == {"taken"}


def test_a_module_that_is_loaded_again_replaces_its_tasks(app: Headrace) -> None:
    assert define(app, name="again") is not define(app, name="again")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queue": "a b"}, "queue is 'a b'"),
        ({"queue": ""}, "queue is ''"),
        ({"queue": "x" * 201}, "at most 200"),
        ({"priority": 101}, "priority is 101: it must be a whole number from -100 to 100"),
        ({"priority": True}, "priority is True"),
        ({"priority": 1.5}, "priority is 1.5"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": "soon"}, "timeout is 'soon'"),
        ({"expires": 0}, "expires is 0"),
        ({"deadline": datetime(2026, 1, 1)}, "deadline is the naive datetime 2026-01-01T00:00:00"),  # noqa: DTZ001
        ({"keep": datetime(2026, 1, 1, tzinfo=UTC)}, "keep is the moment"),
        ({"retry": 0}, "max_attempts is 0"),
        ({"log": ["order"]}, "log names order; "),
        ({"name": ""}, "name holds ''"),
        ({"unique": "{order}"}, "names order, the arguments are order_id, note"),
        ({"unique": 5}, "key is 5"),
        ({"unique": ""}, "key is '': leave unique= out, or give a template"),
        ({"unique": "{order_id.__class__}"}, "argument names in braces only"),
        ({"unique": "{order_id[0]}"}, "argument names in braces only"),
        ({"unique": "{order_id!r}"}, "argument names in braces only"),
        ({"unique": "{}"}, "argument names in braces only"),
        ({"unique": "{"}, "is no template"),
    ],
)
def test_options_out_of_range_are_refused_by_name(app: Headrace, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        define(app, **options)
    assert words in str(caught.value)
    assert not app.tasks


def test_a_generator_cannot_be_a_task(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="is a generator"):

        @app.task
        def numbers() -> Any:
            yield 1


def test_an_int_is_short_for_a_retry_policy(app: Headrace) -> None:
    assert define(app, retry=3).retry == Retry(max_attempts=3)


@pytest.mark.parametrize(
    ("command", "name"), [(["shop/jobs.py"], "jobs.mail"), (["-m", "shop.jobs"], "shop.jobs.mail")]
)
def test_a_module_that_runs_as_a_program_has_importable_names(tmp_path: Path, command: list[str], name: str) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text(
        "from headrace import Headrace\napp = Headrace('memory://')\n@app.task\ndef mail(): ...\nprint(mail.name)\n"
    )
    result = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.stdout.strip() == name, result.stderr


# -- one job


def test_an_enqueue_stores_one_job_that_says_what_to_run(app: Headrace, driver: WatchedDriver) -> None:
    task = define(app, name="mail", queue="mail", priority=5)
    job = task.using(tenant="acme", tags=("x",), headers={"trace": "1"}, timeout=30).enqueue(17, note="hi")
    stored = new_job(driver)
    envelope = codec.decode(stored.body)
    assert (job.id, job.status, job.duplicate) == (stored.id, "new", False)
    assert (stored.queue, stored.task, stored.priority, stored.derived) == ("mail", "mail", 5, False)
    assert (envelope.id, envelope.task, envelope.queue, envelope.priority) == (job.id, "mail", "mail", 5)
    assert (envelope.tenant, envelope.tags, envelope.headers) == ("acme", ("x",), {"trace": "1"})
    assert envelope.timeout_us == 30_000_000
    assert task.arguments.decode(envelope.args) == {"order_id": 17, "note": "hi"}


def test_a_wrong_argument_stores_nothing(app: Headrace, driver: WatchedDriver) -> None:
    with pytest.raises(InvalidArguments, match="'order_id'"):
        define(app).enqueue("x")
    assert not driver.seen


@pytest.mark.parametrize("after", [90, 90.0, timedelta(minutes=1.5), "1m30s"])
def test_a_delay_is_left_to_the_stores_clock(app: Headrace, driver: WatchedDriver, after: Any) -> None:
    job = define(app).using(run_after=after).enqueue(1)
    assert (new_job(driver).delay_us, new_job(driver).due_us) == (90_000_000, None)
    assert driver.run(ops.Get(job.id)).state is State.SCHEDULED  # type: ignore[union-attr]


def test_a_moment_is_the_same_instant_in_every_zone(app: Headrace, driver: WatchedDriver) -> None:  # B143
    moment = datetime(2126, 3, 4, 5, 6, 7, 8, tzinfo=UTC)
    for zone in ("Asia/Shanghai", "America/St_Johns", "UTC"):
        define(app).using(run_after=moment.astimezone(ZoneInfo(zone))).enqueue(1)
        assert new_job(driver).due_us == calendar.timegm(moment.timetuple()) * 1_000_000 + 8


@pytest.mark.parametrize("option", ["run_after", "expires", "deadline"])
def test_a_naive_datetime_is_refused(app: Headrace, option: str) -> None:  # B143
    options: dict[str, Any] = {option: datetime(2126, 1, 1)}  # noqa: DTZ001
    with pytest.raises(ConfigError, match=f"{option} is the naive datetime 2126-01-01T00:00:00: give it a time zone"):
        define(app).using(**options)


def test_a_timestamp_is_no_delay(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="a duration of more than 10 years"):
        define(app).using(run_after=datetime(2026, 1, 1, tzinfo=UTC).timestamp())


def test_limits_travel_in_the_envelope(app: Headrace, driver: WatchedDriver) -> None:
    moment = datetime(2126, 1, 1, tzinfo=UTC)
    define(app, expires=60, deadline=moment).enqueue(1)
    envelope = codec.decode(new_job(driver).body)
    assert (envelope.expires_in_us, envelope.expires_at_us) == (60_000_000, None)
    assert (envelope.deadline_in_us, envelope.deadline_at_us) == (None, 4_922_899_200_000_000)


SOON, LATE = datetime(2126, 1, 1, tzinfo=UTC), datetime(2127, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("limit", ["expires", "deadline"])
@pytest.mark.parametrize(
    ("after", "end", "words"),
    [
        ("2d", "6h", "run_after is 2 days, 0:00:00 and {} is 6:00:00, so the job could never run"),
        (60, 60, "run_after is 0:01:00 and {} is 0:01:00"),
        (LATE, SOON, "run_after is 2127-01-01T00:00:00\\+00:00 and {} is 2126-01-01T00:00:00\\+00:00"),
        (LATE, "1d", "run_after is 2127-01-01T00:00:00\\+00:00 and {} is 1 day, 0:00:00"),
        ("1h", datetime(2020, 1, 1, tzinfo=UTC), "make run_after shorter, or {} longer"),
    ],
)
def test_a_job_that_could_never_run_is_refused(app: Headrace, limit: str, after: Any, end: Any, words: str) -> None:
    task = define(app, **{limit: end}).using(run_after=after)
    with pytest.raises(ConfigError, match=words.format(limit)):
        task.enqueue(1)
    with pytest.raises(ConfigError, match=words.format(limit)):
        asyncio.run(task.aenqueue(1))
    assert not app.jobs.queues()


@pytest.mark.parametrize(
    ("after", "end"), [(59, 60), (SOON, LATE), ("1d", LATE), (datetime(2020, 1, 1, tzinfo=UTC), 1)]
)
def test_a_job_that_may_start_before_its_time_is_over_is_stored(
    app: Headrace, driver: WatchedDriver, after: Any, end: Any
) -> None:
    task = define(app, expires=end, deadline=end)
    assert task.using(run_after=after).enqueue(1).status == task.enqueue(1).status == "new"


def test_a_spread_beyond_the_end_is_refused(app: Headrace, driver: WatchedDriver) -> None:
    calls = [{"order_id": number} for number in range(4)]
    with pytest.raises(ConfigError, match="call 3 of enqueue_many: run_after is 0:00:45 and expires is 0:00:40"):
        define(app, expires=40).enqueue_many(calls, spread_over=60)
    assert not driver.seen


def test_an_id_of_ones_own_is_stored_once(app: Headrace, driver: WatchedDriver) -> None:
    task = define(app).using(id="order-17")
    first, second = task.enqueue(1), task.enqueue(1)
    assert (first.id, first.status) == ("order-17", "new")
    assert (second.id, second.status, second.duplicate) == ("order-17", "exists", True)
    assert new_job(driver).derived
    finish(driver, "default")
    assert task.enqueue(1).status == "exists"  # its tombstone stays for 24 h


@pytest.mark.parametrize("id", ["", "a b", 'a"b', "a\\b", "a\nb", "x" * 201, "\ud800", 5])
def test_ids_that_would_need_escaping_are_refused(app: Headrace, id: Any) -> None:
    with pytest.raises(ConfigError, match="id is"):
        define(app).using(id=id)


# -- unique


@pytest.mark.parametrize(
    "unique",
    [
        "order-{order_id}",
        Unique("order-{order_id}"),
        lambda order_id, note="": f"order-{order_id}",
        Unique(lambda order_id, note="": f"order-{order_id}"),
    ],
)
def test_a_second_job_with_the_key_is_answered_with_the_first(
    app: Headrace, driver: WatchedDriver, unique: Any
) -> None:
    task = define(app, unique=unique)
    first, second, other = task.enqueue(17), task.enqueue(order_id=17, note="again"), task.enqueue(18)
    assert (second.status, second.id, second.duplicate) == ("duplicate", first.id, True)
    assert other.status == "new"
    envelope = codec.decode(driver.enqueues()[0].jobs[0].body)
    assert (envelope.unique, envelope.unique_until, envelope.unique_us) == ("order-17", "end", 86_400_000_000)
    finish(driver, "default")
    assert task.enqueue(17).status == "new"


def test_a_key_may_name_a_default(app: Headrace, driver: WatchedDriver) -> None:
    define(app, unique="{order_id}/{note}").enqueue(1)
    assert new_job(driver).unique == "1/"


def test_a_key_until_start_is_free_once_the_job_runs(app: Headrace, driver: WatchedDriver) -> None:
    task = define(app, unique=Unique("k", until="start", lifetime=timedelta(minutes=1)))
    first = task.enqueue(1)
    assert new_job(driver).unique_us == 60_000_000
    assert task.enqueue(1).id == first.id
    driver.run(ops.Claim("w", 1, ("default",), 1, 30_000_000))
    assert task.enqueue(1).status == "new"


def test_using_sets_a_key_for_single_jobs(app: Headrace, driver: WatchedDriver) -> None:
    task = define(app)
    assert [task.using(unique="k").enqueue(1).status, task.using(unique="k").enqueue(2).status] == ["new", "duplicate"]
    assert task.enqueue(1).status == "new"


@pytest.mark.parametrize("key", [lambda order_id: 5, lambda order_id: "", lambda order_id: "x" * 501, lambda: "k"])
def test_a_key_that_is_none_is_refused(app: Headrace, driver: WatchedDriver, key: Callable[..., str]) -> None:
    with pytest.raises(InvalidArguments, match="unique key"):
        define(app, unique=key).enqueue(order_id=1)
    assert not driver.seen


def test_there_is_no_current_job_outside_of_one() -> None:
    with pytest.raises(TaskError, match="outside of a job"):
        current_job()


@pytest.mark.parametrize("key", ["a\x00b", "a\ud800", "\udfff"])
def test_a_unique_key_is_text_that_every_store_can_keep(key: str) -> None:
    with pytest.raises(InvalidArguments, match="NUL"):
        Unique(lambda: key).render({})
    with pytest.raises(InvalidArguments, match="NUL"):
        Unique("{name}").render({"name": key})
