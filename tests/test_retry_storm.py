"""A thousand workers and a service that comes back after a minute: what a circuit and spread retries make of it."""

import re

import pytest

from bench.plot import round_up
from bench.retry_storm import PICTURE, FixedIntervals, Headrace, Service, Setting, picture

SETTING = Setting()
BEARS = 1.1 * SETTING.capacity


@pytest.fixture(scope="module")
def ours() -> Service:
    return Headrace(SETTING).run()


@pytest.fixture(scope="module")
def fixed() -> Service:
    return FixedIntervals(SETTING).run()


def test_a_service_that_comes_back_is_never_asked_for_more_than_it_bears(ours: Service, fixed: Service) -> None:
    assert ours.most_in_a_second() <= BEARS
    assert fixed.most_in_a_second() > 6 * BEARS
    assert abs(ours.good - fixed.good) <= 5  # and no less is done in the end


def test_while_it_is_down_it_is_hardly_asked(ours: Service, fixed: Service) -> None:
    """One second after it has gone there are probes only."""
    first, last = (round(moment * 1_000_000) for moment in (SETTING.down_s[0] + 1, SETTING.down_s[1]))
    during = [sum(first <= now < last for now in service.calls) for service in (ours, fixed)]
    assert during[0] <= 5 * 7 < during[1]


@pytest.mark.parametrize("seed", range(5))
def test_so_it_is_with_other_luck(seed: int) -> None:
    service = Headrace(Setting(seed=seed, until_s=110)).run()
    assert service.most_in_a_second() <= BEARS


def test_the_picture_shows_these_runs(ours: Service, fixed: Service) -> None:
    """`python -m bench.retry_storm` draws it anew."""
    drawn = picture(SETTING, ours, fixed)
    assert PICTURE.read_text("utf-8") == drawn
    assert len(re.findall("<polyline ", drawn)) == 2
    assert drawn.startswith("<svg ")


def test_axes_are_divided_into_round_parts() -> None:
    assert [round_up(value) for value in (3, 4, 4.1, 9, 11, 40.5, 713)] == [4, 4, 5, 10, 20, 50, 800]
