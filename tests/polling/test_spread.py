"""Polls that begin together: with jitter they do not ask together."""

import random
from collections import Counter

from headrace import Headrace, Pending, current_job
from tests.polling.asking import Upstream
from tests.worker.working import virtually, work_for, working_virtually

POLLS = 1000


def queries(jitter: float) -> list[Counter[int]]:
    """The first, second and third queries of a thousand polls, counted by the second that they fall into."""

    async def main(app: Headrace) -> list[Counter[int]]:
        app.rng = random.Random(4)
        upstream, rounds = Upstream(), [Counter[int](), Counter[int](), Counter[int]()]

        @app.poll(every="60s", max_polls=3, jitter=jitter)
        async def ask(number: int) -> Pending:
            rounds[current_job().poll - 1][int(upstream.now())] += 1
            return Pending()

        async with working_virtually(app, concurrency=POLLS):
            upstream.begin()
            await ask.aenqueue_many([(number,) for number in range(POLLS)])
            await work_for(260)
        return rounds

    return virtually(main)


def histogram(counts: Counter[int]) -> str:
    """One line for each five seconds: how many queries, and a bar of them."""
    lines = Counter[int]()
    for second, count in counts.items():
        lines[second // 5 * 5] += count
    return "\n".join(f"{second:4} s {lines[second]:5} {'#' * (lines[second] // 10)}" for second in sorted(lines))


def test_without_jitter_a_thousand_polls_ask_at_once() -> None:
    assert [dict(counts) for counts in queries(0)] == [{0: POLLS}, {60: POLLS}, {120: POLLS}]


def test_with_jitter_no_second_sees_more_than_a_few() -> None:
    """The first queries are spread over 30 s, later ones over twice that and more; 17 or 33 a second would be even."""
    first, second, third = queries(0.5)
    for counts, earliest, latest in ((first, 0, 30), (second, 30, 120), (third, 60, 210)):
        picture = histogram(counts)
        assert sum(counts.values()) == POLLS, picture
        assert earliest <= min(counts) <= max(counts) < latest, picture
        assert max(counts.values()) < POLLS / 15, picture
    assert len(third) > len(second) > len(first)  # they drift apart, query by query
