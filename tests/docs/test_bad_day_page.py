"""The guide of a bad day is walked through: its shop, a worker beside it, and every command, in order."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli import run
from tests.waiting import wait_until

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bad-day.md").read_text()
(SHOP,) = re.findall(r"```python\n# shop_jobs\.py\n(.*?)```", PAGE, re.DOTALL)
LINES = [
    line.partition("  #")[0].rstrip()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]
REPLAY = "headrace failed replay --task pay_out --canary 2 --rate 100/s --yes"

# What those commands say that look; they are asked until they say it. The others are typed once, and succeed.
SAYS = {
    "headrace queue list": ("PARKED", "default"),
    "headrace failed groups --since 24h": ("ERROR",),
    "headrace circuit list": ("supplier",),
    "headrace hold list": ("import_prices", "nightly-1"),
    "headrace circuit show supplier": ("open", "calls failed"),
    "headrace job list --state parked --limit 3": ("order_parts",),
    "headrace failed list --reason crashed": ("prices-13",),
    "headrace failed show prices-13": ("killed by SIGABRT",),
    "headrace job list --state running": ("render-17",),
    "headrace why render-17": ("is running",),
    "headrace failed list --task pay_out --text EURO --limit 3": ("no such currency: EURO",),
    'headrace failed edit pay-0 --set currency=EUR --why "partner-0 confirmed" --dry-run': ('"EURO"', '"EUR"'),
    "headrace failed replay --task pay_out --dry-run": ("19",),
    "headrace failed list --task pay_out --limit 3": ("no such currency: EURO",),
    "headrace failed replay --status": ("stopped", "done"),
}


class Operator:
    """Types commands in the folder of the shop, which is where this process is."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def types(self, line: str) -> tuple[int, str]:
        """Exit code, and what was said."""
        if not line.startswith("headrace "):
            shell = subprocess.run(["sh", "-ec", line], capture_output=True, text=True, timeout=120, check=False)
            return shell.returncode, shell.stdout + shell.stderr
        code = run(shlex.split(line)[1:])
        return code, "".join(self._capsys.readouterr())

    def sees(self, line: str, *texts: str) -> None:
        """Asks until it is said."""
        wait_until(lambda: all(text in self.types(line)[1] for text in texts), 30, f"{line}: {texts}")


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Operator]:
    (tmp_path / "shop_jobs.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_APP", "shop_jobs:app")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delitem(sys.modules, "shop_jobs", raising=False)
    subprocess.run([sys.executable, "shop_jobs.py"], timeout=60, check=True)
    worker = subprocess.Popen([sys.executable, "-m", "headrace.cli", "work", "--processes", "2"])
    try:
        yield Operator(capsys)
    finally:
        worker.terminate()
        worker.wait(30)
        sys.modules.pop("shop_jobs", None)


def test_the_guide_is_walked_through(operator: Operator) -> None:
    operator.sees("headrace failed groups", "20", "pay_out", "import_prices")
    codes = []
    for line in LINES:
        if line in SAYS:
            operator.sees(line, *SAYS[line])
            continue
        code, said = operator.types(line)
        assert code == 0 or line == REPLAY, (line, said)
        codes += [code] if line == REPLAY else []
    assert codes == [1, 0]  # the canaries stop it, and let it through
    operator.sees("headrace queue list --json", '"parked": 0')
    operator.sees("headrace job list --state cancelled", "render-17")
    assert "pay_out" not in operator.types("headrace failed list --json")[1]
