"""The examples of docs/alerts.md and docs/poison.md run, and the file is one."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headrace.observe import Alert, settings
from headrace.observe.rules import RULES

DOCS = Path(__file__).resolve().parents[2] / "docs"
ALERTS, POISON = (DOCS / "alerts.md").read_text(), (DOCS / "poison.md").read_text()


def block(page: str, kind: str) -> str:
    (found,) = re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)
    return str(found)


@pytest.mark.parametrize(
    ("page", "says"), [(ALERTS, "[shop] 5 jobs of queue mail failed within 300 s\n"), (POISON, "1 []\n")]
)
def test_the_examples_run(page: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(block(page, "python"))
    command = [sys.executable, "-W", "error", "example.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (0, says), ran.stderr


def test_the_file_is_one_and_names_every_key() -> None:
    text = block(ALERTS, "toml")
    found = settings.parse(tomllib.loads(text))
    whole = settings.parse(tomllib.loads(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)))
    assert {rule.kind for rule in found.rules} == set(RULES)
    assert {sink.kind for sink in found.sinks} == set(settings.SINKS)  # type: ignore[attr-defined]
    for kind in (*RULES.values(), *settings.SINKS.values(), settings.AlertSettings):
        for field in kind.__struct_fields__:
            assert re.search(rf"\b{field}\b", text), field
    assert len(whole.rules) == len(found.rules)


def test_the_json_has_the_fields_of_an_alert() -> None:
    assert tuple(json.loads(block(ALERTS, "json"))) == Alert.__struct_fields__


@pytest.mark.parametrize("words", ["alerts test", "hold list", "hold release", "failed list"])
def test_the_commands_exist(words: str) -> None:
    assert f"`headrace {words}" in ALERTS + POISON
    command = [sys.executable, "-m", "headrace.cli", *words.split(), "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == 0
