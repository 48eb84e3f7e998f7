"""docs/metrics.md names what there is, and nothing else. Its examples are run by test_pages.py."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from headrace import Headrace
from headrace.observe.metrics import StoreCollector

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
ROW = re.compile(r"^\| `(headrace_\w+)` \| (.*?) \|", re.MULTILINE)


def exported() -> set[str]:
    with Headrace("memory://") as app:
        registry = CollectorRegistry()
        registry.register(StoreCollector(app))
        return set(re.findall(r"^# TYPE (\w+)", generate_latest(registry).decode(), re.MULTILINE))


def test_the_table_has_each_metric_once() -> None:
    names = [name for name, _ in ROW.findall(PAGE)]
    assert sorted(names) == sorted(exported())


def test_rules_and_sentences_name_metrics_that_exist() -> None:
    assert set(re.findall(r"\bheadrace_\w+", PAGE)) <= exported()


def test_rules_use_labels_that_exist() -> None:
    labels = dict(ROW.findall(PAGE))
    used = re.findall(r"by \((\w+)\) \((?:increase\()?(headrace_\w+)", PAGE)
    used += [(label, name) for name, label in re.findall(r"(headrace_\w+){(\w+)=", PAGE)]
    assert len(used) >= 5
    for label, name in used:
        assert f"`{label}`" in labels[name], (label, name)
