"""Imports point one way (the contracts are in pyproject.toml), and the pure rooms stay pure."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.house import PACKAGE, ROOT, files, imports, place, room, tree

IMPURE = {
    "core": (
        "asyncio concurrent io logging multiprocessing os pathlib random secrets select signal socket sqlite3 "
        "subprocess sys tempfile threading time uuid"
    ),
    "stores": "asyncio concurrent logging multiprocessing random secrets socket sqlite3 subprocess threading time uuid",
}
THIRD_PARTY = {"core": {"msgspec"}, "stores": {"msgspec"}}


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    """Hold the contracts against the package under `source`."""
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache", ROOT / "pyproject.toml"],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )


def outside(module: str) -> bool:
    """Whether a name is neither ours nor of the standard library."""
    top = module.partition(".")[0]
    return top != "headrace" and top not in sys.stdlib_module_names


def test_imports_point_one_way() -> None:
    result = lint_imports(ROOT / "src")
    assert result.returncode == 0, result.stdout + result.stderr
    analyzed = re.search(r"Analyzed (\d+) files", result.stdout)
    assert analyzed, result.stdout
    assert int(analyzed[1]) >= 14


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("core/states.py", "import headrace.drivers.run"),
        ("core/states.py", "import headrace.stores.plan"),
        ("stores/plan.py", "import headrace.stores.memory"),
        ("stores/memory.py", "import headrace.drivers.memory"),
        ("drivers/run.py", "import headrace.newroom"),
    ],
)
def test_the_contracts_bite(tmp_path: Path, module: str, line: str) -> None:
    shutil.copytree(PACKAGE, tmp_path / "headrace", ignore=shutil.ignore_patterns("__pycache__"))
    if "newroom" in line:
        (tmp_path / "headrace" / "newroom.py").touch()
    with (tmp_path / "headrace" / module).open("a", encoding="utf-8") as source:
        source.write(f"\n{line}\n")
    result = lint_imports(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "BROKEN" in result.stdout


@pytest.mark.parametrize("pure", sorted(IMPURE))
def test_pure_rooms_reach_for_nothing_outside(pure: str) -> None:
    banned = set(IMPURE[pure].split())
    seen = [path for path in files("src") if room(path) == pure]
    assert len(seen) >= 3
    broken = [
        f"{place(path, line)} imports {name}"
        for path in seen
        for line, name in imports(tree(path))
        if name.partition(".")[0] in banned or (outside(name) and name.partition(".")[0] not in THIRD_PARTY[pure])
    ]
    assert not broken, f"{pure} is handed its time, chance and connections:\n" + "\n".join(broken)
