"""What will go wrong in one simulation: drawn from its seed, as data."""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

from headrace.core.budget import RetryBudget
from headrace.testing.faults import FaultRates

Trouble = Literal["kill", "freeze", "stop", "hurry", "deploy", "jump", "cancel", "replay"]
What = Trouble | Literal["force open", "force closed", "rollback", "free"]


class Move(msgspec.Struct, frozen=True):
    """One thing that happens at a moment. `number` picks the process or the job; `seconds`: of a frost, of a jump."""

    at_s: float
    what: What
    number: int
    seconds: float


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """All of a simulation but the code under test. Times in seconds of virtual time."""

    seed: int
    workers: int = 2
    concurrency: int = 4
    jobs: int = 30
    polls: int = 0  # more jobs, of polls
    calls: int = 0  # more jobs, which call a service through a circuit
    retry_budget: RetryBudget | None = None  # of that circuit
    operators: int = 0  # who replay what has failed, and die in the middle of it
    toxic: int = 0  # more jobs, which kill workers of the old code until their task is held
    down: tuple[tuple[float, float], ...] = ()  # when that service does not answer
    chaos_s: float = 60.0  # faults stop then
    patience_s: float = 400.0  # and everything has ended that much later
    lease_s: float = 10.0
    heartbeat_s: float = 3.0
    grace_s: float = 5.0
    max_jobs: int | None = None  # a worker recycles after that many
    deadly: bool = True  # some jobs kill their worker
    ghosts: bool = False  # some jobs are of a task that no worker will ever know
    rates: FaultRates = FaultRates()
    outages: tuple[tuple[float, float], ...] = ()
    moves: tuple[Move, ...] = ()

    @property
    def calm(self) -> bool:
        """Whether every answer comes back soon, to a process that goes on."""
        return self.rates.flawless and not self.outages and not any(move.what == "freeze" for move in self.moves)

    @property
    def late_s(self) -> float:
        """How long a job may be on its way from where it is let in to its start.

        An answer comes back, and closed circuits are not asked about again for a moment. Where calls hang and
        processes freeze, it is what a lease bears.
        """
        if self.calm:
            return 0.2 + 2 * self.rates.delay_s
        return self.lease_s + self.rates.stall_s

    @classmethod
    def drawn(cls, seed: int) -> Scenario:
        """The scenario of `seed`. Each draws its own few kinds of trouble: all at once would hide each other."""
        rng = Random(f"{seed} scenario")
        chaos_s = rng.choice((25.0, 40.0, 60.0))
        ghosts = rng.random() < 0.03
        return cls(
            seed=seed,
            workers=rng.choice((1, 2, 2, 3)),
            concurrency=rng.choice((1, 3, 10)),
            jobs=rng.choice((10, 20, 40)),
            chaos_s=chaos_s,
            patience_s=1_000.0 if ghosts else 400.0,
            grace_s=rng.choice((0.0, 2.0, 8.0)),
            max_jobs=rng.choice((None, None, None, 7)),
            deadly=rng.random() < 0.4,
            ghosts=ghosts,
            rates=_draw_rates(rng),
            outages=_draw_outages(rng, chaos_s),
            moves=_draw_moves(rng, chaos_s),
        )


def _draw_rates(rng: Random) -> FaultRates:
    if rng.random() < 0.3:
        return FaultRates(delay_s=rng.choice((0.0, 0.004, 0.2)))

    def some(most: float) -> float:
        return rng.random() * most if rng.random() < 0.4 else 0.0

    return FaultRates(
        delay_s=rng.choice((0.004, 0.05, 0.4)),
        drop=some(0.2),
        lose=some(0.2),
        late=some(0.1),
        twice=some(0.2),
        stall=some(0.03),
        lost_hint=some(1.0),
    )


def _draw_outages(rng: Random, chaos_s: float) -> tuple[tuple[float, float], ...]:
    outages = []
    for _ in range(rng.choice((0, 0, 1, 2))):
        start = rng.random() * chaos_s
        outages.append((start, start + rng.choice((1.0, 8.0, 20.0))))
    return tuple(outages)


_KINDS: tuple[What, ...] = ("kill", "freeze", "stop", "hurry", "deploy", "jump", "cancel", "replay")


def _draw_moves(rng: Random, chaos_s: float) -> tuple[Move, ...]:
    kinds = [kind for kind in _KINDS if rng.random() < 0.5]
    if not kinds:
        return ()
    moves = []
    for _ in range(rng.choice((1, 3, 6, 10))):
        what = rng.choice(kinds)
        seconds = rng.uniform(-1.5, 1.5) if what == "jump" else rng.choice((1.0, 5.0, 15.0, 25.0))
        moves.append(Move(rng.random() * chaos_s, what, rng.randrange(1_000), seconds))
    return tuple(sorted(moves, key=lambda move: move.at_s))
