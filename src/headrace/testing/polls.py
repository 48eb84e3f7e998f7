"""Polls in the simulator: an upstream that answers as is written, and the promise that a poll keeps at its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

from headrace.app import Headrace
from headrace.core.backoff import Exponential
from headrace.core.poll import TIMED_OUT
from headrace.core.retry import Retry
from headrace.core.states import State
from headrace.polling import PollTask
from headrace.testing.ledger import Ledger

POLL, FINAL, IN_VAIN = "poll", "poll's final", "poll's timeout"
_ANSWERS = ("pending", "pending", "pending", "pending", "error", "busy", "retry", "snooze", "exit")


def define_poll(app: Headrace, act: Callable[[list[str]], Awaitable[Any]], timeout_s: float) -> PollTask[..., Any]:
    """Register a poll and its hooks."""

    async def query(key: int, steps: list[str]) -> Any:
        value = await act(steps)
        return True if value is None else value

    async def final(key: int, result: bool) -> None:  # noqa: FBT001 - a hook's parameters have names
        await act([])

    async def in_vain(key: int) -> None:
        await act([])

    poll = app.poll(
        name=POLL,
        every="500ms x3, 2s",
        give_up_after=25,
        jitter=0.2,
        unique="poll-{key}",
        retry=Retry(max_attempts=4, backoff=Exponential(base=0.5, cap=4)),
        timeout=timeout_s,
    )(query)
    poll.on_final(name=FINAL, timeout=timeout_s)(final)
    poll.on_timeout(name=IN_VAIN, timeout=timeout_s)(in_vain)
    return poll


def draw_answers(rng: Random, *, deadly: bool) -> list[str]:
    """What an upstream does, query by query."""
    answers = [f"{rng.choice(_ANSWERS)}:{rng.random():.3f}" for _ in range(rng.choice((0, 2, 5, 60)))]
    if deadly and rng.random() < 0.3:
        answers.insert(rng.randrange(len(answers) + 1), f"crash:{rng.random():.3f}")
    return [*answers, rng.choice(("ok", "ok", "ok", "fail", "cancel")) + f":{rng.random():.3f}"]


def hooks_of(ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Each poll that has come to an end of its own has enqueued exactly one hook, that for its end; others none."""
    for id, entry in ledger.jobs.items():
        if entry.new.task != POLL or entry.live:
            continue
        expected = _hooks_for(entry.state, entry.reason)
        found = [ledger.jobs[other].new.task for other in sorted(ledger.followers) if other.startswith(f"{id}/")]
        if found != expected:
            yield id, f"ended as {entry.state.value} ({entry.reason}) with the hooks {found}, not {expected}"


def _hooks_for(state: State, reason: str) -> list[str]:
    if state is State.SUCCEEDED:
        return [FINAL]
    return [IN_VAIN] if (state, reason) == (State.EXPIRED, TIMED_OUT) else []
