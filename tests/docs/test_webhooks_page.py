"""The examples of docs/webhooks.md run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "webhooks.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SAID = [
    ('received {"type":"order.paid"', "delivered order.paid to shop-17 which said 204"),
    (),
    ("refused: its URL begins with http://", "which is link-local, where clouds keep", "a user or a password"),
    ("shop-17 is struck out, it said 410",),
]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_examples_run(number: int, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(BLOCKS[number])
    command = [sys.executable, "-W", "error", "example.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    for text in SAID[number]:
        assert text in ran.stdout


def test_each_example_is_known() -> None:
    assert len(BLOCKS) == len(SAID)
