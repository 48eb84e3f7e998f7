"""`flask headrace ...`, as a user calls it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SHOP = """
from flask import Flask
from headrace.contrib.flask import FlaskHeadrace

jobs = FlaskHeadrace()

@jobs.task
def note(text: str) -> None:
    with open("notes.txt", "a") as file:
        file.write(f"{text}\\n")

def create_app():
    app = Flask(__name__)
    app.config["HEADRACE_URL"] = "sqlite:///shop.db"
    app.config.from_prefixed_env()
    jobs.init_app(app)
    return app
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "shop.py").write_text(SHOP)

    def run(*arguments: str, program: str = "flask", **environment: str) -> "subprocess.CompletedProcess[str]":
        words = ["--app", "shop", "headrace"] if program == "flask" else []
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", program, *words, *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_jobs_are_enqueued_and_run(run: Run, tmp_path: Path) -> None:
    for word in ("first", "second"):
        assert run("enqueue", "shop.note", f"text={word}").returncode == 0
    worked = run("work", "--burst")
    assert worked.returncode == 0, worked.stderr
    assert sorted((tmp_path / "notes.txt").read_text().split()) == ["first", "second"]


def test_a_worker_starts_itself_anew(run: Run, tmp_path: Path) -> None:
    for number in range(3):
        assert run("enqueue", "shop.note", f"text={number}").returncode == 0
    worked = run("work", "--burst", "--max-jobs", "1", "--concurrency", "1")
    assert worked.returncode == 0, worked.stderr
    assert sorted((tmp_path / "notes.txt").read_text().split()) == ["0", "1", "2"]
    assert worked.stderr.count(" started on ") >= 3


def test_help_names_the_whole_command(run: Run) -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert "Usage: flask headrace [OPTIONS] COMMAND" in shown.stdout
    assert "Usage: flask headrace failed retry" in run("failed", "retry", "--help").stdout


def test_exit_codes_and_errors_are_those_of_headrace(run: Run) -> None:
    missing = run("job", "show", "no-such-job")
    assert (missing.returncode, missing.stdout) == (4, "")
    assert missing.stderr.startswith("headrace: ")
    assert run("nonsense").returncode == 2
    broken = run("queue", "list", FLASK_HEADRACE_URL="redis://127.0.0.1:1")
    assert broken.returncode == 3
    assert "Traceback" not in broken.stderr


def test_the_app_is_named_before_headrace(run: Run) -> None:
    refused = run("queue", "list", "--app", "other:jobs")
    assert refused.returncode == 2
    assert "--app other:jobs goes before headrace" in refused.stderr


def test_without_a_flask_app_the_own_command_says_what_to_do(run: Run) -> None:
    refused = run("work", "--app", "shop:jobs", program="headrace")
    assert refused.returncode == 2
    assert "call its init_app(app) where the app is made" in refused.stderr


def test_the_own_command_works_where_the_app_has_been_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "wsgi.py").write_text("from shop import create_app, jobs\n\napp = create_app()\n")
    assert run("queue", "list", "--app", "wsgi:jobs", program="headrace").returncode == 0
