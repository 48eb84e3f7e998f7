"""`headrace alerts test`, and the file for `headrace work`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.observe import CircuitOpened, LogSink
from tests.cli.conftest import Command
from tests.waiting import wait_until
from tests.webhooks.receiver import answering, receiving

FILE = """
every = "50ms"

[[rules]]
kind = "oldest-waiting"
age = "1ms"

[[sinks]]
kind = "slack"
url_env = "SLACK_URL"

[[sinks]]
kind = "webhook"
url = "{url}"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One sink that takes alerts, and one that does not."""
    with receiving(answering("200 OK", b"ok")) as good, receiving(answering("403 Forbidden", b"no")) as bad:
        monkeypatch.setenv("SLACK_URL", good.url("/services/hush"))
        path = tmp_path / "alerts.toml"
        path.write_text(FILE.format(url=bad.url("/hush")))
        yield path
        assert all(b"nothing is wrong" in request.body for request in (*good.requests, *bad.requests))


def test_each_sink_is_tried_and_says_what_it_answered(headrace: Command, file: Path) -> None:
    tried = headrace("alerts", "test", "--alerts", str(file))
    assert tried.code == 1
    heads, good, bad = tried.lines
    assert heads.split() == ["SINK", "TAKEN", "SAID"]
    assert good.split() == ["slack", "SLACK_URL", "yes", "200", "ok"]
    assert bad.split()[-3:] == ["no", "403", "no"]
    assert "hush" not in tried.out + tried.err


def test_the_same_as_json_by_the_environment(headrace: Command, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_ALERTS", str(file))
    tried = headrace("alerts", "test", "--json")
    assert [json.loads(line)["taken"] for line in tried.lines] == [True, False]


def test_alerts_of_the_code(headrace: Command, shop: Headrace) -> None:
    shop.alerts(rules=[CircuitOpened()], sinks=[LogSink()])
    tried = headrace("alerts", "test")
    assert (tried.code, tried.lines[1].split()) == (0, ["log", "yes", "logged"])


def test_without_alerts_it_says_what_to_do(headrace: Command, tmp_path: Path) -> None:
    tried = headrace("alerts", "test")
    assert tried.code == 2
    assert "this app has no alerts: name a file with --alerts" in tried.err
    (tmp_path / "bad.toml").write_text("[[rules]]\nkind = 'worker-los'")
    tried = headrace("alerts", "test", "--alerts", "bad.toml")
    assert tried.code == 2
    assert "bad.toml: rules[0]: kind is 'worker-los': did you mean 'worker-lost'?" in tried.err
    tried = headrace("work", "--alerts", "bad.toml")
    assert (tried.code, "did you mean 'worker-lost'?" in tried.err) == (2, True)


def test_a_worker_sends_what_the_file_asks_for(tmp_path: Path) -> None:
    """It looks at all queues, also at those that nobody works on."""
    (tmp_path / "jobs.py").write_text(
        'from headrace import Headrace\napp = Headrace("sqlite:///jobs.db", name="shop")\n'
        '@app.task(name="a")\ndef a(): ...\n'
        'if __name__ == "__main__":\n    a.using(queue="forgotten").enqueue()\n'
    )
    subprocess.run([sys.executable, "jobs.py"], cwd=tmp_path, check=True)
    with receiving() as receiver:
        (tmp_path / "alerts.toml").write_text(FILE.format(url=receiver.url()))
        command = [sys.executable, "-m", "headrace.cli", "--app", "jobs:app", "work"]
        environment = {**os.environ, "HEADRACE_ALERTS": "alerts.toml", "SLACK_URL": receiver.url("/slack")}
        with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as worker:
            wait_until(lambda: len(receiver.requests) >= 2, 30, "both sinks")
            worker.terminate()
        assert worker.returncode == 0
        bodies = {request.path: json.loads(request.body) for request in receiver.requests}
    assert bodies["/slack"]["text"].startswith("[shop] the oldest ready job of queue forgotten has waited for ")
    assert bodies["/hook"]["subject"] == "forgotten"


def test_names_that_the_app_does_not_have_are_warned_about(
    headrace: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "odd.toml"
    rules = (
        'kind = "failed-growth"\ntask = "mial"',
        'kind = "oldest-waiting"\nqueue = "mail"',
        'kind = "circuit-opened"\ncircuit = "x"',
    )
    sinks = 'kind = "log"', 'kind = "slack"\nurl_env = "SLACK_URL"'
    file.write_text("".join([*(f"[[rules]]\n{one}\n" for one in rules), *(f"[[sinks]]\n{one}\n" for one in sinks)]))
    monkeypatch.setenv("HEADRACE_ALERTS", str(file))
    monkeypatch.setenv("SLACK_URL", "http://127.0.0.1:9/hush")
    warnings = [
        "warning: alert rule 'failed-growth mial': this app has no task 'mial': did you mean 'mail'?",
        "warning: alert rule 'circuit-opened x': this app has no circuit 'x': unless other code does, it is idle",
    ]
    for command in (("alerts", "test"), ("check",)):
        said = headrace(*command).err.splitlines()
        assert [line for line in said if line.startswith("warning")] == warnings
    assert headrace("check").code == 0
    monkeypatch.delenv("SLACK_URL")
    missing = headrace("check")
    assert (missing.code, missing.err.splitlines()[:-1]) == (2, warnings)
    assert "alert sink slack SLACK_URL: the environment variable SLACK_URL is not set" in missing.err
    work = [sys.executable, "-m", "headrace.cli", "work", "--burst"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    worker = subprocess.run(work, env=environment, capture_output=True, text=True, check=True)
    for told in (*(line.removeprefix("warning: ") for line in warnings), "variable SLACK_URL is not set"):
        assert told in worker.stderr
