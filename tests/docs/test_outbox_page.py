"""The examples of docs/outbox.md run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "outbox.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_examples_run(number: int, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(BLOCKS[number])
    command = [sys.executable, "-W", "error", "example.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    if number == 0:
        assert "mail for order 1, 9.90, by web" in ran.stdout
        assert "reserve stock because of event" in ran.stdout


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 3
