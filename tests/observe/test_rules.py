"""Rules and settings: what is found, what is not, and which mistakes are named."""

from pathlib import Path
from typing import Any

import pytest

from headrace import ConfigError, Headrace, signals
from headrace.core.alerts import Failed, Failures
from headrace.core.operations import QueueView
from headrace.observe import CircuitOpened, FailedGrowth, LogSink, MailSink, OldestWaiting, Rule, SlackSink, TaskHeld
from headrace.observe import WorkerLost as WorkerLostRule
from headrace.observe.returning import Returning
from headrace.observe.rules import Sight
from headrace.observe.settings import read

SECOND = 1_000_000
NOW = 1_000 * SECOND


def sight(*failures: tuple[int, str, str, int], queues: dict[str, int] | None = None) -> Sight:
    """`failures`: how many seconds ago, queue, task, count. `queues`: for how long the oldest has waited."""
    slices = tuple(Failures(NOW - ago * SECOND, *rest) for ago, *rest in failures)  # type: ignore[arg-type]
    views = [
        QueueView(name, 1, 0, 0, 0, 0, None if waits is None else NOW - waits * SECOND, None)
        for name, waits in (queues or {}).items()
    ]
    return Sight(NOW, Failed(NOW, slices), views if queues is not None else None)


SOME = sight((10, "mail", "send", 3), (50, "mail", "draw", 2), (70, "mail", "send", 90), (10, "sms", "send", 1))


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (FailedGrowth(count=6, window="1m"), {"": "6 jobs failed within 60 s"}),
        (FailedGrowth(count=7, window="1m"), {}),
        (FailedGrowth(count=1, window="15s", queue="sms"), {"": "1 job of queue sms failed within 15 s"}),
        (FailedGrowth(count=4, window="1m", task="send"), {"": "4 jobs of task send failed within 60 s"}),
        (FailedGrowth(count=4, window="1m", each="queue"), {"mail": "5 jobs of queue mail failed within 60 s"}),
        (
            FailedGrowth(count=2, window="1m", queue="mail", each="task"),
            {
                "draw": "2 jobs of queue mail, task draw failed within 60 s",
                "send": "3 jobs of queue mail, task send failed within 60 s",
            },
        ),
    ],
)
def test_growth(rule: FailedGrowth, found: dict[str, str]) -> None:
    assert {finding.subject: finding.text for finding in rule.seen(SOME)} == found


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (OldestWaiting(age="5m"), ["slow"]),
        (OldestWaiting(age="1m"), ["mail", "slow"]),
        (OldestWaiting(age="1m", queue="mail"), ["mail"]),
        (OldestWaiting(age="1h"), []),
    ],
)
def test_waiting(rule: OldestWaiting, found: list[str]) -> None:
    seen = sight(queues={"mail": 61, "slow": 301, "empty": None})  # type: ignore[dict-item]
    assert [finding.subject for finding in rule.seen(seen)] == found
    assert rule.seen(sight()) == []


def test_the_time_while_jobs_are_parked_is_no_waiting() -> None:
    rule, returning = OldestWaiting(age="1m"), Returning()

    def look(at: int, oldest: int | None, parked: int) -> list[float]:
        view = QueueView("bank", 1, 0, 0, parked, 0, None if oldest is None else oldest * SECOND, None)
        back_us = returning.look([view], at * SECOND)
        seen = Sight(at * SECOND, Failed(at * SECOND, ()), [view], back_us)
        return [finding.facts["waited_s"] for finding in rule.seen(seen)]

    assert look(1_000, None, 50) == []
    assert look(1_300, None, 90) == []
    assert look(1_315, 700, 60) == []  # the circuit has closed: they come back at a pace, and are taken
    assert look(1_330, 720, 30) == []
    assert look(1_345, 740, 0) == []
    assert look(1_360, 740, 0) == []
    assert look(1_406, 740, 0) == [61]  # nobody has taken this one since
    assert look(1_421, 740, 0) == [76]
    assert look(1_436, 740, 20) == [91]
    assert look(1_451, 740, 10) == [106]  # it was ready before those came back


def test_what_waits_beside_parked_jobs_is_told() -> None:
    returning = Returning()
    views = [QueueView("mail", 1, 0, 0, 7, 0, 100 * SECOND, None), QueueView("sms", 1, 0, 0, 0, 0, 100 * SECOND, None)]
    assert returning.look(views, 500 * SECOND) == {"mail": 500 * SECOND}  # nobody has looked before
    assert returning.look(views, 515 * SECOND) == {"mail": 500 * SECOND}
    assert returning.look((), 530 * SECOND) == {}


def changed(after: str, circuit: str = "smtp") -> signals.CircuitChanged:
    return signals.CircuitChanged(circuit, "closed", after, "60% of 20 calls failed", "w")


@pytest.mark.parametrize(
    ("rule", "signal", "subject", "words", "over"),
    [
        (CircuitOpened(), changed("open"), "smtp", "circuit smtp opened: 60% of 20 calls failed", False),
        (CircuitOpened(circuit="smtp"), changed("forced_open"), "smtp", "opened", False),
        (CircuitOpened(), changed("closed"), "smtp", "circuit smtp closed", True),
        (WorkerLostRule(), signals.WorkerLost("w7", ("a", "b"), "w"), "", "worker w7 was lost with 2 jobs", False),
        (TaskHeld(), signals.TaskHeld("t", "v1", 3, "w"), "t", "task t is held under version v1: 3 jobs", False),
        (TaskHeld(task="t"), signals.TaskHeld("t", "", 3, "w"), "t", "task t is held: 3 jobs", False),
        (TaskHeld(), signals.TaskFreed("t", "v1", "w"), "t", "task t, held under version v1, runs again", True),
    ],
)
def test_signals(rule: Rule, signal: signals.Signal, subject: str, words: str, over: bool) -> None:
    finding = rule.heard(signal)
    assert finding is not None
    assert (finding.subject, finding.over) == (subject, over)
    assert words in finding.text


@pytest.mark.parametrize(
    ("rule", "signal"),
    [
        (CircuitOpened(), changed("half_open")),
        (CircuitOpened(circuit="psp"), changed("open")),
        (CircuitOpened(), signals.WorkerLost("w7", (), "w")),
        (TaskHeld(task="u"), signals.TaskHeld("t", "v1", 3, "w")),
        (WorkerLostRule(), changed("open")),
        (FailedGrowth(), changed("open")),
    ],
)
def test_signals_of_others(rule: Rule, signal: signals.Signal) -> None:
    assert rule.heard(signal) is None


GOOD = """
cooldown = "30m"
resolved = false

[[rules]]
kind = "failed-growth"
count = 10
window = "5m"
each = "queue"

[[rules]]
kind = "oldest-waiting"
age = 600
cooldown = "2h"

[[rules]]
kind = "oldest-waiting"
queue = "mail"
age = "1m"

[[rules]]
kind = "circuit-opened"

[[rules]]
kind = "worker-lost"

[[rules]]
kind = "task-held"

[[sinks]]
kind = "log"

[[sinks]]
kind = "slack"
url_env = "SLACK_URL"

[[sinks]]
kind = "mail"
host = "mail.example"
to = ["ops@example"]
sender = "headrace@example"
user = "ops"
password_env = "SMTP_PASSWORD"
"""


def test_a_file_makes_the_same_as_code(tmp_path: Path) -> None:
    (tmp_path / "alerts.toml").write_text(GOOD)
    app = Headrace("memory://")
    made = app.alerts(tmp_path / "alerts.toml").settings
    rules = [
        FailedGrowth(count=10, window="5m", each="queue"),
        OldestWaiting(age=600, cooldown="2h"),
        OldestWaiting(queue="mail", age="1m"),
        CircuitOpened(),
        WorkerLostRule(),
        TaskHeld(),
    ]
    login = {"user": "ops", "password_env": "SMTP_PASSWORD"}
    mail = MailSink(host="mail.example", to=["ops@example"], sender="headrace@example", **login)  # type: ignore[arg-type]
    sinks = [LogSink(), SlackSink(url_env="SLACK_URL"), mail]
    assert app.alerts(rules=rules, sinks=sinks, cooldown="30m", resolved=False).settings == made
    assert [layer for layer in app.middleware if layer is app.alerting] == app.middleware  # the first one is gone


LOST = "[[rules]]\nkind = 'worker-lost'\n"
GROWTH = "[[rules]]\nkind = 'failed-growth'\n"
WAITING = "[[rules]]\nkind = 'oldest-waiting'\n"
LOG = "[[sinks]]\nkind = 'log'\n"

MISTAKES = [
    ("kind = 3", "there is no key 'kind' here: give one of rules, sinks"),
    ("cooldwon = 3", "there is no key 'cooldwon' here: did you mean 'cooldown'?"),
    ("", r"rules is missing: write at least one table, \[\[rules\]\] with kind = \"failed-growth\""),
    ("rules = 3", r"rules is 3: write tables, each beginning with \[\[rules\]\]"),
    ("[rules]", r"rules is \{\}: write tables"),
    ("[[rules]]\nqueue = 'a'", r"rules\[0\]: kind is missing: give one of failed-growth, oldest-waiting"),
    ("[[rules]]\nkind = 'failed_growth'", r"rules\[0\]: kind is 'failed_growth': did you mean 'failed-growth'?"),
    ("[[rules]]\nkind = []", r"rules\[0\]: kind is \[\]: "),
    (LOST + GROWTH + "count = '9'", r"rules\[1\] \(failed-growth\): count is '9': give a whole"),
    (GROWTH + "window = '5 minutes'", r"rules\[0\] \(failed-growth\): window is '5 minutes', which is no duration"),
    (GROWTH + "window = '1ms'", "window is '1ms': it must be at least 1 s"),
    (GROWTH + "each = 'tenant'", "each is 'tenant': give one of 'queue', 'task'"),
    (LOST + "worker = 'w'", "there is no key 'worker' here: give one of name, cooldown"),
    (LOST, "sinks is missing"),
    (LOST + "[[sinks]]\nkind = 'mail'", r"sinks\[0\] \(mail\): host is missing: it takes host, to"),
    ("resolved = 'no'\n" + LOST + LOG, "resolved is 'no': give true or false"),
    ("every = 0\n" + LOST + LOG, "every is 0: it must be more than 0"),
    (WAITING + WAITING + "age = 5\n" + LOG, r"rules\[0\] and rules\[1\] are both called 'oldest-waiting': give one"),
    ("resolved = True\n", r"is no TOML: Invalid value \(at line 1"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES)
def test_mistakes_in_a_file_are_named(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "alerts.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        read(file)
    assert str(caught.value).startswith(str(file))


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read: No such file"):
        read(tmp_path / "nowhere.toml")
    (tmp_path / "alerts.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is no TOML"):
        read(tmp_path / "alerts.toml")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"rules is \(\): give at least one, such as rules=\[FailedGrowth"),
        ({"rules": [LogSink()], "sinks": [LogSink()]}, r"rules\[0\] is LogSink.*: give one such as FailedGrowth"),
        ({"rules": [WorkerLostRule()], "sinks": LogSink()}, "sinks is LogSink"),
        ({"file": "a.toml", "sinks": [LogSink()]}, "file is 'a.toml', and rules or sinks are given too"),
    ],
)
def test_mistakes_in_code_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Headrace("memory://").alerts(**given)
