"""The examples of docs/transactions.md run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "transactions.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SAID = ["1 job is waiting", "[True]"]


@pytest.mark.parametrize(("block", "said"), list(zip(BLOCKS, SAID, strict=True)))
def test_the_examples_run(block: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(block)
    command = [sys.executable, "-W", "error", "example.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [said]
