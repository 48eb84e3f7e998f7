"""Histories in which something is watched besides, and those in which a promise is broken on purpose."""

from collections.abc import Iterable

import pytest

from headrace.drivers.memory import MemoryDriver
from headrace.stores.memory import MemoryStore, Model
from headrace.testing.scenario import Scenario
from headrace.testing.simulator import OpenStore, Report, Simulation


def played(
    scenario: Scenario, model: type[Model] = Model, open_store: OpenStore | None = None
) -> tuple[Report, Simulation]:
    """One history, and what is known of it."""
    simulation = Simulation(scenario, open_store or (lambda clock: MemoryDriver(MemoryStore(now=clock), model())))
    return simulation.run(), simulation


def kept(scenario: Scenario, open_store: OpenStore | None = None) -> tuple[Report, Simulation]:
    """One in which every promise must be kept."""
    report, simulation = played(scenario, open_store=open_store)
    if report.violations:
        pytest.fail(report.explain(), pytrace=False)
    return report, simulation


def found(scenarios: Iterable[Scenario], model: type[Model] = Model) -> set[str]:
    """What the first history with a violation says."""
    for scenario in scenarios:
        report, _ = played(scenario, model)
        if report.violations:
            return {f"{one.rule}: {one.text}" for one in report.violations}
    return set()
