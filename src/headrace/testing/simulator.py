"""The whole system in one thread: real workers and producers on virtual time, a store behind a bad network, and
processes that are killed, frozen, stopped and replaced. The same seed gives the same history, event for event.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import msgspec

from headrace.core import operations as ops
from headrace.core.ports import Driver
from headrace.core.states import State
from headrace.drivers.memory import MemoryDriver
from headrace.errors import StoreUnavailable
from headrace.stores.memory import MemoryStore
from headrace.testing.budgets import BudgetWatch
from headrace.testing.checkers import Finished, check_all, ended_as
from headrace.testing.circuits import force
from headrace.testing.clock import VirtualClock
from headrace.testing.entries import Violation
from headrace.testing.faults import FaultyDriver, Network
from headrace.testing.holds import HoldWatch, free
from headrace.testing.ledger import Ledger
from headrace.testing.loop import Group, VirtualLoop
from headrace.testing.operators import Operator
from headrace.testing.processes import Life, Machine, SimulatedApp
from headrace.testing.runs import Runs
from headrace.testing.scenario import Move, Scenario
from headrace.testing.trace import Event, Trace
from headrace.testing.workload import CHOSEN_IDS, LATEST, TIMEOUT_S, Producer, define

OpenStore = Callable[[VirtualClock], Driver]
ENOUGH = 20  # violations after which a simulation is ended


class Report(msgspec.Struct):
    """How a simulation went. `violations` is empty when every promise was kept."""

    scenario: Scenario
    violations: list[Violation]
    trace: Trace
    ended: dict[str, int]  # jobs by the state they ended in
    fates: dict[str, int]  # calls by what the network did to them
    virtual_s: float

    def explain(self) -> str:
        """The violations, and all that happened to the jobs they name."""
        lines = [f"seed {self.scenario.seed}: {len(self.violations)} violations", *map(str, self.violations[:ENOUGH])]
        for id in list(dict.fromkeys(one.job for one in self.violations if one.job))[:3]:
            lines += [f"-- all about job {id}", *self.trace.lines(id)]
        return "\n".join(lines)


def memory_store(clock: VirtualClock) -> Driver:
    """The reference model on `clock`."""
    return MemoryDriver(MemoryStore(now=clock))


def simulate(seed: int, open_store: OpenStore = memory_store, scenario: Scenario | None = None) -> Report:
    """Run one simulation. `scenario` is drawn from the seed unless given."""
    return Simulation(scenario or Scenario.drawn(seed), open_store).run()


class Simulation:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, open_store: OpenStore = memory_store) -> None:
        self.scenario = scenario
        self.clock = VirtualClock()
        self.loop = VirtualLoop(self.clock)
        self.trace = Trace()
        self.runs = Runs()
        self.store = open_store(self.clock)
        self.network = Network(
            self.loop,
            self.rng("network"),
            scenario.rates,
            outages=scenario.outages,
            until_s=scenario.chaos_s,
            watch=self._happened,
        )
        self.lives: dict[str, Life] = {}
        self.issued: set[str] = set(CHOSEN_IDS)
        known = self.app("policies")
        tasks = {**define(known, _NoStage(), scenario), **known.tasks}
        policies = {name: task.retry for name, task in tasks.items()}
        self.ledger = Ledger(self.clock, self.loop.time, policies, self.runs, self._gone_dark)
        self.holds = HoldWatch(self)
        self.budget = BudgetWatch(self.ledger.broken, TIMEOUT_S)
        self.machines = [Machine(self, f"w{number}") for number in range(scenario.workers)]
        self.operators = [Operator(self, number) for number in range(scenario.operators)]
        self._producing = Group("producer")
        self.producer = Producer(self.app("producer"), _NoStage(), self.rng("workload"), scenario)
        self.over = False
        self.steps: dict[str, int] = {}  # runs of each job that came to their own end
        self._overdue: set[str] = set()
        self._outside = contextvars.copy_context()

    def rng(self, name: str) -> Random:
        """A stream of its own for each part, so that one part's luck is not another's."""
        return Random(f"{self.scenario.seed} {name}")

    def app(self, name: str, version: int | None = None) -> SimulatedApp:
        """An app of a simulated process, which runs this version of the code."""
        return SimulatedApp(
            FaultyDriver(self.store, self.network, name),
            self.clock,
            self.rng(name),
            name=name,
            issued=self.issued,
            scenario=self.scenario,
            version=version,
        )

    def note(self, who: str, text: str) -> None:
        """Write a line into the trace."""
        self.trace.events.append(Event(self.loop.time(), who, text))

    def _happened(self, sender: str, operation: ops.Operation[object], answer: object) -> None:
        self.trace.events.append(Event(self.loop.time(), sender, operation, answer))
        self.ledger.happened(operation, answer)
        self.holds.happened(sender, operation, answer)

    def called(self, job: str, token: int) -> bool:
        """A job calls the service behind the circuit: whether it answers."""
        now_s = self.loop.time()
        problem = self.ledger.circuit.wrong_call(job, token, now_s, self.scenario.late_s)
        if problem:
            self.ledger.broken("open circuit", job, problem)
        down = any(start <= now_s < end for start, end in self.scenario.down)
        self.ledger.circuit.in_vain += down
        if self.scenario.retry_budget is not None:
            is_retry = self.ledger.jobs[job].counts.attempts > 0
            self.budget.called(job, self.scenario.retry_budget, now_s, self.scenario.late_s, is_retry=is_retry)
        return not down

    def _gone_dark(self, worker: str) -> bool:
        """Whether a worker may be taken for dead: it is, or it was frozen, or its calls get lost one by one."""
        life = self.lives.get(worker)
        if life is None or not self.scenario.rates.flawless or life.ended:
            return True
        return life.group.state != "running" or self.loop.time() - life.thawed_s < self.scenario.lease_s * 1.5

    # -- from start to end

    def run(self) -> Report:
        """All of it."""
        with _listening(self):
            self.loop.set_exception_handler(self._unheard)
            self.loop.run_until_complete(self._history())
            finished = Finished(self.store.run, self.ledger, self.producer.placed, self.issued, self.loop.time())
            self.network.closed = True
            violations = [*self.ledger.violations, *check_all(finished)]
            self._bury()
        return Report(
            self.scenario, violations, self.trace, ended_as(finished), self.network.fates, round(self.loop.time(), 6)
        )

    async def _history(self) -> None:
        producing = self._producing.start(self.loop, self.producer.run())
        for machine in self.machines:
            machine.start()
        for operator in self.operators:
            operator.start()
        for move in self.scenario.moves:
            await asyncio.sleep(max(0.0, move.at_s - self.loop.time()))
            await self._make(move)
        await asyncio.sleep(max(0.0, self.scenario.chaos_s - self.loop.time()))
        self.note("-", "faults have stopped")
        for machine in self.machines:
            machine.mend(LATEST)
        give_up = self.loop.time() + self.scenario.patience_s
        # what was sent before may still take effect: an operator's replay, say, makes a job live again
        settled_s = self.scenario.chaos_s + self.scenario.rates.late_s
        while (
            self.ledger.live() or self.ledger.replays.open or not producing.done() or self.loop.time() < settled_s
        ) and self.loop.time() < give_up:
            await asyncio.sleep(1)
            self._check_rescues()
            if self.ledger.circuit.state.startswith("forced") and self.loop.time() >= settled_s:
                await self._operate(force("closed"))
            if str(LATEST) in self.holds.held and self.loop.time() >= settled_s:  # somebody else had killed the workers
                await self._operate(free(f"operator {self.loop.time()}"))
            if len(self.ledger.violations) >= ENOUGH:
                break
        await self._stop_all()

    def _check_rescues(self) -> None:
        """A dead worker's job runs again within one lease and a poll, and one lease more after a cold start."""
        scenario, now_s = self.scenario, self.loop.time()
        bound_s = 2 * scenario.lease_s + 3 * scenario.heartbeat_s + scenario.grace_s
        # a call that was made in the last moment of chaos may hang, and with it the one who rescues
        quiet_s = scenario.chaos_s + (scenario.rates.stall_s if scenario.rates.stall else 0.0)
        # somebody must live that long: processes that die within two heartbeats rescue nobody
        watched_s = min((machine.life.started_s for machine in self.machines if not machine.ended), default=now_s)
        for entry in self.ledger.live():
            life = self.lives.get(entry.worker)
            if life is None or not life.ended or now_s < max(life.ended_s, watched_s, quiet_s) + bound_s:
                continue
            if entry.new.id not in self._overdue:
                self._overdue.add(entry.new.id)
                self.ledger.broken("rescue", entry.new.id, f"{life.id} is dead since {life.ended_s:.3f} s and holds it")

    async def _stop_all(self) -> None:
        self.note("-", "all workers stop")
        self.over = True
        for machine in self.machines:
            machine.stop()
        # every await of a shutdown has a deadline (B108): grace, four of five seconds, and what a call may take
        for _ in range(round(self.scenario.grace_s + 25 + self.scenario.rates.stall_s)):
            if all(machine.ended for machine in self.machines):
                break
            await asyncio.sleep(1)
        for machine in self.machines:
            if not machine.ended:
                self.ledger.broken("stops", "", f"{machine.life.id} is told to stop and does not end")

    async def _make(self, move: Move) -> None:
        """Let one thing of the scenario happen."""
        match move.what:
            case "jump":
                self.note("-", f"the store's clock jumps by {move.seconds:.3f} s")
                self.clock.jump(move.seconds)
                self.ledger.slack_us += round(max(0.0, -move.seconds) * 1_000_000)
            case "cancel":
                live = self.ledger.live()
                if live:
                    id = live[move.number % len(live)].new.id
                    await self._operate(ops.Cancel(id, keep_us=3_600_000_000))
            case "replay":
                failed = [id for id, entry in self.ledger.jobs.items() if entry.state is State.FAILED]
                if failed:
                    await self._operate(ops.Replay(tuple(failed)))
            case "free":
                await self._operate(free(f"operator {self.loop.time()}"))
            case "force open":
                await self._operate(force("forced_open"))
            case "force closed":
                await self._operate(force("forced_closed"))
            case _:
                self.machines[move.number % len(self.machines)].suffer(move)

    async def _operate(self, operation: ops.Operation[object]) -> None:
        try:
            await FaultyDriver(self.store, self.network, "operator").arun(operation)
        except StoreUnavailable as error:
            self.note("operator", f"{operation!r}: {error}")

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something outside of all simulated processes."""
        self.loop.call_later(seconds, call, context=self._outside)

    # -- what nobody should hear of

    def _unheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self.ledger.broken("no error unheard", "", f"{context.get('message')}: {context.get('exception')!r}")

    def heard(self, record: logging.LogRecord) -> None:
        """A line of a worker's log. An error that nobody foresaw is a violation."""
        self.note("log", record.getMessage())
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, StoreUnavailable):
            self.ledger.broken("no error unforeseen", "", f"{record.getMessage()}: {error!r}")

    def _bury(self) -> None:
        """End every task that is left, so that none is collected while it waits."""
        self.loop.set_exception_handler(lambda loop, context: None)
        groups = [self._producing, *(life.group for life in self.lives.values())]
        groups += [group for operator in self.operators for group in operator.groups]
        for group in groups:
            group.revive()
        for _ in range(100):
            left = [task for group in groups for task in group.unfinished()]
            if not left:
                break
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(5))
        self.loop.close()
        self.store.close()


class _NoStage:
    """For those that only enqueue."""

    def kill(self, job: str) -> None:
        raise NotImplementedError

    def step(self, job: str) -> int:
        raise NotImplementedError

    def done(self, job: str) -> None:
        raise NotImplementedError

    def reach(self, job: str, token: int) -> bool:
        raise NotImplementedError

    def bears(self, job: str) -> bool:
        raise NotImplementedError


class _Handler(logging.Handler):
    def __init__(self, simulation: Simulation) -> None:
        super().__init__(logging.WARNING)
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        self._simulation.heard(record)


@contextmanager
def _listening(simulation: Simulation) -> Iterator[None]:
    """The workers' log goes into the trace, and nowhere else."""
    logger = logging.getLogger("headrace")
    handler, before = _Handler(simulation), (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
