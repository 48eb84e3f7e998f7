"""The examples of docs/failed-jobs.md run, and its commands, one after the other, on the shop of the same page."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "failed-jobs.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
(SHOP,) = re.findall(r"```python\n(# shop_jobs\.py\n.*?)```", PAGE, re.DOTALL)
(COMMANDS,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
SAYS = {
    "groups": "ValueError",
    "list": "no such mailbox: ann@exmaple.com",
    "show": "enqueued by  version 2026-11-30",
    "--dry-run": "would",
    "--canary": "is done: 1 job made ready again",
    "--status": "task mail",
}


def headrace(command: str, folder: Path, code: int = 0) -> str:
    program, *arguments = shlex.split(command)
    assert program == "headrace"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "headrace.cli", *arguments],
        cwd=folder,
        env={**os.environ, "HEADRACE_APP": "shop_jobs:app", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == code, (command, ran.stdout, ran.stderr)
    return ran.stdout


@pytest.mark.parametrize("block", BLOCKS)
def test_the_examples_run(block: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(block)
    command = [sys.executable, "-W", "error", "example.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == PRINTED.findall(block)


def test_the_commands_repair_the_job(tmp_path: Path) -> None:
    (tmp_path / "shop_jobs.py").write_text(SHOP)
    subprocess.run([sys.executable, "shop_jobs.py"], cwd=tmp_path, timeout=60, check=True, capture_output=True)
    worker = subprocess.Popen([sys.executable, "-m", "headrace.cli", "--app", "shop_jobs:app", "work"], cwd=tmp_path)
    try:
        lines = COMMANDS.splitlines()
        assert len(lines) == 9
        for line in lines:
            said = headrace(line, tmp_path)
            for word, text in SAYS.items():
                assert word not in line.split() or text in said, (line, said)
    finally:
        worker.terminate()
        worker.wait(30)
    assert "The store knows no job mail-17." in headrace("headrace why mail-17", tmp_path, 4)  # it has succeeded
