"""Ids: valid UUIDv7, growing, of their own in each thread and process."""

import gc
import os
import random
import threading
import uuid

import pytest

from headrace.core.ids import uuid7
from headrace.drivers import system
from headrace.drivers.system import IdMaker, SystemClock

MOMENT_US = 1_700_000_000_123_456


class FixedClock(SystemClock):
    def __init__(self, unix_us: int) -> None:
        self.now_us = unix_us

    def unix_us(self) -> int:
        return self.now_us


@pytest.mark.parametrize("bits", [0, 1, 2**62 - 1, 2**64 - 1])
def test_version_variant_and_time_are_where_the_standard_puts_them(bits: int) -> None:
    id = uuid.UUID(uuid7(MOMENT_US, bits))
    assert id.version == 7
    assert id.variant == uuid.RFC_4122
    assert id.int >> 80 == MOMENT_US // 1000
    assert id.int & (2**62 - 1) == bits & (2**62 - 1)


def test_the_text_is_the_canonical_one() -> None:
    id = uuid7(MOMENT_US, 12345)
    assert id == str(uuid.UUID(id))
    assert len(id) == 36


def test_ids_of_later_microseconds_sort_later() -> None:
    ids = [uuid7(MOMENT_US + step, 2**62 - 1 if step % 2 == 0 else 0) for step in range(5_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_a_maker_grows_within_one_microsecond_and_when_the_clock_steps_back() -> None:
    clock = FixedClock(MOMENT_US)
    maker = IdMaker(clock, random.Random(1))
    first = [maker() for _ in range(1_000)]
    clock.now_us -= 3_600_000_000
    ids = first + [maker() for _ in range(1_000)]
    assert ids == sorted(set(ids))


def test_many_ids_are_neighbours_and_grow_with_those_made_singly() -> None:
    clock = FixedClock(MOMENT_US)
    maker = IdMaker(clock, random.Random(1))
    ids = [maker(), *maker.many(2_500), maker(), *maker.many(1), *maker.many(3)]
    assert ids == sorted(set(ids))
    assert len(ids) == 2_506
    for id in map(uuid.UUID, ids):
        assert (id.version, id.variant) == (7, uuid.RFC_4122)
    moments = [(id.int >> 80) * 1000 + ((id.int >> 64 & 0xFFF) * 1000 + 4095) // 4096 for id in map(uuid.UUID, ids)]
    assert moments == list(range(MOMENT_US, MOMENT_US + 2_506))
    randoms = [id.int & (1 << 62) - 1 for id in map(uuid.UUID, ids)]
    assert len(set(randoms)) == len(randoms)
    assert all(0 < sum(number >> bit & 1 for number in randoms) < len(randoms) for bit in range(62))


def test_threads_share_a_maker_without_making_an_id_twice() -> None:
    maker = IdMaker()
    made: list[list[str]] = [[] for _ in range(4)]

    def make(into: list[str]) -> None:
        into.extend(maker() for _ in range(5_000))

    threads = [threading.Thread(target=make, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == sorted(ids) for ids in made)
    assert len({id for ids in made for id in ids}) == 20_000


def test_seeding_the_global_generator_does_not_repeat_ids() -> None:
    clock = FixedClock(MOMENT_US)
    made = []
    for _ in range(2):
        random.seed(42)
        made.append(IdMaker(clock)())
    assert made[0] != made[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_makes_ids_of_its_own_although_the_lock_was_held() -> None:  # B121
    clock = FixedClock(MOMENT_US)
    maker = IdMaker(clock)
    maker()
    reader, writer = os.pipe()
    with maker._lock:
        child = os.fork()
        if child == 0:
            os.write(writer, maker().encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        of_child = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert uuid.UUID(of_child).version == 7
    assert of_child != maker()


def test_a_maker_that_is_gone_leaves_nothing_behind() -> None:
    """One hook serves all makers: a program that makes many apps must not collect hooks, which cannot be removed."""
    gc.collect()  # what other tests left
    before = len(system._makers)
    for _ in range(10):
        IdMaker()()
    gc.collect()
    assert len(system._makers) == before
