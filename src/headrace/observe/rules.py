"""When something is wrong: each rule turns what it hears or sees into findings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from headrace import signals
from headrace.core.alerts import Failed
from headrace.core.durations import Duration, micros
from headrace.core.operations import QueueView
from headrace.core.wording import counted
from headrace.observe.checks import check_choice, check_span, check_text, check_whole

SHOWN = 5  # ids of jobs that a text names


class Finding(msgspec.Struct, frozen=True):
    """A rule is broken by a subject; or not any more, where it is `over`."""

    rule: Rule
    subject: str
    text: str
    facts: dict[str, Any] = {}
    over: bool = False


class Sight(msgspec.Struct, frozen=True):
    """What a look at the store has shown. `queues` None: this one was not looked at.

    `back_us`: of queues whose parked jobs have come back, since when their oldest one may have been ready.
    """

    now_us: int
    failed: Failed
    queues: Sequence[QueueView] | None = None
    back_us: Mapping[str, int] = {}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all rules.

    Args:
        name: tells rules of one kind apart. By default the kind, and what the rule is restricted to.
        cooldown: how long a subject is not told again. By default that of `app.alerts`.

    Raises:
        ConfigError: one of these is out of range.
    """

    kind: ClassVar[str] = ""
    name: str | None = None
    cooldown: Duration | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_text("name", self.name, most=100)
        if self.cooldown is not None:
            check_span("cooldown", self.cooldown)

    @property
    def key(self) -> str:
        """The name, or the one it has by default."""
        return self.name or " ".join([self.kind, *self._restrictions()])

    def _restrictions(self) -> Iterator[str]:
        for field in ("queue", "task", "circuit"):
            value = getattr(self, field, None)
            if value is not None:
                yield value

    def heard(self, signal: signals.Signal) -> Finding | None:
        """What a signal means to it."""
        return None

    def seen(self, sight: Sight) -> list[Finding]:
        """What a look means to it."""
        return []

    def resolved(self, subject: str) -> Finding:
        """The end of what it has told about a subject."""
        return Finding(self, subject, f"{self.key}: over" + (f" for {subject}" if subject else ""), over=True)


class FailedGrowth(Rule, frozen=True, kw_only=True):
    """Jobs fail: `count` or more within `window`.

    Args:
        count: at least 1.
        window: such as "5m"; at least 1 s.
        queue: only those of this queue.
        task: only those of this task.
        each: "queue" or "task": each of them is counted by itself. By default all together.

    Raises:
        ConfigError: one of these is out of range.
    """

    kind: ClassVar[str] = "failed-growth"
    count: int = 10
    window: Duration = "5m"
    queue: str | None = None
    task: str | None = None
    each: Literal["queue", "task"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("count", self.count, 1, 1_000_000_000)
        check_span("window", self.window, 1.0)
        for field in ("queue", "task"):
            if getattr(self, field) is not None:
                check_text(field, getattr(self, field))
        if self.each is not None:
            check_choice("each", self.each, ("queue", "task"))

    @property
    def window_us(self) -> int:
        """Microseconds."""
        return micros(self.window, "window")

    def seen(self, sight: Sight) -> list[Finding]:
        """Those that have had too many failures."""
        return [
            Finding(self, subject, self._text(subject, number), {"failed": number, "window_s": self.window_us / 1e6})
            for subject, number in sorted(self._sums(sight.failed).items())
            if number >= self.count
        ]

    def _sums(self, failed: Failed) -> Counter[str]:
        sums: Counter[str] = Counter()
        for one in failed.within(self.window_us):
            if self.queue in (None, one.queue) and self.task in (None, one.task):
                sums[getattr(one, self.each) if self.each else ""] += one.count
        return sums

    def _text(self, subject: str, number: int) -> str:
        where = [f"queue {self.queue}"] if self.queue else []
        where += [f"task {self.task}"] if self.task else []
        where += [f"{self.each} {subject}"] if self.each else []
        place = f" of {', '.join(where)}" if where else ""
        return f"{counted(number, 'job')}{place} failed within {self.window_us / 1e6:g} s"


class OldestWaiting(Rule, frozen=True, kw_only=True):
    """A job has been ready for longer than `age`, and nobody has taken it. The time while it is parked does not count.

    Args:
        age: such as "5m"; more than 0.
        queue: only this one. By default each queue by itself.

    Raises:
        ConfigError: one of these is out of range.
    """

    kind: ClassVar[str] = "oldest-waiting"
    age: Duration = "5m"
    queue: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_span("age", self.age)
        if self.queue is not None:
            check_text("queue", self.queue)

    def seen(self, sight: Sight) -> list[Finding]:
        """The queues whose first job has waited for too long."""
        return [
            Finding(
                self,
                view.name,
                f"the oldest ready job of queue {view.name} has waited for {waited_us / 1e6:,.0f} s, "
                f"with {counted(view.ready, 'job')} ready",
                {"queue": view.name, "waited_s": waited_us / 1e6, "ready": view.ready},
            )
            for view, waited_us in self._waits(sight)
            if waited_us > micros(self.age, "age")
        ]

    def _waits(self, sight: Sight) -> Iterable[tuple[QueueView, int]]:
        for view in sight.queues or ():
            if view.oldest_ready_us is not None and self.queue in (None, view.name):
                yield view, sight.now_us - max(view.oldest_ready_us, sight.back_us.get(view.name, 0))


class CircuitOpened(Rule, frozen=True, kw_only=True):
    """A circuit opened. It is over when the circuit has closed.

    Args:
        circuit: only this one.

    Raises:
        ConfigError: it is no text.
    """

    kind: ClassVar[str] = "circuit-opened"
    circuit: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.circuit is not None:
            check_text("circuit", self.circuit)

    def heard(self, signal: signals.Signal) -> Finding | None:
        """It opened, or it closed."""
        if not isinstance(signal, signals.CircuitChanged) or self.circuit not in (None, signal.circuit):
            return None
        facts = {"circuit": signal.circuit, "before": signal.before, "after": signal.after, "why": signal.why}
        if signal.after in ("open", "forced_open"):
            return Finding(self, signal.circuit, f"circuit {signal.circuit} opened: {signal.why}", facts)
        if signal.after in ("closed", "forced_closed"):
            text = f"circuit {signal.circuit} closed: {signal.why}"
            return Finding(self, signal.circuit, text, facts, over=True)
        return None


class WorkerLost(Rule, frozen=True, kw_only=True):
    """A worker was lost while it held jobs. All workers share one cool-down."""

    kind: ClassVar[str] = "worker-lost"

    def heard(self, signal: signals.Signal) -> Finding | None:
        """Its lease ran out."""
        if not isinstance(signal, signals.WorkerLost):
            return None
        some = ", ".join(signal.jobs[:SHOWN]) + (", ..." if len(signal.jobs) > SHOWN else "")
        text = f"worker {signal.worker} was lost with {counted(len(signal.jobs), 'job')}, which were given back: {some}"
        return Finding(self, "", text, {"worker": signal.worker, "jobs": list(signal.jobs)})


class TaskHeld(Rule, frozen=True, kw_only=True):
    """A task is held, since its jobs killed their workers. It is over when they run again.

    Args:
        task: only this one.

    Raises:
        ConfigError: it is no text.
    """

    kind: ClassVar[str] = "task-held"
    task: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task is not None:
            check_text("task", self.task)

    def heard(self, signal: signals.Signal) -> Finding | None:
        """It is held, or freed."""
        if not isinstance(signal, signals.TaskHeld | signals.TaskFreed) or self.task not in (None, signal.task):
            return None
        under = f" under version {signal.version}" if signal.version else ""
        facts: dict[str, Any] = {"task": signal.task, "version": signal.version}
        if isinstance(signal, signals.TaskFreed):
            return Finding(self, signal.task, f"task {signal.task}, held{under}, runs again", facts, over=True)
        crashed = counted(signal.crashes, "job")
        text = f"task {signal.task} is held{under}: {crashed} of it killed their workers; the others are parked"
        return Finding(self, signal.task, text, facts | {"crashes": signal.crashes})


RULES: dict[str, type[Rule]] = {
    rule.kind: rule for rule in (FailedGrowth, OldestWaiting, CircuitOpened, WorkerLost, TaskHeld)
}
