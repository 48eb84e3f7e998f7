"""The examples of docs/failed-jobs.md run, and its commands, one after the other, on the shop of the same page."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli import run

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


@pytest.mark.parametrize("block", BLOCKS)
def test_the_examples_run(block: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(block)
    command = [sys.executable, "-W", "error", "example.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == PRINTED.findall(block)


def test_the_commands_repair_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop_jobs.py").write_text(SHOP)
    subprocess.run([sys.executable, "shop_jobs.py"], cwd=tmp_path, timeout=60, check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_APP", "shop_jobs:app")
    monkeypatch.delitem(sys.modules, "shop_jobs", raising=False)
    worker = subprocess.Popen([sys.executable, "-m", "headrace.cli", "work"])

    def headrace(command: str) -> tuple[int, str]:
        program, *arguments = shlex.split(command)
        assert program == "headrace"
        return run(arguments), capsys.readouterr().out

    try:
        lines = COMMANDS.splitlines()
        assert len(lines) == 9
        for line in lines:
            code, said = headrace(line)
            assert code == 0, (line, said)
            for word, text in SAYS.items():
                assert word not in line.split() or text in said, (line, said)
        assert headrace("headrace why mail-17")[0] == 4  # it has succeeded, and is gone
    finally:
        worker.terminate()
        worker.wait(30)
        sys.modules.pop("shop_jobs", None)
