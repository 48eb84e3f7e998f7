"""Tasks whose jobs kill their workers are held: the rest is parked, and comes back for other code or an operator."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace import ConfigError, Headrace, State
from headrace.core import trail
from headrace.drivers.memory import MemoryDriver
from headrace.signals import TaskFreed, TaskHeld
from headrace.stores.memory import MemoryStore
from tests.children import jobs
from tests.waiting import await_until
from tests.worker.deadly import Site, SlowLooks, counted, virtually, watch
from tests.worker.working import ended, work_for, working


def test_the_rest_of_a_deadly_task_is_parked_and_others_flow() -> None:
    async def main(site: Site) -> None:
        app = site.app("v1")
        ids = await site.murders(app, 3)
        async with site.working(app, concurrency=1):
            await work_for(5)
            await app.tasks["deadly"].aenqueue_many([{"number": number} for number in range(20)])
            await app.tasks["harmless"].aenqueue_many([{"number": number} for number in range(20)])
            await work_for(5)
            assert site.numbers() == []
            assert site.numbers("harmless") == list(range(20))
            page = await app.ajobs.list("parked")
            assert [(job.reason, job.counts["attempts"]) for job in page.jobs] == [("held deadly v1", 0)] * 20
            assert watch(app).signals == [TaskHeld("deadly", "v1", 3, "w2")]
            assert watch(app).outcomes[State.FAILED, "crashed"] == 3
            (held,) = await app.holds.alook()
            assert (held.task, held.version, set(held.jobs)) == ("deadly", "v1", set(ids))
            assert (held.tried, held.queues) == (False, ("default",))
            await work_for(600)  # nothing comes back by itself
            assert watch(app).outcomes[State.PARKED, "held deadly v1"] == 20

    virtually(main)


def test_fewer_convictions_or_older_ones_hold_nothing() -> None:
    async def main(site: Site) -> None:
        app = site.app("v1")
        async with site.working(app):
            await site.murders(app, 2)
            await work_for(3700)
            await site.murders(app, 2)
            await work_for(5)
            await app.tasks["deadly"].aenqueue(1)
            await work_for(5)
        assert site.numbers() == [1]
        assert watch(app).signals == []

    virtually(main)


@pytest.mark.parametrize("switched_off", ["app", "task"])
def test_it_can_be_switched_off(switched_off: str) -> None:
    async def main(site: Site) -> None:
        app = site.app("v1", hold_after=None if switched_off == "app" else 1)
        if switched_off == "task":
            app._tasks.pop("deadly")

            @app.task(name="deadly", hold_after=None)
            async def deadly(number: int) -> None:
                site.ran.append(("v1", "deadly", number))

        async with site.working(app):
            await site.murders(app, 5)
            await work_for(5)
            await app.tasks["deadly"].aenqueue(1)
            await work_for(5)
        assert site.numbers() == [1]
        assert await app.holds.alook() == []

    virtually(main)


async def held(site: Site, version: str | None, parked: int = 30) -> Headrace:
    """An app of that version, whose deadly task is held with jobs parked."""
    app = site.app(version)
    await site.murders(app, 3)
    async with site.working(app):
        await work_for(3)
        await app.tasks["deadly"].aenqueue_many([{"number": number} for number in range(parked)])
        await work_for(3)
    assert await counted(app, State.PARKED) == parked
    return app


def test_another_version_runs_them_at_a_pace() -> None:
    async def main(site: Site) -> None:
        await held(site, "v1", parked=100)
        app = site.app("v2")
        async with site.working(app):
            await work_for(4)
            assert 10 <= len(site.ran) <= 60  # ten a second
            await work_for(16)
        assert sorted(site.numbers()) == list(range(100))
        assert watch(app).signals == [TaskFreed("deadly", "v1", "w3")]
        (found,) = await app.holds.alook()
        assert (found.version, found.tried, found.queues) == ("v1", True, ())

    virtually(main)


def test_beside_workers_of_the_old_version_nothing_is_thrown_to_and_fro() -> None:
    """The old ones park again whatever of it they get hold of: at most as many as come back, ten a second."""

    async def main(site: Site) -> None:
        old = await held(site, "v1", parked=50)
        before = watch(old).outcomes[State.PARKED, "held deadly v1"]
        new = [site.app("v2") for _ in range(3)]
        async with site.working(old), site.working(new[0]), site.working(new[1]), site.working(new[2]):
            start = site.clock()
            await await_until(lambda: len(site.ran) >= 50, 60)
            seconds = (site.clock() - start) / 1_000_000
        parked = watch(old).outcomes[State.PARKED, "held deadly v1"] - before
        assert parked <= 10 * seconds + 5
        assert {version for version, _, _ in site.ran} == {"v2"}
        (told,) = (signal for app in new for signal in watch(app).signals)
        assert (type(told), told.by in {"w4", "w5", "w6"}) == (TaskFreed, True)

    virtually(main)


def test_a_version_that_kills_too_keeps_them_parked() -> None:
    async def main(site: Site) -> None:
        await held(site, "v1", parked=1)
        app = site.app("v2")
        await site.murders(app, 3)
        async with site.working(app):
            await work_for(5)
            assert {one.version for one in await app.holds.alook()} == {"v1", "v2"}
            runs = len(site.ran)
            await app.tasks["deadly"].aenqueue(7)
            await work_for(30)
            assert len(site.ran) == runs
        back = site.app("v1")  # a rollback helps nobody
        async with site.working(back):
            await work_for(30)
        assert len(site.ran) == runs
        last = site.app("v3")
        async with site.working(last):
            await work_for(30)
        assert sorted(site.numbers()) == [0, 7]

    virtually(main)


def test_a_worker_that_starts_anew_knows_it_before_its_first_claim() -> None:
    """Else each one that is started in the place of a dead one would die of the next job."""

    async def main(site: Site) -> None:
        app = await held(site, "v1", parked=1)
        await app.tasks["deadly"].aenqueue_many([{"number": number} for number in range(5)])
        app.driver = SlowLooks(MemoryStore(now=site.clock), site.model)
        async with site.working(app):
            await work_for(10)
        assert site.ran == []
        assert await counted(app, State.PARKED) == 6

    virtually(main)


@pytest.mark.parametrize(("version", "other"), [(None, None), ("v1", None), ("v1", "v1")])
def test_only_an_operator_frees_what_no_other_version_does(version: str | None, other: str | None) -> None:
    async def main(site: Site) -> None:
        await held(site, version, parked=20)
        app = site.app(other)
        async with site.working(app):
            await work_for(300)
            assert site.ran == []
            assert await app.holds.afree("deadly", version="v0") == ()
            assert await app.holds.afree("deadly", by="ann") == (version or "",)
            await work_for(20)
        assert sorted(site.numbers()) == list(range(20))
        assert watch(app).signals == [TaskFreed("deadly", version or "", "ann")]
        assert await app.holds.alook() == []

    virtually(main)


def test_whoever_finds_the_bodies_is_not_taken_for_the_murderer() -> None:
    """Workers of v1 die of their suspects; the first worker of v2 convicts them, and its version is innocent."""

    async def main(site: Site) -> None:
        old, new = site.app("v1"), site.app("v2")
        for _ in range(3):
            await site.murders(old, 1, trail.Trail(crashes=2))
            await site.die(old)
        assert site.numbers() == [-1] * 3
        async with site.working(new):
            await work_for(60)
            await new.tasks["deadly"].aenqueue(1)
            await work_for(10)
        assert watch(new).outcomes[State.FAILED, "crashed"] == 3
        assert site.numbers() == [-1, -1, -1, 1]
        (found,) = await new.holds.alook()
        assert (found.version, len(found.jobs)) == ("v1", 3)
        assert watch(new).signals[-1] == TaskHeld("deadly", "v1", 3, f"w{site.workers}")

    virtually(main)


async def test_child_processes_that_die_have_their_task_held_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the worker lives on, and knows for certain which code it was."""
    monkeypatch.setattr(jobs.app, "driver", MemoryDriver(MemoryStore()))
    monkeypatch.setattr(jobs.app, "config", msgspec.structs.replace(jobs.app.config, version="v1", hold_after=2))
    path = str(tmp_path / "said")
    async with working(jobs.app, processes=1, concurrency=1):
        for _ in range(2):
            job = await ended(jobs.app, (await jobs.die.aenqueue(path, "exit", 99)).id, "failed")
            assert (job.reason, job.history[-1].message) == ("crashed", "exit code 3")
        await await_until(jobs.app.holds.alook, what="the hold")
        job = await ended(jobs.app, (await jobs.die.aenqueue(path, "exit", 99)).id, "parked")
    assert job.reason == f"held {jobs.die.name} v1"


@pytest.mark.parametrize("number", [0, -1, 1.5, "3", True])
def test_mistakes_are_named(number: Any) -> None:
    with pytest.raises(ConfigError, match=r"hold_after is .*: use a whole number of at least 1, or None for never"):
        Headrace("memory://", hold_after=number)
    app = Headrace("memory://")
    with pytest.raises(ConfigError, match=r"hold_after is .*: use a whole number of at least 1, or None for never"):
        app.task(hold_after=number)(test_it_can_be_switched_off)
