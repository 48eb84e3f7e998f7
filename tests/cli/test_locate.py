"""Finding the user's app: precedence, and an error with its fix for everything that can be wrong."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from headrace.cli import locate
from headrace.errors import ConfigError

SHOP = 'from headrace import Headrace\napp = Headrace("memory://", name="shop")\nother = 5\n'


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder of the test's own, below a boundary that keeps this project's settings away."""
    monkeypatch.delenv(locate.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pyproject(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(textwrap.dedent(text), encoding="utf-8")


def test_the_option_wins_over_the_variable_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyproject(tmp_path, '[tool.headrace]\napp = "from_file:app"')
    assert locate.find_spec(None).text == "from_file:app"
    monkeypatch.setenv(locate.VARIABLE, "from_variable:app")
    assert locate.find_spec(None).text == "from_variable:app"
    assert locate.find_spec("from_option:app").text == "from_option:app"


def test_the_file_may_be_in_a_folder_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyproject(tmp_path, '[tool.headrace]\napp = "shop:app"')
    pyproject(tmp_path / "a", "[tool.other]\nx = 1")
    (tmp_path / "a" / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a" / "b")
    spec = locate.find_spec(None)
    assert (spec.text, spec.folder) == ("shop:app", tmp_path)


def test_nothing_named_lists_the_three_ways() -> None:
    with pytest.raises(ConfigError, match=r"--app module:app.*HEADRACE_APP.*\[tool\.headrace\]"):
        locate.locate(None)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("shop", "without an app: name it too, such as shop:app"),
        ("shop/jobs.py:app", r"a path: write it as a module, shop\.jobs:app"),
        ("./jobs.py", r"a path: write it as a module, jobs:app"),
        ("shop:", "write it like shop.jobs:app"),
        (":app", "write it like shop.jobs:app"),
        ("shop jobs:app", "write it like shop.jobs:app"),
        ("os:system('x')", "write it like shop.jobs:app"),
        ("no_such_module_here:app", "there is no module 'no_such_module_here'.*PYTHONPATH"),
        ("no_such_package.inner:app", "there is no module 'no_such_package'"),
    ],
)
def test_a_wrong_name_is_explained(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        locate.locate(spec)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.headrace\n", "cannot be read"),
        ("[tool.headrace]\napp = 5", 'write app = "module:app"'),
        ("[tool]\nheadrace = 5", "no app is named"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, message: str) -> None:
    pyproject(tmp_path, text)
    with pytest.raises(ConfigError, match=message):
        locate.locate(None)


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: imports of one test must not serve another."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "headrace.cli", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_app_is_found_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    result = run(tmp_path, "queue", "list", "--app", "shop:app", "--json")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_app_is_found_beside_the_file_above(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    pyproject(tmp_path, '[tool.headrace]\napp = "shop:app"')
    (tmp_path / "deep" / "er").mkdir(parents=True)
    result = run(tmp_path / "deep" / "er", "queue", "list", "--json")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_option_may_stand_before_the_command(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    assert run(tmp_path, "--app", "shop:app", "queue", "list").returncode == 0


@pytest.mark.parametrize(
    ("source", "spec", "message"),
    [
        (SHOP, "shop:queue", "there is no 'queue' in it: use shop:app"),
        (SHOP, "shop:other", "'other' is of type int, not Headrace: use shop:app"),
        ("x = 1", "shop:app", "there is no 'app' in it: create one there"),
        ("import not_installed_at_all", "shop:app", "ModuleNotFoundError: No module named 'not_installed_at_all'"),
        ("def broken(:", "shop:app", "SyntaxError"),
        ("import sys\nsys.exit(3)", "shop:app", "SystemExit: 3"),
        ("\n\nraise ValueError('two\\nlines \\x1b[31m')", "shop:app", "shop.py line 3"),
        ("from headrace import Headrace\napp = Headrace('nothing://')", "shop:app", "shop.py line 2"),
        ("import json\n\njson.loads('{')", "shop:app", "JSONDecodeError"),
    ],
    ids=["no attribute", "no Headrace", "none there", "missing import", "syntax", "exit", "raises", "ours", "library"],
)
def test_a_broken_module_is_one_line_and_exit_2(tmp_path: Path, source: str, spec: str, message: str) -> None:
    (tmp_path / "shop.py").write_text(source)
    result = run(tmp_path, "queue", "list", "--app", spec)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "\x1b" not in result.stderr  # B094


def test_an_error_of_headrace_points_at_the_users_line(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(f"{SHOP}\n@app.task(queue='no queue')\ndef mail() -> None: ...\n")
    result = run(tmp_path, "check", "--app", "jobs:app")
    told = (
        "importing jobs fails: ConfigError: queue is 'no queue': use letters, digits and _ . - / @, at most 200 in all"
    )
    assert f"{told} ({tmp_path}/jobs.py line 5); --verbose shows the traceback" in result.stderr


@pytest.mark.parametrize(("arguments", "environment"), [(["--verbose"], {}), ([], {"HEADRACE_DEBUG": "1"})])
def test_the_traceback_is_shown_on_request(tmp_path: Path, arguments: list[str], environment: dict[str, str]) -> None:
    (tmp_path / "shop.py").write_text("raise ValueError('here')")
    result = run(tmp_path, "queue", "list", "--app", "shop:app", *arguments, **environment)
    assert result.returncode == 2
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("headrace: --app names 'shop:app'")
