"""For those who test their own tasks, and for those who write a store or change headrace itself.

A virtual clock and an event loop that runs on it are here; `conformance` says what a store must do, `faults` puts
any driver behind a bad network, and `simulator` runs the whole system through seeded troubles and checks its promises.
"""

from headrace.testing.clock import VirtualClock
from headrace.testing.loop import VirtualLoop, run_virtual

__all__ = ["VirtualClock", "VirtualLoop", "run_virtual"]
