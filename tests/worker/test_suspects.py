"""Suspects: jobs whose next crash may convict them. They run alone, and not too many of a task at a time."""

from headrace import State
from headrace.core import trail
from tests.worker.deadly import Site, counted, virtually, watch
from tests.worker.working import work_for

SUSPECT = trail.Trail(crashes=2)


def test_suspects_wait_while_enough_of_them_may_have_killed_their_workers() -> None:
    """Else each worker that is started in the place of a dead one would die of the next one before anybody is found."""

    async def main(site: Site) -> None:
        app = site.app("v1")
        await site.murders(app, 6, SUSPECT)
        for _ in range(3):
            await site.die(app)
        async with site.working(app):
            await work_for(120)
        assert site.numbers() == [-1] * 3
        assert watch(app).outcomes[State.FAILED, "crashed"] == 3
        assert await counted(app, State.PARKED) == 3

    virtually(main)


def test_a_convicted_job_does_not_wait_for_an_empty_worker() -> None:
    """Should the worker die of another job meanwhile, that one would share the blame for it, and it would run again."""

    async def main(site: Site) -> None:
        app = site.app("v1")
        async with site.working(app, concurrency=2):
            await app.tasks["deadly"].aenqueue(-1)
            await work_for(2)
            assert site.numbers() == [-1]  # goes on for ever
            await site.murders(app, 1)
            await work_for(2)
            assert watch(app).outcomes == {(State.FAILED, "crashed"): 1}
        assert site.numbers() == [-1]

    virtually(main)


def test_suspects_that_do_no_harm_follow_one_another() -> None:
    async def main(site: Site) -> None:
        app = site.app("v1", hold_after=1)
        await site.murders(app, 5, SUSPECT, number=7)
        async with site.working(app):
            await work_for(5)
        assert site.numbers() == [7] * 5

    virtually(main)


def test_no_worker_gets_empty_for_suspects_that_must_wait() -> None:
    """Its other jobs go on, and so do others; those that must wait are not claimed again and again."""

    async def main(site: Site) -> None:
        app = site.app("v1", hold_after=1)
        await site.murders(app, 1, SUSPECT)
        await site.die(app)  # nobody knows what has become of it
        await site.murders(app, 20, SUSPECT, number=7)
        async with site.working(app, concurrency=4) as worker:
            await app.tasks["deadly"].aenqueue(-2)  # goes on for ever
            await work_for(1)
            await app.tasks["harmless"].aenqueue_many([(number,) for number in range(50)])
            await work_for(4)
            assert len(site.numbers("harmless")) == 50
            assert worker.executor.running == 1
        assert site.numbers() == [-1, -2]
        assert await counted(app, State.SCHEDULED) == 20

    virtually(main)


def test_many_suspects_that_do_no_harm_are_soon_through() -> None:
    async def main(site: Site) -> None:
        app = site.app("v1")
        await site.murders(app, 200, SUSPECT, number=7)
        async with site.working(app), site.working(site.app("v1")), site.working(site.app("v1")), site.working(app):
            await work_for(30)
        assert site.numbers() == [7] * 200

    virtually(main)
