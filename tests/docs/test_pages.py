"""The examples of these pages run, and print what stands beside their `print`s."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("circuits", "django", "fastapi", "flask", "metrics", "once", "polling", "processes")
EXAMPLES = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL), 1)
]
SAYS = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)


@pytest.mark.parametrize("block", EXAMPLES)
def test_the_examples_run(block: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(block)
    command = [sys.executable, "-W", "error", "example.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    says = SAYS.findall(block)
    assert says
    assert ran.stdout.splitlines() == says


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 8
