"""A service is down for a minute, and a thousand workers want it: what reaches it when it is back.

`python -m bench.retry_storm` draws docs/img/retry-storm.svg. It is a simulation on virtual time, seeded, out of the
parts that workers use: the circuit's changes of its register, its offers of parked jobs, and the retry policy. Beside
it the same jobs are tried again at a fixed interval, with nothing in between.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from bench.plot import Curve, Plot, draw
from headrace.core.backoff import Exponential
from headrace.core.circuit import AskCircuit, OfferCalls, ReportCalls
from headrace.core.circuit_policy import SECOND, CircuitPolicy
from headrace.core.registers import Change

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "img" / "retry-storm.svg"
CALL_US = 50_000  # a call takes that long at most, and so does a job from its place in the queue to its start
LOOK_US = 100_000  # between two looks after parked jobs


class Setting(msgspec.Struct, frozen=True):
    """What happens. Times in seconds."""

    seed: int = 7
    workers: int = 1_000
    job_every_s: float = 20  # each worker is given a job so often, at random: 50 a second in all
    capacity: int = 100  # calls a second that the service bears
    down_s: tuple[float, float] = (10, 70)
    until_s: float = 180
    interval_s: float = 5  # of the fixed retries


class Job(msgspec.Struct, order=True):
    """One call that must succeed once."""

    number: int
    tries: int = 0


class Service:
    """Refuses while it is down, and what is more than it can bear."""

    def __init__(self, setting: Setting) -> None:
        self._down_us = tuple(round(moment * SECOND) for moment in setting.down_s)
        self._capacity = setting.capacity
        self._free = 0.0
        self._seen_us = 0
        self.calls: list[int] = []  # when each of them came
        self.good = 0

    def call(self, now_us: int) -> bool:
        """Whether it answers well. What it bears in a tenth of a second may come at once."""
        self.calls.append(now_us)
        come = (now_us - self._seen_us) / SECOND * self._capacity
        self._free, self._seen_us = min(self._capacity / 10, self._free + come), now_us
        if self._down_us[0] <= now_us < self._down_us[1] or self._free < 1:
            return False
        self._free -= 1
        self.good += 1
        return True

    def most_in_a_second(self) -> int:
        """Calls of the worst second, wherever it begins."""
        return max(place + 1 - bisect_left(self.calls, now - SECOND + 1) for place, now in enumerate(self.calls))


class FixedIntervals:
    """Each failed call is made again after the same time."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rng = Random(f"{setting.seed} {type(self).__name__}")
        self.service = Service(setting)
        self.now_us = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    def run(self) -> Service:
        """All of it. The jobs come at the same moments in each kind of run."""
        setting, rng, moment = self.setting, Random(f"{self.setting.seed} jobs"), 0.0
        for number in count():
            moment += rng.expovariate(setting.workers / setting.job_every_s)
            if moment >= setting.until_s:
                break
            self.later(round(moment * SECOND), partial(self.start, Job(number)))
        while self._events and self._events[0][0] < setting.until_s * SECOND:
            self.now_us, _, event = heapq.heappop(self._events)
            event()
        return self.service

    def later(self, wait_us: int, event: Callable[[], None]) -> None:
        """After so long."""
        heapq.heappush(self._events, (self.now_us + wait_us, next(self._numbers), event))

    def soon(self, event: Callable[[], None]) -> None:
        """After a little while that differs from time to time."""
        self.later(self.rng.randrange(CALL_US), event)

    def start(self, job: Job) -> None:
        """A worker runs it."""
        if not self.service.call(self.now_us):
            self.later(round(self.setting.interval_s * SECOND), partial(self.start, job))


class Headrace(FixedIntervals):
    """A circuit stands before the service, and retries are spread by their policy."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.policy = CircuitPolicy(open_us=10 * SECOND, refill=setting.capacity)
        self.backoff = Exponential(base=2, cap=60)
        self.body: bytes | None = None
        self.parked: list[Job] = []
        self._reports = count()
        self.later(0, self.look)

    def amend(self, kind: type[Change], **more: Any) -> Any:
        """Change the circuit's register, as a store does; the answer."""
        change = kind(register="circuit:service", by="a worker", policy=self.policy, **more)  # type: ignore[call-arg]
        changed = change.apply(self.body, self.now_us)
        self.body = changed.body
        return changed.answer

    def start(self, job: Job) -> None:
        """A worker has claimed it: it runs if the circuit lets it, else it is parked."""
        call = f"{job.number}:{job.tries}"
        admission = self.amend(AskCircuit, calls=(call,), lease_us=30 * SECOND)
        if admission.admitted:
            good = self.service.call(self.now_us)
            self.soon(partial(self.end, job, call, admission.standing.generation, good=good))
        else:
            heapq.heappush(self.parked, job)

    def end(self, job: Job, call: str, generation: int, *, good: bool) -> None:
        """The circuit is told, and a failed job comes back after a while of its own."""
        calls = ((call, "ok" if good else "failed"),)
        self.amend(ReportCalls, request=f"{next(self._reports)}", generation=generation, calls=calls)
        if not good:
            wait_s = self.backoff.wait(job.tries, 0.0, self.rng)
            job.tries += 1
            self.later(round(wait_s * SECOND), partial(self.start, job))

    def look(self) -> None:
        """Parked jobs go on, the first in line first, as many as the circuit wants."""
        self.later(LOOK_US, self.look)
        if self.parked:
            for _ in range(min(self.amend(OfferCalls).count, len(self.parked))):
                job = heapq.heappop(self.parked)
                self.soon(partial(self.start, job))


def picture(setting: Setting, ours: Service, fixed: Service) -> str:
    """Both runs beside each other, as SVG."""
    seconds = range(round(setting.until_s))

    def curve(label: str, colour: str, service: Service) -> Curve:
        edges = [bisect_left(service.calls, second * SECOND) for second in (*seconds, len(seconds))]
        return Curve(label, colour, [edges[second + 1] - edges[second] for second in seconds])

    return draw(
        Plot(
            title=f"{setting.workers:,} workers, and a service that is down for "
            f"{setting.down_s[1] - setting.down_s[0]:.0f} s",
            across="seconds",
            up="calls a second",
            curves=[
                curve(f"fixed: every {setting.interval_s:.0f} s", "#c0392b", fixed),
                curve("a circuit, and retries with jitter", "#1f6fb2", ours),
            ],
            level=(setting.capacity, "what the service bears"),
            band=(*setting.down_s, "down"),
        )
    )


def main() -> None:
    """Draw the picture anew."""
    setting = Setting()
    ours, fixed = Headrace(setting).run(), FixedIntervals(setting).run()
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(setting, ours, fixed), "utf-8")
    for name, service in (("circuit", ours), ("fixed", fixed)):
        print(f"{name}: {service.most_in_a_second()} calls in the worst second, {service.good:,} good ones")


if __name__ == "__main__":
    main()
