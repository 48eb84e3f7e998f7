"""Options that cannot be meant are refused where they are given, and the message says what to do."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import ConfigError, Headrace, Once


@pytest.mark.parametrize("once", ["charge", Once("charge", failures="keep"), "{{order_id}}"])
def test_a_once_key_that_is_the_same_for_all_calls_is_refused(app: Headrace, once: Any) -> None:
    """Its second order would fail for good, as another call under a key that is taken."""

    def charge(order_id: int, cents: int) -> None: ...

    words = r"once: the key '.*' is the same for all calls of .*charge\(\), .* such as once='.*:\{order_id\}'"
    with pytest.raises(ConfigError, match=words):
        app.task(once=once)(charge)


def test_without_arguments_a_constant_key_can_be_meant(app: Headrace) -> None:
    @app.task(once="nightly")
    def nightly() -> None: ...

    assert nightly.once == Once("nightly")

    @app.task(once=lambda **values: "one")
    def anything(**values: object) -> None: ...

    assert anything.once is not None
    with pytest.raises(ConfigError, match="is the same for all calls"):
        app.task(once="one")(anything.function)


def ask(order_id: int) -> str:
    return "paid"


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda app: app.task(prioritty=3), r"@app.task has no option prioritty=: did you mean priority=\?"),
        (
            lambda app: app.task(colour="red"),
            r"@app.task has no option colour=: it takes aliases, circuit, deadline, .*unique",
        ),
        (lambda app: app.task(ask).using(run_afterr=3), r"using has no option run_afterr=: did you mean run_after="),
        (lambda app: app.task(ask).using(3), r"using takes its options by name, such as using\(queue=...\), and not 3"),
        (
            lambda app: app.poll(ask),
            r"@app.poll takes its options by name, such as @app.poll\(every=...\), and not <func",
        ),
        (lambda app: app.poll(give_up_after="1h"), r"@app.poll needs every=: @app.poll\(every=..., ...\)"),
        (
            lambda app: app.poll(every="1s", give_up="1h"),
            r"@app.poll has no option give_up=: did you mean give_up_after=",
        ),
        (lambda app: app.poll(every="1s", max_polls=3)(ask).using(tag="x"), "did you mean tags="),
    ],
)
def test_an_option_that_does_not_exist_is_named(app: Headrace, give: Callable[[Headrace], object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        give(app)
    assert "keyword argument" not in str(caught.value)


def test_what_is_wrong_inside_passes_as_it_is(app: Headrace) -> None:
    class Odd:
        def __iter__(self) -> Any:
            raise TypeError("odd")

    with pytest.raises(TypeError, match=r"^odd$"):
        app.task(ask).using(tags=Odd())  # type: ignore[arg-type]


NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("expires", "deadline"), [("1h", "5m"), (3600.0, timedelta(minutes=5)), (NOW + timedelta(hours=1), NOW)]
)
def test_expires_after_the_deadline_says_nothing(app: Headrace, expires: Any, deadline: Any) -> None:
    words = "expires is .*, later than deadline, .*: no run starts after the deadline"
    with pytest.raises(ConfigError, match=words):
        app.task(expires=expires, deadline=deadline)(ask)
    with pytest.raises(ConfigError, match=words):
        app.task(ask).using(expires=expires, deadline=deadline)


def test_limits_that_do_not_contradict_each_other_stand(app: Headrace) -> None:
    assert app.task(expires="5m", deadline="5m")(ask).deadline is not None
    assert app.task(ask).using(expires="1h", deadline=NOW).expires is not None  # whose clock says which is first?
    assert app.task(ask).using(expires="1h").using(deadline="5m").expires is not None
