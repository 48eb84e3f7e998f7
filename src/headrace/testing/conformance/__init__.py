"""What every store promises, one function per guarantee. A store exists when it keeps all of them.

Each guarantee takes a `Harness` around a fresh, empty store and raises AssertionError where the store breaks it:

    @pytest.mark.parametrize("guarantee", conformance.GUARANTEES.values(), ids=conformance.GUARANTEES.keys())
    def test_my_store(guarantee):
        clock = VirtualClock()
        driver = MyDriver(MyStore(now=clock))
        guarantee(Harness(driver.run, clock))

Run them in both colours: `LoopThread(driver).run` awaits `driver.arun` in an event loop of its own thread.
`pytest.register_assert_rewrite("headrace.testing.conformance")` before the import makes failures speak.
"""

from headrace.testing.conformance import (
    claiming,
    editing,
    following,
    garbage,
    leases,
    once,
    operators,
    parking,
    producing,
    registers,
    replaying,
    settling,
    uniqueness,
)
from headrace.testing.conformance.harness import GUARANTEES, Guarantee, Harness, LoopThread, guarantee

__all__ = [
    "GUARANTEES",
    "Guarantee",
    "Harness",
    "LoopThread",
    "claiming",
    "editing",
    "following",
    "garbage",
    "guarantee",
    "leases",
    "once",
    "operators",
    "parking",
    "producing",
    "registers",
    "replaying",
    "settling",
    "uniqueness",
]
