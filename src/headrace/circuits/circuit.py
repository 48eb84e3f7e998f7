"""Circuits around dependencies, as their users hold them: `app.circuit("smtp")`, and what an operator does with one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from headrace.circuits.calls import CircuitCall
from headrace.circuits.looks import CircuitInfo, look, look_all
from headrace.circuits.standings import Standings, change
from headrace.core.budget import RetryBudget
from headrace.core.circuit import REGISTERS, ForceCircuit, Result, Standing
from headrace.core.circuit_policy import CircuitPolicy
from headrace.core.durations import Duration, micros
from headrace.core.ports import Clock, Driver
from headrace.core.registers import Amend
from headrace.core.verdict import Pending, Verdict
from headrace.core.wording import near
from headrace.drivers.system import this_process
from headrace.errors import CircuitOpen, ConfigError
from headrace.inquiries import adrive, drive
from headrace.options import checked_circuit, checked_queue, in_words
from headrace.sending import refuse_in_loop
from headrace.signals import Signal
from headrace.task import Task

Errors = type[BaseException] | Iterable[type[BaseException]]
_DEFAULT = CircuitPolicy()
BY_HAND = "by hand"  # why an operator does something who says no more


class App(Protocol):
    """What is needed of an app."""

    @property
    def driver(self) -> Driver:
        """The store."""
        ...

    @property
    def clock(self) -> Clock:
        """Measures calls."""
        ...

    def notice(self, signal: Signal) -> None:
        """Tell of a transition."""
        ...


class CircuitOptions(msgspec.Struct, frozen=True):
    """What a circuit was made with. Which exceptions count is known to the code only, never to the store."""

    policy: CircuitPolicy = _DEFAULT
    record: tuple[type[BaseException], ...] = (Exception,)
    ignore: tuple[type[BaseException], ...] = ()
    retry_budget: RetryBudget | None = None

    def result(self, error: BaseException | None, seconds: float) -> Result:
        """What a call of so many seconds tells of the dependency, by how it ended."""
        if error is None or isinstance(error, Pending):
            return self._timed(seconds, failed=False)
        if isinstance(error, (CircuitOpen, Verdict, *self.ignore)):
            return "none"
        if isinstance(error, self.record):
            return self._timed(seconds, failed=True)
        # else it is a cancellation, or the end of the process
        return self._timed(seconds, failed=False) if isinstance(error, Exception) else "none"

    def result_elsewhere(self, classes: Collection[str], seconds: float) -> Result:
        """The same for an exception in another process, of which only the names of its classes are known."""
        if not {_full_name(CircuitOpen), *map(_full_name, self.ignore)}.isdisjoint(classes):
            return "none"
        if not set(map(_full_name, self.record)).isdisjoint(classes):
            return self._timed(seconds, failed=True)
        return self._timed(seconds, failed=False) if _full_name(Exception) in classes else "none"

    def _timed(self, seconds: float, *, failed: bool) -> Result:
        slow_after_us = self.policy.slow_after_us
        if slow_after_us is not None and seconds * 1_000_000 > slow_after_us:
            return "slow_failed" if failed else "slow"
        return "failed" if failed else "ok"


def _full_name(error: type[BaseException]) -> str:
    return f"{error.__module__}.{error.__qualname__}"


class Circuit:
    """A circuit of an app, made by `app.circuit`. Its state is in the store, and all workers share it."""

    def __init__(self, app: App, name: str, options: CircuitOptions | None, standings: Standings) -> None:
        """`options` None: of one that the code does not know, but the store does."""
        self._app = app
        self._standings = standings
        self._settings = options
        self.name = name

    @property
    def app(self) -> App:
        """Whose it is."""
        return self._app

    @property
    def options(self) -> CircuitOptions:
        """What it was made with."""
        return self._settings or CircuitOptions()

    @property
    def policy(self) -> CircuitPolicy | None:
        """When it opens and closes. None: as the store says."""
        return None if self._settings is None else self._settings.policy

    def call(self, *, lease: Duration = 30) -> CircuitCall:
        """A call outside of jobs: `with smtp.call():`, or `async with`. What becomes of the block is counted.

        Args:
            lease: how long a half-open circuit keeps a probe's place after this process has died; at least 1 s. It is
                renewed while the block runs.

        Raises:
            ConfigError: `lease` is out of range.
            CircuitOpen: when the block is entered: the call is not to be made now.
        """
        lease_us = micros(lease, "lease")
        if lease_us < 1_000_000:
            raise ConfigError(f"lease is {lease!r}: it must be at least 1 s")
        return CircuitCall(self, self._app.driver, self._app.clock, self._standings, lease_us)

    # -- what an operator does

    def force_open(self, why: str = BY_HAND, *, by: str | None = None) -> None:
        """Let no call in until further notice. `why` and `by` (this host and process) stand in its history.

        Raises:
            ConfigError: `why` is no text, or empty.
        """
        refuse_in_loop("force_open", "aforce_open")
        self._forced(self._app.driver.run(self._force("forced_open", why, by)))

    def force_close(self, why: str = BY_HAND, *, by: str | None = None) -> None:
        """Let all calls in until further notice, whatever becomes of them. Parked jobs come back at a pace."""
        refuse_in_loop("force_close", "aforce_close")
        self._forced(self._app.driver.run(self._force("forced_closed", why, by)))

    def reset(self, why: str = BY_HAND, *, by: str | None = None) -> None:
        """Closed, with nothing counted and nothing forced. Parked jobs come back at a pace."""
        refuse_in_loop("reset", "areset")
        self._forced(self._app.driver.run(self._force("closed", why, by)))

    async def aforce_open(self, why: str = BY_HAND, *, by: str | None = None) -> None:
        """`force_open`, awaited."""
        self._forced(await self._app.driver.arun(self._force("forced_open", why, by)))

    async def aforce_close(self, why: str = BY_HAND, *, by: str | None = None) -> None:
        """`force_close`, awaited."""
        self._forced(await self._app.driver.arun(self._force("forced_closed", why, by)))

    async def areset(self, why: str = BY_HAND, *, by: str | None = None) -> None:
        """`reset`, awaited."""
        self._forced(await self._app.driver.arun(self._force("closed", why, by)))

    def look(self) -> CircuitInfo:
        """How it stands: state, counts, history, and how many jobs are parked for it."""
        refuse_in_loop("look", "alook")
        return drive(look(self.name, self.policy), self._app.driver)

    async def alook(self) -> CircuitInfo:
        """`look`, awaited."""
        return await adrive(look(self.name, self.policy), self._app.driver)

    def _force(self, to: Any, why: str, by: str | None) -> Amend:
        if type(why) is not str or not why.strip():
            raise ConfigError(f"why is {why!r}: say in words why it is done, or leave it out")
        change = ForceCircuit(
            register=REGISTERS + self.name, by=by or this_process(), policy=self.policy, to=to, why=why
        )
        return Amend((change,))

    def _forced(self, answers: list[Standing]) -> None:
        self._standings.learn(self.name, answers[0], self._app.clock.monotonic())

    def __repr__(self) -> str:
        return f"<Circuit {self.name!r}>"


class Circuits(Mapping[str, Circuit]):
    """`app.circuits`: those that the code has made, by name."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._made: dict[str, Circuit] = {}
        self._standings = Standings(app.clock.monotonic, lambda name, made: app.notice(change(name, made)))

    def __getitem__(self, name: str) -> Circuit:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def made(self, name: str, options: CircuitOptions) -> Circuit:
        """The circuit of that name, made where there is none. Default options ask for whichever there is.

        Raises:
            ConfigError: there is one with other options.
        """
        found = self._made.setdefault(name, Circuit(self._app, name, options, self._standings))
        if options not in (found.options, CircuitOptions()):
            raise ConfigError(
                f"the circuit {name!r} is made twice with different settings: make it once and use the handle, or "
                f"app.circuits[{name!r}]"
            )
        return found

    def named(self, name: str) -> Circuit:
        """Also one that the code does not know, but the store may."""
        return self._made.get(name) or Circuit(self._app, name, None, self._standings)

    def look(self) -> list[CircuitInfo]:
        """How all of them stand, also those that only the store knows; sorted by name."""
        refuse_in_loop("app.circuits.look", "app.circuits.alook")
        return drive(look_all(self._policies()), self._app.driver)

    async def alook(self) -> list[CircuitInfo]:
        """`look`, awaited."""
        return await adrive(look_all(self._policies()), self._app.driver)

    def _policies(self) -> dict[str, CircuitPolicy | None]:
        return {name: circuit.policy for name, circuit in self._made.items()}


class QueueOptions(msgspec.Struct, frozen=True):
    """What `app.queue` has said of a queue."""

    retry_budget: RetryBudget | None = None


class CircuitApp:
    """Mixed into the app, whose store and clock it uses."""

    if TYPE_CHECKING:

        @property
        def driver(self) -> Driver: ...
        @property
        def tasks(self) -> Mapping[str, Task[..., Any]]: ...

        def notice(self, signal: Signal) -> None: ...

        clock: Any

    @cached_property
    def circuits(self) -> Circuits:
        """The app's circuits by name."""
        return Circuits(self)

    @cached_property
    def queue_options(self) -> dict[str, QueueOptions]:
        """What is known of queues by name."""
        return {}

    @in_words("app.circuit")
    def circuit(
        self,
        name: str,
        /,
        *,
        failure_rate: float = _DEFAULT.failure_rate,
        window: int = _DEFAULT.window,
        minimum: int | None = None,
        slow_rate: float = _DEFAULT.slow_rate,
        slow_after: Duration | None = 60,
        open_for: Duration = 60,
        probes: int = _DEFAULT.probes,
        refill: float = _DEFAULT.refill,
        record: Errors = (Exception,),
        ignore: Errors = (),
        retry_budget: RetryBudget | None = None,
    ) -> Circuit:
        """A circuit around one dependency, shared by all workers and all tasks that name it.

        Without options it is the one that was made before, or one with the defaults.

        Args:
            name: letters, digits and `_ . - / @`, at most 190.
            failure_rate: it opens when this share of the calls of the window has failed; above 0, at most 1.
                By default 0.5.
            window: how many calls it looks at, the last ones; 1 to 10,000. By default 100.
            minimum: with fewer calls it does not open. By default 20, or the window where that is smaller.
            slow_rate: it opens when this share was slow. By default 1.0.
            slow_after: a call that took longer was slow. By default 60 s. None: none is.
            open_for: how long it stays open before it lets probes in. By default 60 s.
            probes: how many calls a half-open circuit lets in; what becomes of them decides. By default 5.
            refill: how many calls a second are let in after it has closed, while jobs are parked for it. By default 50.
            record: exceptions that count as failures. By default all.
            ignore: exceptions that say nothing of the dependency, such as one for a bad address.
            retry_budget: see `RetryBudget`. By default retries have no bound of their own.

        Raises:
            ConfigError: one of these is out of range or unknown, or the circuit was made with other settings before.
        """
        policy = CircuitPolicy(
            failure_rate=failure_rate,
            window=window,
            minimum=minimum,
            slow_rate=slow_rate,
            slow_after_us=None if slow_after is None else micros(slow_after, "slow_after"),
            open_us=micros(open_for, "open_for"),
            probes=probes,
            refill=refill,
        )
        counted, ignored = _checked_errors("record", record), _checked_errors("ignore", ignore)
        options = CircuitOptions(policy, counted, ignored, _checked_budget(retry_budget))
        return self.circuits.made(checked_circuit(name), options)

    @in_words("app.queue")
    def queue(self, name: str, /, *, retry_budget: RetryBudget | None = None) -> QueueOptions:
        """Say something of a queue that holds for all of its jobs. Each process that works it should say the same.

        Args:
            retry_budget: bounds the retries of its jobs by their first attempts; see `RetryBudget`.

        Raises:
            ConfigError: an option is out of range, or the queue had others before.
        """
        options = QueueOptions(_checked_budget(retry_budget))
        found = self.queue_options.setdefault(checked_queue(name), options)
        if found != options:
            raise ConfigError(f"the queue {name!r} is described twice, with different settings: leave one out")
        return found

    def check_circuits(self) -> None:
        """Whether the app has each circuit that one of its tasks names.

        Raises:
            ConfigError: it has not; names the tasks, and what may be meant.
        """
        check_circuits(self.tasks, self.circuits)


def check_circuits(tasks: Mapping[str, Task[..., Any]], circuits: Mapping[str, object]) -> None:
    """See `CircuitApp.check_circuits`."""
    for task in tasks.values():
        if task.circuit is not None and task.circuit not in circuits:
            close = [repr(one) for one in near(task.circuit, circuits)]
            fix = f"did you mean {' or '.join(close)}?" if close else f"make it with app.circuit({task.circuit!r})"
            raise ConfigError(f"the task {task.name} names the circuit {task.circuit!r}, which the app has not: {fix}")


def _checked_errors(field: str, errors: object) -> tuple[type[BaseException], ...]:
    if isinstance(errors, str) or not isinstance(errors, (type, Iterable)):
        kind = f", such as {type(errors).__name__} itself" if isinstance(errors, BaseException) else ""
        raise ConfigError(f"{field} is {errors!r}: use exception classes{kind}")
    found = (errors,) if isinstance(errors, type) else tuple(errors)
    for error in found:
        if not _is_error(error):
            raise ConfigError(f"{field} holds {error!r}: use exception classes")
    return found


def _is_error(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, BaseException)


def _checked_budget(budget: RetryBudget | None) -> RetryBudget | None:
    if budget is not None and not isinstance(budget, RetryBudget):
        raise ConfigError(f"retry_budget is {budget!r}: use RetryBudget(share=0.2, window=60, minimum=10)")
    return budget
