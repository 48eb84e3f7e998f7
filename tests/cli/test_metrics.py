"""`headrace metrics`, printed and served."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace import Headrace, __version__
from headrace.core import operations as ops
from tests.cli.conftest import Command
from tests.observe.scraping import fetched, parsed

DOWN = {("headrace_up",): 0, ("headrace_build_info", __version__): 1}


@pytest.fixture
def down(tmp_path: Path) -> str:
    """An app whose store is not there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (tmp_path / "down.py").write_text(f"from headrace import Headrace\napp = Headrace('redis://127.0.0.1:{port}/0')\n")
    return "down:app"


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`headrace metrics --listen` as a process, and its URL."""
    command = [sys.executable, "-m", "headrace.cli", "metrics", "--listen", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            url = re.search(r"serving (http://127\.0\.0\.1:\d+/metrics)", line)
            assert url, line + process.stderr.read()
            yield process, url[1]
        finally:
            process.kill()


def test_they_are_printed(headrace: Command, shop: Headrace) -> None:
    shop.circuit("smtp").force_open("x")
    shop.tasks["mail"].enqueue(order_id=1)
    printed = headrace("metrics")
    assert (printed.code, printed.err) == (0, "")
    found = parsed(printed.out)
    assert found["headrace_queue_ready", "mail"] == 1
    assert found["headrace_circuit_transitions_total", "smtp", "forced_open"] == 1
    assert printed.out.endswith("\n")
    assert not printed.out.endswith("\n\n")


def test_a_store_that_is_not_there_is_told_by_metric_line_and_exit_code(
    headrace: Command, down: str, caplog: pytest.LogCaptureFixture
) -> None:
    printed = headrace("metrics", "--app", down)
    assert (printed.code, parsed(printed.out)) == (3, DOWN)
    assert printed.err.startswith("headrace: no connection to redis://")
    assert len(printed.err.splitlines()) == 1
    assert not caplog.records


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_they_are_served_until_a_signal(shop: Headrace, number: signal.Signals) -> None:
    with serving() as (process, url):
        assert fetched(url)["headrace_queue_ready", "mail"] == 0
        shop.tasks["mail"].enqueue(order_id=1)
        assert fetched(url)["headrace_queue_ready", "mail"] == 1
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_server_is_there_during_an_outage(down: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with serving("--app", down, "--log-format", "json") as (process, url):
        assert [fetched(url), fetched(url)] == [DOWN, DOWN]
        process.terminate()
        assert process.wait(30) == 0
        assert process.stderr is not None
        (line,) = process.stderr.read().splitlines()
    assert '"message":"the store does not answer, headrace_up is 0: no connection to redis://' in line


def test_a_port_in_use(headrace: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = headrace("metrics", "--listen", f"127.0.0.1:{port}")
    assert refused.code == 2
    (line,) = refused.err.splitlines()
    assert line == f"headrace: --listen is '127.0.0.1' and port {port}, which cannot be served: Address already in use"


@pytest.mark.parametrize(
    "text", ["", "x", "localhost", "localhost:", "::1", "::1:9464", "1:2:3", "127.0.0.1:65536", "h:-1", "h:٣", "h:1e3"]
)
def test_what_is_no_address(headrace: Command, text: str) -> None:
    refused = headrace("metrics", f"--listen={text}")
    assert refused.code == 2
    assert "is no address: write 9464, 127.0.0.1:9464 or [::1]:9464" in refused.err


@pytest.mark.parametrize("host", ["no..name", "192.0.2.1"])
def test_an_address_that_is_not_this_machines(headrace: Command, host: str) -> None:
    refused = headrace("metrics", "--listen", f"{host}:9464")
    assert refused.code == 2
    assert f"headrace: --listen is '{host}' and port 9464, which cannot be served: " in refused.err


def test_without_the_extra(shop: Headrace) -> None:
    code = "import sys; sys.modules['prometheus_client'] = None; from headrace.cli import main; main(['metrics'])"
    refused = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "headrace: the client library for Prometheus is missing: pip install headrace[prometheus]\n"
    )


def test_what_is_printed_does_nothing_to_a_terminal(headrace: Command, shop: Headrace) -> None:
    """B094"""
    shop.driver.run(ops.Enqueue((ops.NewJob("a", "\x1b[31mred\nline", "t", b"{}"),)))
    printed = headrace("metrics")
    assert "\x1b" not in printed.out
    assert parsed(printed.out)["headrace_queue_ready", "\\x1b[31mred\nline"] == 1
