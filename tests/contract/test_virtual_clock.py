"""The clock that tests hold in their hands."""

import pytest

from headrace.testing import VirtualClock


def test_time_passes_on_both_faces() -> None:
    clock = VirtualClock(5_000_000)
    assert (clock(), clock.monotonic()) == (5_000_000, 0)
    assert clock.advance(1.5) == clock() == 6_500_000
    assert clock.advance_us(1) == 6_500_001
    assert clock.monotonic() == 1.500001


def test_time_stands_still_by_itself() -> None:
    clock = VirtualClock()
    assert clock() == clock() == 1_700_000_000_000_000


def test_a_jump_moves_the_wall_clock_only() -> None:
    clock = VirtualClock(5_000_000)
    assert clock.jump(-2) == clock() == 3_000_000
    assert clock.monotonic() == 0


def test_time_does_not_pass_backwards() -> None:
    clock = VirtualClock(5_000_000)
    with pytest.raises(ValueError, match="jump"):
        clock.advance_us(-1)
    assert clock() == 5_000_000
