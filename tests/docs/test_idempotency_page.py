"""The examples of docs/idempotency-key.md run, and print what stands beside their `print`s; its settings are all."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.http.settings import Settings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "idempotency-key.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SAYS = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_examples_run(number: int, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(BLOCKS[number])
    command = [sys.executable, "-W", "error", "example.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    says = SAYS.findall(BLOCKS[number])
    assert says
    assert ran.stdout.splitlines() == says


def test_the_page_names_every_setting_and_no_other() -> None:
    table = PAGE.partition("## Settings")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(Settings.__struct_fields__)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 3
