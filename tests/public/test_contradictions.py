"""Options that cannot be meant are refused where they are given, and the message says what to do."""

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
