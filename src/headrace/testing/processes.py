"""Simulated processes: a machine keeps one worker process alive, life after life."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from headrace.app import Headrace
from headrace.core.ports import Driver
from headrace.core.states import State
from headrace.drivers.system import SystemClock
from headrace.testing.clock import VirtualClock
from headrace.testing.loop import Group
from headrace.testing.runs import Witness
from headrace.testing.scenario import Move, Scenario
from headrace.testing.workload import LATEST, QUEUES, TIMEOUT_S, define
from headrace.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    import asyncio

    from headrace.testing.simulator import Simulation


class SimulatedApp(Headrace):
    """An app of one simulated process: its own driver, ids that can be read, chance by the seed, virtual time."""

    def __init__(
        self,
        driver: Driver,
        clock: VirtualClock,
        rng: Random,
        *,
        name: str,
        issued: set[str],
        scenario: Scenario,
        version: int | None,
    ) -> None:
        lease_s, heartbeat_s = scenario.lease_s, scenario.heartbeat_s
        code = str(version) if version is not None and scenario.toxic else None
        # many jobs of the other tasks are poison whatever the code: one that is held would never end
        super().__init__("memory://", lease=lease_s, heartbeat=heartbeat_s, version=code, hold_after=None)
        self.driver = driver
        self.rng = rng
        self.clock = SimulatedClock(clock)
        self._name = name
        self._issued = issued
        self._count = 0

    def new_id(self) -> str:
        """Process and number."""
        self._count += 1
        id = f"{self._name}-{self._count}"
        self._issued.add(id)
        return id

    def new_ids(self, count: int) -> list[str]:
        """The same for many."""
        return [self.new_id() for _ in range(count)]


class SimulatedClock(SystemClock):
    """Virtual time for what an app does with its clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self.monotonic = clock.monotonic  # type: ignore[method-assign]
        self.unix_us = clock  # type: ignore[method-assign]

    def sleep(self, seconds: float) -> None:
        """Refused: it would block all processes at once."""
        raise RuntimeError("synchronous calls cannot wait on virtual time")


class Life:
    """One process from its start to its end, with one worker in it. Handlers see it as their stage."""

    def __init__(self, simulation: Simulation, machine: Machine, number: int, version: int) -> None:
        self.id = f"{machine.name}.{number}"
        self.version = version
        self.group = Group(self.id)
        self.ended = False
        self.started_s = simulation.loop.time()
        self.ended_s = float("inf")
        self.thawed_s = float("-inf")
        self.worker: Worker | None = None
        self._begun: set[tuple[str, int]] = set()  # runs that were under way when the frost came
        self._simulation = simulation
        self._machine = machine

    def start(self) -> None:
        """Run the worker; when it has ended, tell the machine."""
        task = self.group.start(self._simulation.loop, self._main())
        task.add_done_callback(self._over)

    async def _main(self) -> str:
        simulation, scenario = self._simulation, self._simulation.scenario
        app = simulation.app(self.id, self.version)
        define(app, self, scenario, self.version)
        app.middleware.append(
            Witness(
                simulation.runs,
                self.id,
                lambda task: TIMEOUT_S,
                held=self._may_start,
                excused=self._may_stop,
                broken=simulation.ledger.broken,
            )
        )
        options = WorkerOptions(
            queues=QUEUES, concurrency=scenario.concurrency, grace=scenario.grace_s, max_jobs=scenario.max_jobs
        )
        self.worker = Worker(app, options, id=self.id, threaded_heart=False)
        return (await self.worker.run()).value

    def _holds(self, job: str, token: int) -> bool:
        entry = self._simulation.ledger.jobs.get(job)
        return entry is not None and (entry.state, entry.token) == (State.RUNNING, token)

    def _may_start(self, job: str, token: int) -> bool:
        """What ended never runs again, except when the frost came between the last look at the lease and the start."""
        return self._holds(job, token) or (job, token) in self._begun

    def freeze(self) -> None:
        """As SIGSTOP."""
        if self.worker is not None:
            works = self.worker.shared.table.works()
            self._begun = {(work.job.id, work.job.token) for work in works if work.running is not None}
        self.group.freeze()

    def _may_stop(self, job: str, token: int) -> bool:
        """A worker that stops, or has lost the job, may interrupt it."""
        return not self._holds(job, token) or (self.worker is not None and self.worker.shared.stopping)

    def _over(self, task: asyncio.Task[str]) -> None:
        if self.ended or self._simulation.network.closed:
            return
        if not task.cancelled() and (error := task.exception()) is not None:
            self._simulation.ledger.broken("workers live", "", f"{self.id} ended with {error!r}")
        else:
            self._simulation.note(self.id, f"ended: {task.result()}")
        self._end()

    def die(self, why: str) -> None:
        """As SIGKILL."""
        if not self.ended:
            self._simulation.note(self.id, why)
            self.group.kill()
            self._end()

    def _end(self) -> None:
        self.ended = True
        self.ended_s = self._simulation.loop.time()
        self._machine.fell(self)

    # -- what handlers see

    def kill(self, job: str) -> None:
        """A handler kills its process."""
        self._simulation.runs.killed(self.id, job)
        self.die(f"killed by its job {job}")

    def step(self, job: str) -> int:
        """Runs of the job that came to their own end."""
        return self._simulation.steps.get(job, 0)

    def done(self, job: str) -> None:
        """One more."""
        self._simulation.steps[job] = self.step(job) + 1

    def reach(self, job: str, token: int) -> bool:
        """A call of the service."""
        return self._simulation.called(job, token)

    def bears(self, job: str) -> bool:
        """A toxic job."""
        self._simulation.holds.begins(job, self.id)
        return self.version >= LATEST


class Machine:
    """Starts a new process whenever the last one has ended, as a supervisor does."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.name = name
        self._simulation = simulation
        self._rng = simulation.rng(f"machine {name}")
        self._version = self._rng.choice((1, LATEST))
        self._lives = 0
        self.life = Life(simulation, self, 0, self._version)

    @property
    def ended(self) -> bool:
        """Whether no process runs."""
        return self.life.ended

    def start(self) -> None:
        """Begin a life."""
        if self._simulation.over:
            return
        self._lives += 1
        self.life = Life(self._simulation, self, self._lives, self._version)
        self._simulation.lives[self.life.id] = self.life
        self._simulation.note(self.life.id, f"started, version {self._version}")
        self.life.start()

    def fell(self, life: Life) -> None:
        """A process has ended: start the next one soon."""
        if life is self.life:
            self._simulation.later(self._rng.choice((0.1, 1.0, 6.0)), self.start)

    def suffer(self, move: Move) -> None:
        """Let a move happen to the process, if there is one."""
        life = self.life
        if life.ended:
            return
        match move.what:
            case "kill":
                life.die("killed")
            case "freeze":
                self._freeze(life, move.seconds)
            case "hurry":
                self.stop()
                self._simulation.later(0.5, self.stop)
            case "deploy" | "rollback":
                self._version = LATEST if move.what == "deploy" else 1
                self.stop()
            case _:
                self.stop()

    def _freeze(self, life: Life, seconds: float) -> None:
        if life.group.state == "running":
            self._simulation.note(life.id, f"frozen for {seconds} s")
            life.freeze()
            self._simulation.later(seconds, lambda: self._thaw(life))

    def _thaw(self, life: Life) -> None:
        if life.group.state == "frozen":
            self._simulation.note(life.id, "thawed")
            life.thawed_s = self._simulation.loop.time()
            life.group.thaw()

    def stop(self) -> None:
        """As SIGTERM."""
        life = self.life
        if life.ended:
            return
        self._simulation.note(life.id, "told to stop")
        if life.worker is None:
            life.die("ended before it began")
        else:
            life.worker.stop()

    def mend(self, version: int) -> None:
        """No more faults: thaw what is frozen, and bring the code of `version`."""
        self._thaw(self.life)
        if self._version != version:
            self._version = version
            self.stop()
