"""Circuit breakers that several processes share: field cases of area R."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from headrace import CircuitOpen, Headrace
from tests.cases.conftest import StartWorks, url_of
from tests.cases.running import Works
from tests.waiting import await_until, wait_until


@pytest.fixture(params=["sqlite", "redis"])
def apps(request: pytest.FixtureRequest, unique_name: str) -> Iterator[list[Headrace]]:
    """Eight, each with connections of its own, as in eight processes."""
    url = url_of(request.param, request)
    with ExitStack() as closing:
        yield [closing.enter_context(Headrace(url, name=unique_name)) for _ in range(8)]


def test_b161_a_shared_breaker_opens_once_and_is_probed_when_its_time_is_over(apps: list[Headrace]) -> None:
    """B161: whoever asks meanwhile must not put the reset off, and only one may probe."""
    circuits = [app.circuit("smtp", window=2, open_for=1, probes=1) for app in apps]
    for _ in range(2):
        with suppress(ValueError), circuits[0].call():
            raise ValueError
    opened = time.monotonic()
    probes: list[float] = []
    refused, done = 0, threading.Event()

    def poll(number: int) -> bool:
        nonlocal refused
        try:
            with circuits[number].call():
                probes.append(time.monotonic())
                before = refused
                if len(probes) == 1:
                    wait_until(lambda: refused >= before + len(apps), 20, "the others to be refused meanwhile")
                    done.set()
        except CircuitOpen:
            refused += 1
        return done.is_set()

    async def main() -> None:
        async def keep_asking(number: int) -> None:
            async def ask() -> bool:
                return await asyncio.to_thread(poll, number)

            await await_until(ask, 30)

        await asyncio.gather(*map(keep_asking, range(len(apps))))

    asyncio.run(main())
    assert len(probes) >= 1
    assert probes[0] - opened >= 0.9  # of the second that it is open for, on two clocks
    history = circuits[0].look().history
    assert [step.after for step in history] == ["open", "half_open", "closed"]
    assert history[1].at_us - history[0].at_us >= 1_000_000


MAILS = """
smtp = app.circuit("smtp", window=4, minimum=2, open_for=0.5, probes=1, refill=1000)

@app.task(name="mail", circuit=smtp, retry=Retry(max_attempts=2, backoff=Fixed(600)))
def mail(number: int) -> None:
    if not said("mended"):
        say("refused")
        raise ConnectionError("not now")
    say("probe", os.getpid())
    if not said("answer"):
        open("answer").read()  # a pipe, whose other end opens when there is one
    say("sent")
"""


def tell(site: Works, word: str) -> None:
    """What handlers read with `said`."""
    with (site.folder / "said.txt").open("a") as file:
        file.write(f"{word}\n")


@pytest.mark.parametrize("works", ["sqlite", "redis"], indirect=True)
def test_b162_half_open_lets_one_through_at_a_time_even_when_it_dies(works: StartWorks) -> None:
    """B162: one probe, one more after its lease when its worker is killed, and no attempt for those that waited."""
    site = works(MAILS)
    os.mkfifo(site.folder / "answer")
    mail = site.app.tasks["mail"]
    workers = [site.start(), site.start()]
    for number in range(2):
        mail.enqueue(number)
    site.wait_for("refused", 2)
    smtp = site.app.circuits["smtp"]
    wait_until(lambda: smtp.look().state == "open", 20, "the circuit to open")
    for number in range(48):
        mail.enqueue(number)
    wait_until(lambda: smtp.look().parked + site.said.count("refused") >= 48, 20, "the mails to be parked")

    def probing() -> list[int]:
        return [int(line.split()[1]) for line in site.said if line.startswith("probe ")]

    tell(site, "mended")
    (first,) = wait_until(probing, 20, "a probe")
    assert smtp.look().probing == 1
    failed = site.said.count("refused")  # those that opened it, and a probe or two before it was mended
    victim = next(worker for worker in workers if worker.pid == first)
    victim.kill()
    victim.wait()
    wait_until(lambda: len(probing()) == 2, 30, "another probe")
    assert probing()[1] != first
    waiting = site.app.jobs.list("parked", limit=100).jobs
    assert len(waiting) >= 50 - failed - 2  # one probes, and the one that lost its worker may be ready again
    assert not any(job.counts["attempts"] for job in waiting)
    assert smtp.look().state == "half_open"
    tell(site, "answer")
    (site.folder / "answer").write_text("")  # for the probe that waits
    site.wait_for("sent", 50 - failed, 60)
    assert site.app.jobs.list("failed").jobs == ()
    assert smtp.look().state == "closed"
