"""What the store knows, in Prometheus' format: queues, circuits, held tasks, workers. Needs `headrace[prometheus]`.

Nothing here counts what this process does. All workers share the store, so one process exports all of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Protocol, get_args

import msgspec

from headrace.circuits import Circuit
from headrace.circuits.looks import waiting
from headrace.core import circuit, hold
from headrace.core import operations as ops
from headrace.core.circuit import Breaker
from headrace.core.circuit_policy import CircuitPolicy
from headrace.core.parking import LookParked, ParkedFor
from headrace.core.ports import Driver
from headrace.drivers.system import SystemClock
from headrace.errors import ConfigError, StoreError
from headrace.inquiries import Inquiry, drive, registers
from headrace.sending import refuse_in_loop
from headrace.task import Task

try:
    from prometheus_client import Metric, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
    from prometheus_client.registry import Collector
except ImportError:
    raise ConfigError("the client library for Prometheus is missing: pip install headrace[prometheus]") from None

logger = logging.getLogger("headrace.metrics")

VERSION = metadata.version("headrace")
STATES: tuple[circuit.State, ...] = get_args(circuit.State)
COUNTS = {
    "ready": "Jobs that are due, and that nobody has taken yet.",
    "scheduled": "Jobs that are due later.",
    "running": "Jobs that workers hold.",
    "parked": "Jobs held back by a circuit, or since their task is held.",
    "failed": "Jobs that will not run again by themselves.",
}

Row = tuple[Sequence[str], float]  # values of the labels, and the number


class App(Protocol):
    """What is needed of an app."""

    @property
    def driver(self) -> Driver:
        """The store."""
        ...

    @property
    def clock(self) -> SystemClock:
        """This machine's clock: whether a worker's lease is over."""
        ...

    @property
    def circuits(self) -> Mapping[str, Circuit]:
        """By name."""
        ...

    @property
    def tasks(self) -> Mapping[str, Task[..., object]]:
        """By name and alias."""
        ...

    @property
    def task_queues(self) -> list[str]:
        """Queues of the tasks."""
        ...


class Sight(msgspec.Struct, frozen=True):
    """What one look at the store has shown."""

    queues: Sequence[ops.QueueView] = ()
    workers: Sequence[ops.WorkerView] = ()
    parked: Sequence[ParkedFor] = ()
    circuits: Mapping[str, Breaker] = {}
    held: frozenset[str] = frozenset()


class StoreCollector(Collector):
    """All that the store of an app knows, for any registry: `REGISTRY.register(StoreCollector(app))`.

    A scrape is five small questions to the store, however many jobs there are. Where it does not answer, `headrace_up`
    is 0 and all that it would have told is absent; that is logged once for each outage.

    Raises:
        WrongColour: a scrape would block a running event loop, as `make_asgi_app` does. Serve the registry from a plain
            function, which frameworks run in a thread; docs/metrics.md has one.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._down = False

    def describe(self) -> Iterable[Metric]:
        """The names, for the registry, without a question to the store."""
        return self._families(Sight())

    def collect(self) -> Iterable[Metric]:
        """One scrape. Raises as the class says."""
        refuse_in_loop("generate_latest", "asyncio.to_thread")
        try:
            found = self.look()
        except StoreError as error:
            self._tell(error)
            return unreachable()
        self._tell(None)
        return found

    def look(self) -> list[Metric]:
        """The same.

        Raises:
            StoreError: the store does not answer, or refuses.
        """
        return self._families(drive(_look(self._policies()), self._app.driver))

    def _tell(self, error: StoreError | None) -> None:
        with self._lock:
            was, self._down = self._down, error is not None
        if error is not None and not was:
            logger.warning("the store does not answer, headrace_up is 0: %s", error)
        elif error is None and was:
            logger.info("the store answers again, headrace_up is 1")

    def _policies(self) -> dict[str, CircuitPolicy | None]:
        circuits = self._app.circuits
        return {name: circuits[name].policy for name in list(circuits)}  # another thread may make one meanwhile

    def _families(self, sight: Sight) -> list[Metric]:
        now_us = self._app.clock.unix_us()
        alive = {view.worker for view in sight.workers if view.lease_until_us > now_us}
        tasks = sorted({task.name for task in list(self._app.tasks.values())} | sight.held)
        return [
            *_always(up=True),
            *_queues(sight.queues, self._app.task_queues),
            *_circuits(sight),
            _gauge(
                "headrace_task_held",
                "Whether the jobs of a task are parked, since they killed their workers.",
                ["task"],
                [([task], task in sight.held) for task in tasks],
            ),
            _gauge("headrace_workers", "Workers whose lease holds.", [], [([], len(alive))]),
        ]


def unreachable() -> list[Metric]:
    """What is known where the store does not answer."""
    return _always(up=False)


def rendered(families: Iterable[Metric]) -> str:
    """The text format, with a newline at its end."""
    return generate_latest(_Found(families)).decode()


class _Found(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


# -- the questions


def _look(policies: Mapping[str, CircuitPolicy | None]) -> Inquiry[Sight]:
    queues: list[ops.QueueView] = yield ops.Queues()
    workers: list[ops.WorkerView] = yield ops.Workers()
    with_parked = tuple(view.name for view in queues if view.parked)
    parked: list[ParkedFor] = (yield LookParked(with_parked, counting=True)) if with_parked else []
    bodies: dict[str, bytes | None] = dict.fromkeys(policies)
    for view in (yield from registers(circuit.REGISTERS)):
        bodies[view.name.removeprefix(circuit.REGISTERS)] = view.body
    holds = [hold.decode(view.body) for view in (yield from registers(hold.REGISTERS))]
    return Sight(
        queues=queues,
        workers=workers,
        parked=parked,
        circuits={name: circuit.decode(bodies[name], policies.get(name)) for name in sorted(bodies)},
        held=frozenset(one.task for one in holds if one and any(version.held for version in one.versions)),
    )


# -- the answers


def _always(*, up: bool) -> list[Metric]:
    return [
        _gauge("headrace_up", "Whether the store has answered this scrape.", [], [([], up)]),
        InfoMetricFamily("headrace_build", "The version of headrace that exports this.", {"version": VERSION}),
    ]


def _queues(views: Sequence[ops.QueueView], known: Iterable[str]) -> Iterator[Metric]:
    idle = sorted(set(known) - {view.name for view in views})
    for state, text in COUNTS.items():
        rows: list[Row] = [([view.name], getattr(view, state)) for view in views]
        yield _gauge(f"headrace_queue_{state}", text, ["queue"], rows + [([name], 0) for name in idle])
    yield _gauge(
        "headrace_queue_oldest_ready_timestamp_seconds",
        "When the oldest ready job became so, on the store's clock. Absent where none is ready.",
        ["queue"],
        [([view.name], view.oldest_ready_us / 1e6) for view in views if view.oldest_ready_us is not None],
    )


def _circuits(sight: Sight) -> Iterator[Metric]:
    pairs = [(name, breaker, state) for name, breaker in sight.circuits.items() for state in STATES]
    yield _gauge(
        "headrace_circuit_state",
        "1 for the state that a circuit is in. An open one whose time is over stays so until the next call.",
        ["circuit", "state"],
        [([name, state], breaker.state == state) for name, breaker, state in pairs],
    )
    transitions = CounterMetricFamily(
        "headrace_circuit_transitions", "How often a circuit has come into a state.", labels=["circuit", "state"]
    )
    for name, breaker, state in pairs:
        transitions.add_metric([_label(name), state], breaker.entered.get(state, 0))
    yield transitions
    yield _gauge(
        "headrace_circuit_parked_jobs",
        "Jobs that are parked until a circuit lets them in.",
        ["circuit"],
        [([name], waiting(name, sight.parked)) for name in sight.circuits],
    )


def _gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        family.add_metric([_label(value) for value in values], number)
    return family


def _label(value: str) -> str:
    """Another program may have written a name that no terminal should see, or that is no Unicode (B094)."""
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in value)
