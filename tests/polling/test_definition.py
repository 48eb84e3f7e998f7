"""What `@app.poll` and its hooks refuse, and what they offer."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import ConfigError, Fixed, Headrace, Pending, PollTask, Retry, TaskError, Unique
from headrace.core.poll import RETRY, RETRY_BOUNDED


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


@pytest.fixture
def ask(app: Headrace) -> PollTask[Any, Any]:
    @app.poll(every="5s", give_up_after="1m")
    def ask(order_id: int, note: str = "none") -> Any:
        return Pending()

    return ask


def test_a_poll_is_a_task_of_the_app(app: Headrace, ask: PollTask[Any, Any]) -> None:
    @ask.on_final
    def final(result: Any) -> None: ...

    @ask.on_timeout(name="give-up", aliases=("old-name",), priority=3, timeout="5s", keep="1h", retry=9)
    def in_vain() -> None: ...

    assert app.tasks[ask.name] is ask
    assert app.tasks[final.name] is final
    assert app.tasks["give-up"] is app.tasks["old-name"] is in_vain
    assert (in_vain.priority, in_vain.timeout_s, in_vain.retry.max_attempts) == (3, 5, 9)
    assert final.name.endswith("test_a_poll_is_a_task_of_the_app.<locals>.final")
    assert ask.enqueue(order_id=1).status == "new"
    assert ask.call(order_id=1).job("an-id").derived is False
    with pytest.raises(ConfigError, match=r"run_after is .* and deadline is 0:01:00, so the job could never run"):
        ask.using(run_after="2m").enqueue(order_id=1)


def test_errors_have_a_policy_by_default(app: Headrace) -> None:
    def ask() -> Any: ...

    assert app.poll(every="5s", give_up_after=60)(ask).retry == RETRY
    assert app.poll(every="alipay")(ask).retry == RETRY_BOUNDED
    assert app.poll(every="alipay", retry=3)(ask).retry == Retry(3)
    with pytest.raises(ConfigError, match="an upstream that only fails would be asked for ever"):
        app.poll(every="alipay", retry=Retry(max_attempts=None, backoff=Fixed(1)))(ask)


def test_its_key_is_its_own_until_it_has_ended(app: Headrace) -> None:
    def ask(order_id: int) -> Any: ...

    with pytest.raises(ConfigError, match="a poll needs its key until it has ended"):
        app.poll(every="alipay", unique=Unique("{order_id}", until="start"))(ask)
    task = app.poll(every="alipay", unique="{order_id}")(ask)
    with pytest.raises(ConfigError, match="a poll needs its key until it has ended"):
        task.using(unique=Unique("{order_id}", until="start"))


def test_what_a_poll_cannot_be(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="set give_up_after"):
        app.poll(every="5s")
    with pytest.raises(ConfigError, match=r"@app.poll needs every="):
        app.poll()  # type: ignore[call-arg]

    def ask(result: int) -> Any: ...

    with pytest.raises(TaskError, match="takes 'result', which is what on_final gets: give it another name"):
        app.poll(every="alipay")(ask)
    with pytest.raises(ConfigError, match="max_attempts is 0"):
        app.poll(every="alipay", retry=0)(ask)


def test_hooks_take_the_arguments_of_their_poll_only(ask: PollTask[Any, Any]) -> None:
    def stranger(order_id: int, customer: str) -> None: ...

    for hook, more in ((ask.on_final, ", result"), (ask.on_timeout, ""), (ask.pre_check, "")):
        with pytest.raises(
            TaskError, match=f"takes 'customer', which the poll does not have: .* order_id, note{more}$"
        ):
            hook(stranger)

    def result(result: int) -> None: ...

    for hook in (ask.on_timeout, ask.pre_check):
        with pytest.raises(TaskError, match="takes 'result', which the poll does not have"):
            hook(result)


def test_each_hook_is_there_once(ask: PollTask[Any, Any]) -> None:
    def hook() -> None: ...

    for decorate, what in ((ask.on_final, "an on_final"), (ask.on_timeout, "an on_timeout"), (ask.pre_check, "a pre_")):
        decorate(hook)
        with pytest.raises(ConfigError, match=f"has {what}.* already"):
            decorate(hook)


@pytest.mark.parametrize("option", ["queue", "unique", "expires", "deadline", "once", "colour"])
def test_hooks_have_no_queue_and_no_key_of_their_own(ask: PollTask[Any, Any], option: str) -> None:
    def hook() -> None: ...

    for decorate in (ask.on_final, ask.on_timeout):
        with pytest.raises(ConfigError, match=f"takes no {option}=: a hook runs in the queue of its poll"):
            decorate(**{option: "x"})(hook)


def test_an_async_pre_check_needs_an_async_query(ask: PollTask[Any, Any]) -> None:
    async def check() -> None: ...

    with pytest.raises(ConfigError, match=r"check\(\) is async and .*ask\(\) is not: make them the same"):
        ask.pre_check(check)


def test_a_default_that_cannot_travel_is_wanted_in_the_hook(app: Headrace) -> None:
    @app.poll(every="alipay")
    def ask(order_id: int, mark: Any = object()) -> Any: ...  # noqa: B008 - a sentinel

    def final(mark: Any) -> None: ...

    with pytest.raises(TaskError, match=r"'mark' may be missing, and its default .* has no JSON form"):
        ask.on_final(final)

    def better(mark: Any = 7) -> None: ...

    assert ask.on_final(better).arguments.defaults == {"mark": 7}


def nothing_yet() -> Pending:
    return Pending()


def test_chance_puts_no_first_query_off_beyond_the_end(app: Headrace) -> None:
    task = app.poll(every="1h", give_up_after="10s", jitter=1)(nothing_yet)
    for options, least_s, most_s in (({}, 0, 5), ({"run_after": 8}, 8, 9), ({"run_after": 9.9}, 9.9, 9.95)):
        delays = [task.using(**options).call().job("an-id").delay_us / 1_000_000 for _ in range(100)]
        assert least_s <= min(delays) <= max(delays) <= most_s
    soon = datetime.now(UTC) + timedelta(hours=2)
    assert task.using(deadline=soon).call().job("an-id").delay_us == 0
    with pytest.raises(ConfigError, match="the job could never run"):
        task.using(run_after=11).call().job("an-id")


def test_without_a_deadline_chance_has_the_first_delay(app: Headrace) -> None:
    task = app.poll(every="10s", max_polls=3, jitter=0.5)(nothing_yet)
    delays = [task.call().job("an-id").delay_us / 1_000_000 for _ in range(200)]
    assert 0 <= min(delays) < max(delays) <= 5
    assert max(delays) - min(delays) > 1
