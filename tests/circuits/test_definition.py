"""What can be asked of `app.circuit`, of `circuit=` and of `app.queue`."""

from typing import Any

import pytest

from headrace import ConfigError, Headrace, RetryBudget


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"failure_rate": 0}, "failure_rate is 0: use a share above 0 and at most 1"),
        ({"window": 0}, "window is 0: use a whole number from 1 to"),
        ({"minimum": 200}, "minimum is 200: use a whole number from 1 to 100, the window, or None"),
        ({"open_for": 0}, "open_for is 0"),
        ({"open_for": "soon"}, "open_for is 'soon', which is no duration"),
        ({"probes": 0}, "probes is 0"),
        ({"refill": 0}, "refill is 0"),
        ({"record": "OSError"}, "record is 'OSError': use exception classes"),
        ({"record": ValueError("x")}, "record is .*: use exception classes, such as ValueError itself"),
        ({"ignore": "ValueError"}, "ignore is 'ValueError': use exception classes"),
        ({"ignore": None}, "ignore is None: use exception classes"),
        ({"ignore": [OSError, 3]}, "ignore holds 3: use exception classes"),
        ({"retry_budget": 0.2}, "retry_budget is 0.2: use RetryBudget"),
        ({"open_four": 1}, "app.circuit has no option open_four=: did you mean open_for="),
    ],
)
def test_what_a_circuit_cannot_be(app: Headrace, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        app.circuit("smtp", **options)
    assert "smtp" not in app.circuits


@pytest.mark.parametrize("name", ["", "a b", "x" * 191, None])
def test_names_that_are_none(app: Headrace, name: Any) -> None:
    with pytest.raises(ConfigError, match="circuit is "):
        app.circuit(name)
    with pytest.raises(ConfigError, match="circuit is "):
        app.task(circuit=name or 5)(lambda: None)


def test_options_go_by_name(app: Headrace) -> None:
    with pytest.raises(ConfigError, match=r"app.circuit takes its options by name, .* and not 0.5"):
        app.circuit("smtp", 0.5)  # type: ignore[misc]


def test_the_same_twice_is_one_and_another_is_refused(app: Headrace) -> None:
    smtp = app.circuit("smtp", window=10, open_for="30s")
    assert app.circuit("smtp", window=10, open_for=30) is smtp
    assert app.circuit("smtp") is smtp is app.circuits["smtp"]
    with pytest.raises(ConfigError, match=r"the circuit 'smtp' is made twice with different settings.*app.circuits"):
        app.circuit("smtp", window=11)


def test_the_handle_of_another_app_is_refused(app: Headrace) -> None:
    other = Headrace("memory://").circuit("smtp")
    app.circuit("smtp")
    with pytest.raises(ConfigError, match="circuit is <Circuit 'smtp'> of another app"):
        app.task(circuit=other)(lambda: None)


@pytest.mark.parametrize("why", ["", " ", None])
def test_who_says_why_says_something(app: Headrace, why: Any) -> None:
    smtp = app.circuit("smtp")
    with pytest.raises(ConfigError, match="why is"):
        smtp.force_open(why)
    smtp.force_open()
    assert [step.why for step in smtp.look().history] == ["by hand"]


def test_a_task_takes_a_name_or_a_handle(app: Headrace) -> None:
    smtp = app.circuit("smtp")

    @app.task(circuit=smtp)
    def one() -> None: ...

    @app.task(circuit="smtp")
    def other() -> None: ...

    assert one.circuit == other.circuit == "smtp"
    app.check_circuits()


def test_a_worker_does_not_start_where_a_circuit_is_missing(app: Headrace) -> None:
    app.circuit("smtp")

    @app.task(name="mail", circuit="smpt")
    def mail() -> None: ...

    with pytest.raises(ConfigError, match=r"the task mail names the circuit 'smpt', which .* did you mean 'smtp'"):
        app.worker()
    app.circuit("smpt")
    assert app.worker().options.queues == ("default",)


def test_a_queue_is_described_once(app: Headrace) -> None:
    app.queue("mail", retry_budget=RetryBudget(share=0.1))
    app.queue("mail", retry_budget=RetryBudget(share=0.1))
    with pytest.raises(ConfigError, match="the queue 'mail' is described twice"):
        app.queue("mail")
    with pytest.raises(ConfigError, match=r"app\.queue has no option retry_budgt="):
        app.queue("mail", retry_budgt=None)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="queue is 'a b'"):
        app.queue("a b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": -0.1}, "share is -0.1"),
        ({"share": True}, "share is True"),
        ({"window": 0}, "window is 0: use more than 0 and at most a day"),
        ({"window": "2d"}, "window is '2d'"),
        ({"minimum": 1.5}, "minimum is 1.5"),
    ],
)
def test_what_a_budget_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RetryBudget(**options)
