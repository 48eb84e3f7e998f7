"""Calls outside of jobs: counted, refused while the circuit is open, renewed while they last."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from headrace import Circuit, CircuitOpen, ConfigError, Headrace, RetryIn, StoreUnavailable, TaskError, WrongColour
from headrace.core.settle import SECOND, retry_after_us
from tests.circuits.dependency import Broken
from tests.public.drivers import WatchedDriver, losing
from tests.waiting import await_until

Call = Callable[..., Awaitable[None]]


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    """call(circuit, error): one block, which raises `error`."""

    def sync(circuit: Circuit, error: BaseException | None) -> None:
        with circuit.call():
            if error is not None:
                raise error

    async def run(circuit: Circuit, error: BaseException | None = None) -> None:
        if request.param == "sync":
            await asyncio.to_thread(sync, circuit, error)
            return
        async with circuit.call():
            if error is not None:
                raise error

    return run


async def test_failures_open_it_and_then_no_block_is_entered(
    app: Headrace, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    smtp = app.circuit("smtp", failure_rate=0.6, window=4, minimum=2, open_for=30)
    await call(smtp)
    for _ in range(2):
        with pytest.raises(Broken):
            await call(smtp, Broken("no"))
    with pytest.raises(CircuitOpen, match="the circuit 'smtp' is open for ") as refused:
        await call(smtp)
    assert 0 < retry_after_us(refused.value) <= 30 * SECOND
    look = await smtp.alook()
    assert (look.state, look.history[-1].why) == ("open", "67% of 3 calls failed")
    lines = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "headrace.circuits"]
    assert [level for level, line in lines if "smtp: open, was closed: 67% of 3 calls failed" in line] == [
        logging.WARNING
    ]


async def test_what_says_nothing_of_the_dependency_is_not_counted(app: Headrace, call: Call) -> None:
    smtp = app.circuit("smtp", window=4, minimum=1, record=(OSError, ValueError), ignore=UnicodeError)
    await call(smtp)
    for error in (UnicodeError("ignored"), CircuitOpen("of another circuit"), RetryIn(5), asyncio.CancelledError()):
        with suppress(asyncio.CancelledError, UnicodeError, CircuitOpen, RetryIn):
            await call(smtp, error)
    assert (await smtp.alook()).calls == 1
    with pytest.raises(KeyError):  # not recorded, and not ignored: the dependency has answered
        await call(smtp, KeyError("x"))
    look = await smtp.alook()
    assert (look.state, look.calls, look.failed) == ("closed", 2, 0)


async def test_slow_calls_open_it(app: Headrace) -> None:
    smtp = app.circuit("smtp", window=2, slow_after=0.000_001)
    for _ in range(2):
        async with smtp.call():
            await asyncio.sleep(0)
    look = await smtp.alook()
    assert (look.state, look.history[-1].why) == ("open", "100% of 2 calls were slow")


async def test_probes_are_few_and_decide(app: Headrace) -> None:
    smtp = app.circuit("smtp", window=2, open_for=0.2, probes=2)
    for _ in range(2):
        with suppress(Broken):
            async with smtp.call():
                raise Broken

    async def is_let_in() -> bool:
        with suppress(CircuitOpen):
            async with smtp.call(), smtp.call():
                with pytest.raises(CircuitOpen, match="half-open"):
                    await smtp.call().__aenter__()
                return True
        return False

    await await_until(is_let_in)
    assert [step.after for step in (await smtp.alook()).history] == ["open", "half_open", "closed"]


@pytest.mark.parametrize("app", ["memory"], indirect=True)
async def test_the_place_of_a_long_probe_is_renewed(app: Headrace) -> None:
    smtp = app.circuit("smtp", window=1, open_for=0.1, probes=1)
    with suppress(Broken):
        async with smtp.call():
            raise Broken
    renewed = threading.Event()

    async def is_let_in() -> bool:
        with suppress(CircuitOpen):
            async with smtp.call(lease=1) as probe:
                permit = probe._permit
                assert permit is not None
                renew = permit.renew

                def renew_and_tell() -> None:
                    renew()
                    renewed.set()

                permit.renew = renew_and_tell  # type: ignore[method-assign]
                assert await asyncio.to_thread(renewed.wait, 10)
                assert (await smtp.alook()).probing == 1
                return True
        return False

    await await_until(is_let_in)
    assert (await smtp.alook()).state == "closed"


async def test_a_store_that_is_away_stops_no_call(caplog: pytest.LogCaptureFixture) -> None:
    app = Headrace("memory://")
    app.driver = driver = WatchedDriver()
    smtp = app.circuit("smtp", window=2)
    driver.trouble = losing("before", 1)
    async with smtp.call():
        pass
    assert "circuit smtp cannot be asked, so the call is made" in caplog.text
    async with smtp.call():
        driver.trouble = losing("before", 1)
    assert "what became of a call through circuit smtp is not counted" in caplog.text

    await smtp.aforce_open("maintenance")
    driver.trouble = losing("before", 1)
    with pytest.raises(CircuitOpen, match="by hand"):
        async with smtp.call():
            pytest.fail("it was open a moment ago")


def test_a_block_in_the_wrong_place_is_refused() -> None:
    smtp = Headrace("memory://").circuit("smtp")
    once = smtp.call()
    with once, pytest.raises(TaskError, match="entered once"), once:
        pass
    with pytest.raises(ConfigError, match=r"lease is 0\.5: it must be at least 1 s"):
        smtp.call(lease=0.5)

    async def main() -> None:
        for wrong in (lambda: smtp.call().__enter__(), smtp.look, lambda: smtp.force_open("x")):
            with pytest.raises(WrongColour):
                wrong()

    asyncio.run(main())


def test_the_error_of_a_store_that_is_away_says_more_than_that_it_is_not_counted() -> None:
    app = Headrace("memory://")
    app.driver = driver = WatchedDriver()
    smtp = app.circuit("smtp")

    def trouble(*_: object) -> None:
        raise StoreUnavailable("gone")

    def call() -> None:
        with smtp.call():
            driver.trouble = trouble
            raise Broken("first")

    with pytest.raises(Broken, match="first"):
        call()
