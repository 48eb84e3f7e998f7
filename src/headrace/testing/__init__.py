"""For those who test their own tasks, and for those who write a store: a virtual clock and the conformance suite."""

from headrace.testing.clock import VirtualClock

__all__ = ["VirtualClock"]
