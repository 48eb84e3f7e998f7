"""The documents are true: diagrams are drawn from the code, examples run, links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.core.states import mermaid

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
)


def test_the_diagram_of_states_is_the_table() -> None:
    assert f"```mermaid\n{mermaid()}\n```" in (ROOT / "docs/architecture.md").read_text()


def test_the_rooms_in_the_architecture_exist() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    rooms = re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)
    assert len(rooms) >= 5
    for room in rooms:
        assert (ROOT / "src/headrace" / room).is_dir(), room


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text())
    missing = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert missing == []


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    (example,) = re.findall(r"```python\n(# shop_jobs\.py\n.*?)```", readme, re.DOTALL)
    (tmp_path / "shop_jobs.py").write_text(example)
    enqueued = subprocess.run(
        [sys.executable, "shop_jobs.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert re.fullmatch(r"[0-9a-f-]{36}", enqueued.stdout.strip())
    command = [sys.executable, "-u", "-m", "headrace.cli", "work", "--app", "shop_jobs:app"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        lines = [worker.stdout.readline() for _ in range(6)]
        worker.terminate()
    assert sorted(re.findall(r"mail for order (\d+)", "".join(lines))) == ["17", "18", "19", "20", "21", "22"]
    assert worker.returncode == 0


def guides() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs/guide.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(guides())))
def test_the_recipes_of_the_guide_run(number: int, tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(guides()[number])
    command = [sys.executable, "-W", "error", "recipe.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_commands_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = {tuple(found.split()) for found in re.findall(r"`headrace ((?:[a-z]+ ?)+?)(?: [-A-Z].*?)?`", readme)}
    assert len(commands) >= 4
    for command in commands:
        shown = subprocess.run(
            [sys.executable, "-m", "headrace.cli", *command, "--help"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert shown.returncode == 0, command
