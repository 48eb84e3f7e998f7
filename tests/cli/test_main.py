"""The command as a whole: quick help, exit codes, errors in one line, pipes, terminals, completion."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.cli import COMMANDS, run
from headrace.cli.exits import MEANING, ExitCode
from headrace.cli.progress import Line, Silent, progress
from tests.cli.conftest import Command

HEAVY = {"asyncio", "hiredis", "rich", "uvloop", "sqlite3", "msgspec", "headrace.app", "headrace.worker"}

LEAVES = [
    *(
        ["work"],
        ["enqueue"],
        ["job", "list"],
        ["job", "show"],
        ["job", "cancel"],
        ["queue", "list"],
        ["worker", "list"],
    ),
    *(["why"], ["check"], ["doctor"], ["completion"], ["version"]),
    *(["schema", command] for command in ("upgrade", "downgrade", "sql", "check", "envelope")),
    *(["failed", command] for command in ("list", "show", "retry", "forget", "prune")),
]


def spawn(*arguments: str, program: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["-c", program] if program else ["-m", "headrace.cli"]
    return subprocess.run(
        [sys.executable, "-W", "error", *command, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_imports_nothing_heavy() -> None:
    """Help answers at once: what costs time is imported by the command that needs it."""
    program = (
        "import sys; from headrace.cli import run; run(['--help']); print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    result = spawn(program=program)
    assert result.stdout.startswith("Usage: headrace")
    assert not HEAVY & set(result.stderr.splitlines())


def test_help_lists_every_command_and_exit_code(headrace: Command) -> None:
    result = headrace("--help")
    assert result.code == 0
    for word in [*COMMANDS, *(str(code.value) for code in MEANING)]:
        assert any(line.split()[:1] == [word] for line in result.lines), word
    assert set(MEANING) == set(ExitCode)


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
def test_every_command_explains_itself(headrace: Command, command: list[str]) -> None:
    result = headrace(*command, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"Usage: headrace {' '.join(command)} ")
    assert max(map(len, result.lines)) <= 110


def test_the_lines_of_help_are_those_of_the_commands() -> None:
    assert all(COMMANDS[name][0]().name == name for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wrok"], "No such command 'wrok'"),
        (["queue", "list", "--jsn"], "No such option"),
        (["job", "show"], "Missing argument 'ID'"),
        (["work", "--concurrency", "0"], "0 is not in the range x>=1"),
        (["work", "--max-memory", "much"], "'much' is no size: write bytes or a text such as 500M or 2G"),
        (["work", "--grace", "soon"], "'soon' is no duration"),
        (["work", "--queues", "high:6,low"], "give every queue a weight, or none"),
        (["work", "--queues", ","], "queues is empty"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_wrong_usage_is_exit_2(headrace: Command, arguments: list[str], message: str) -> None:
    result = headrace(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(("text", "bytes_"), [("1024", 1024), ("500M", 500 << 20), ("2 GiB", 2 << 30), ("1.5kb", 1536)])
def test_sizes(text: str, bytes_: int) -> None:
    from headrace.cli.options import size

    assert size(text) == bytes_


def test_a_bug_is_told_apart_from_a_no(shop: Headrace, headrace: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error has its own code, so that a script does not take it for "no"."""

    def broken() -> None:
        raise RuntimeError("two\nlines \x1b[31m")

    monkeypatch.setattr(shop.jobs, "queues", broken)
    result = headrace("queue", "list")
    assert (result.code, result.out) == (70, "")
    assert result.err == "headrace: RuntimeError: two\\nlines \\x1b[31m (this is a bug; --verbose shows where)\n"
    shown = headrace("queue", "list", "--verbose")
    assert shown.code == 70
    assert "Traceback (most recent call last)" in shown.err
    assert "\x1b" not in shown.err


def test_interrupting_is_exit_130(shop: Headrace, headrace: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shop.jobs, "queues", interrupted)
    result = headrace("queue", "list", "--verbose")
    assert (result.code, result.err.strip()) == (130, "headrace: interrupted")


def test_a_reader_that_leaves_is_no_error(shop: Headrace) -> None:
    """`headrace failed list | head -1`: no traceback, no complaint at exit."""
    for number in range(50):
        shop.tasks["anything"].using(queue=f"queue-{number}").enqueue(text="x")
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "headrace.cli", "queue", "list", "--json"],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
@pytest.mark.parametrize("arguments", [["queue", "list", "--json"], ["schema", "envelope"], ["--help"]], ids=" ".join)
def test_a_full_disk_is_told_in_one_line(shop: Headrace, arguments: list[str]) -> None:
    """Neither a bug nor a success, and Python has nothing to add at exit."""
    shop.tasks["anything"].enqueue(text="x")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "headrace", *arguments]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    told = "headrace: standard output cannot be written: No space left on device\n"
    assert (result.returncode, result.stderr) == (ExitCode.OUTPUT, told)


def test_a_full_error_stream_changes_no_exit_code(shop: Headrace) -> None:
    with Path(os.devnull).open() as unwritable:
        command = [sys.executable, "-m", "headrace", "job", "show", "nobody"]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=unwritable, text=True, check=False)
    assert (result.returncode, result.stdout) == (ExitCode.NOT_FOUND, "")


def test_a_closed_output_asks_for_silence(shop: Headrace) -> None:
    job = shop.tasks["anything"].enqueue(text="x")
    command = f"{sys.executable} -m headrace job show {job.id} >&-"
    result = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("module", ["headrace", "headrace.cli"])
def test_python_dash_m_is_the_command(module: str) -> None:
    command = [sys.executable, "-W", "error", "-m", module, "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "headrace 0.1.0\n", "")


def test_version_as_text_and_json(headrace: Command) -> None:
    versions = json.loads(headrace("version", "--json").out)
    assert versions["headrace"] == "0.1.0"
    assert {"python", "sqlite", "platform", "hiredis", "rich"} <= set(versions)
    assert headrace("version").lines[0].split() == ["headrace", "0.1.0"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(headrace: Command, shell: str) -> None:
    result = headrace("completion", shell)
    assert result.code == 0
    assert "_HEADRACE_COMPLETE" in result.out
    assert "headrace" in result.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [("headrace ", {"work", "enqueue", "failed"}), ("headrace failed r", {"retry"}), ("headrace enqueue ma", {"mail"})],
)
def test_completion_answers(shop: Headrace, words: str, expected: set[str]) -> None:
    result = spawn(
        program="from headrace.cli import main; main()",
        _HEADRACE_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split(" ")) - 1),
    )
    assert result.stderr == ""
    assert expected <= {line.partition(",")[2] for line in result.stdout.splitlines()}


def test_completion_survives_an_app_that_cannot_be_imported(tmp_path: Path) -> None:
    result = spawn(
        program="from headrace.cli import main; main()",
        _HEADRACE_COMPLETE="bash_complete",
        COMP_WORDS="headrace enqueue x",
        COMP_CWORD="2",
        HEADRACE_APP="no_such_module:app",
    )
    assert (result.stdout.strip(), result.stderr) == ("", "")


def test_progress_is_silent_where_nobody_looks() -> None:
    with progress("retrying", 10) as bar:
        bar.update(5)
    assert isinstance(bar, Silent)


def test_progress_without_rich_counts_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Line("retrying", None) as line:
        line.update(500)
        line.update(1000, 2000)
    assert capsys.readouterr().err == "\rretrying 500\rretrying 1000/2000\n"


@pytest.mark.parametrize("rich", [True, False], ids=["rich", "plain"])
def test_long_work_shows_progress_on_a_terminal(fail: Callable[..., list[str]], rich: bool) -> None:
    """A bar on standard error while standard output stays clean for the next program."""
    fail(3)
    blocked = "import sys; sys.modules['rich.console'] = None; " if not rich else ""
    program = f"{blocked}from headrace.cli import main; main()"
    terminal, child = pty.openpty()
    try:
        result = subprocess.run(
            [sys.executable, "-c", program, "failed", "retry", "--all", "--yes", "--json"],
            stdout=subprocess.PIPE,
            stderr=child,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
            check=False,
        )
    finally:
        os.close(child)
    shown = os.read(terminal, 65_536).decode()
    os.close(terminal)
    assert json.loads(result.stdout) == {"retried": 3, "skipped": {}}
    assert "retrying" in shown
    assert "3/3" in shown


def test_run_returns_codes_and_main_leaves_with_them() -> None:
    assert run(["version", "--json"]) == 0
    assert spawn("wrok").returncode == 2


@pytest.mark.parametrize("arguments", [(), ("failed",), ("job",)])
def test_without_a_command_there_is_help(arguments: tuple[str, ...]) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert shown.returncode == 2
    assert "\nCommands:\n" in shown.stderr
    assert "headrace: Usage" not in shown.stderr
