"""Options of the wrong kind are refused by name, wherever they are given."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace import ConfigError, Headrace


def task(app: Headrace, **options: Any) -> Any:
    @app.task(name="t", **options)
    def work(number: int) -> None: ...

    return work


WRONG: list[tuple[Callable[[Headrace], object], str]] = [
    (lambda app: task(app, queue=5), "queue is 5"),
    (lambda app: task(app, retry=None), "retry is None: use 1"),
    (lambda app: task(app).using(headers=["a"]), r"headers is \['a'\]: give a dict"),
    (lambda app: app.worker("a", concurrency="5"), "concurrency is '5'"),
    (lambda app: app.worker("a", max_memory="500M"), "max_memory is '500M'"),
    (lambda app: app.worker("a", grace="soon"), "grace"),
    (lambda app: app.worker("a", max_age=0), "max_age is 0"),
    (lambda app: app.worker(["a", 5]), "queues holds 5"),
    (lambda app: app.worker("a:x"), "queue is 'a:x'"),
]


@pytest.mark.parametrize(("give", "words"), WRONG)
def test_an_option_of_the_wrong_kind_is_refused_by_name(give: Callable[[Headrace], object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        give(Headrace("memory://"))


def test_a_workers_durations_may_be_texts() -> None:
    options = Headrace("memory://").worker("a", grace="30s", max_age="1h").options
    assert (options.grace, options.max_age) == (30.0, 3600.0)
