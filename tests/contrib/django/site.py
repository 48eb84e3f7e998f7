"""The shop as its users run it: manage.py in processes of their own, on a database of the test's own."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from tests.contrib.django.inside import HERE, entry
from tests.transactions.callers import server
from tests.waiting import wait_until

PATIENCE = 60.0  # seconds: the machine may be loaded; nothing here takes so long by itself


class Site:
    """One shop. `databases` and `headrace` are its settings."""

    def __init__(self, folder: Path, databases: dict[str, Any], headrace: dict[str, Any], **environment: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PYTHONFAULTHANDLER": "1",
            "DJANGO_SETTINGS_MODULE": "djangoshop.settings",
            "SHOP_DATABASES": json.dumps(databases),
            "SHOP_HEADRACE": json.dumps(headrace),
            **environment,
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []
        self.port = 0

    def manage(self, *arguments: str, code: int = 0, stdin: str | None = None) -> str:
        """`manage.py ...`, to its end; what it has printed."""
        ran = subprocess.run(
            [sys.executable, "-W", "error", "manage.py", *arguments],
            cwd=HERE,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ran.returncode == code, (arguments, ran.returncode, ran.stdout, ran.stderr)
        return ran.stdout + ran.stderr

    def python(self, program: str) -> str:
        """A program in the shop's settings; what it has printed."""
        lines = ["import django", "django.setup()", program]
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", "\n".join(lines)],
            cwd=HERE,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    def start(self, *arguments: str, ready: str) -> "subprocess.Popen[bytes]":
        """`manage.py ...` that goes on; `ready` is in its log when it has begun."""
        log = self.folder / f"process-{len(self._processes)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-u", "manage.py", *arguments],
                cwd=HERE,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._processes.append(process)
        self._logs.append(log)
        self.watch(lambda: ready in log.read_text(errors="replace"), f"{ready!r}")
        return process

    def serve(self, port: int) -> None:
        """The web server."""
        self.port = port
        self.start("runserver", "--noreload", f"127.0.0.1:{port}", ready="Quit the server")

    def ask(self, path: str, *, post: bool = False) -> Any:
        """The answer as JSON; of an error, its code."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method="POST" if post else "GET")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    def watch(self, predicate: Callable[[], Any], what: str) -> Any:
        """Wait for something; the logs explain why it did not come."""
        try:
            return wait_until(predicate, PATIENCE, what)
        except AssertionError as error:
            for log in self._logs:
                error.add_note(f"-- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
            raise

    def logs(self) -> str:
        """All that they have written."""
        return "\n".join(log.read_text(errors="replace") for log in self._logs)

    def stop(self) -> None:
        """All processes. One that does not end says where its threads stand."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            self.end(process)

    def end(self, process: "subprocess.Popen[bytes]") -> int:
        """SIGTERM, and its exit code."""
        process.terminate()
        try:
            return process.wait(PATIENCE)
        except subprocess.TimeoutExpired as error:
            process.send_signal(signal.SIGABRT)
            process.wait(PATIENCE)
            error.add_note(self._logs[self._processes.index(process)].read_text(errors="replace")[-6000:])
            raise


def own_database(url: str, name: str) -> tuple[dict[str, Any], str]:
    """A database of the test's own on this server: as it stands in DATABASES, and as a URL."""
    base, _, query = url.partition("?")
    mine = f"{base.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
    _tell(url, f"create database {name}" + ("" if url.startswith("postgres") else " character set utf8mb4"))
    return entry(mine), mine


def drop_database(url: str, name: str) -> None:
    """And away with it."""
    _tell(url, f"drop database {name}" + (" with (force)" if url.startswith("postgres") else ""))


def _tell(url: str, statement: str) -> None:
    """Outside of any transaction, on a connection of its own."""
    if url.startswith("postgres"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement)
    else:
        connection = pymysql.connect(**server(url))
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
