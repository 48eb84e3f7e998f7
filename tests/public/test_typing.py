"""The decorator keeps the function's types, so that wrong calls are found before they are made (B125)."""

import re
import subprocess
import sys
from pathlib import Path

SAMPLE = Path(__file__).with_name("typing_sample.py")
ROOT = SAMPLE.parents[2]


def test_a_type_checker_finds_exactly_the_wrong_calls(tmp_path: Path) -> None:  # B125
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
    result = subprocess.run(
        [*command, "--cache-dir", str(tmp_path), str(SAMPLE)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    error = re.compile(r"^tests/public/typing_sample\.py:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)
    found = set(error.findall(result.stdout))
    expected = {
        (str(number), match.group(1))
        for number, line in enumerate(SAMPLE.read_text().splitlines(), 1)
        if (match := re.search(r"# error: ([a-z-]+)$", line))
    }
    assert len(expected) == 20
    assert found == expected, result.stdout + result.stderr
