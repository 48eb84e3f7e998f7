"""Everything that can be seen of a store, in a form in which two stores can be compared."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.core import operations as ops
from headrace.core.once_records import LookOnce, OnceView
from headrace.core.states import State

Run = Callable[[Any], Any]


def everything(run: Run, ids: Iterable[str], now: int) -> dict[str, Any]:
    """Jobs by id, ids by state (each must stand in one list only), counts of queues, workers and what they hold.

    Jobs are read from the lists; the rest of `ids` is looked for, since a job that is in none of them is lost.
    """
    seen = in_lists(run, now)
    lost = {id: view for id in ids if id not in seen["jobs"] and (view := run(ops.Get(id))) is not None}
    return {**seen, "jobs": seen["jobs"] | lost}


def records(run: Run, looks: Mapping[str, LookOnce]) -> dict[str, OnceView | None]:
    """Once records by the names of their looks."""
    return {name: run(look) for name, look in looks.items()}


def in_lists(run: Run, now: int) -> dict[str, Any]:
    """The same out of listings alone, which takes fewer operations."""
    found = {state: run(ops.List(state, bodies=True)).jobs for state in State}
    jobs = {view.id: view for views in found.values() for view in views}
    lists = {state: sorted(view.id for view in views) for state, views in found.items()}
    return {"jobs": jobs, "lists": lists, "queues": run(ops.Queues()), "workers": workers(run, now)}


def workers(run: Run, now: int) -> dict[str, tuple[int, int]]:
    """The living ones and those that hold something: lease and number of jobs, over all queues."""
    found: dict[str, tuple[int, int]] = {}
    for view in run(ops.Workers()):
        lease, held = found.get(view.worker, (0, 0))
        found[view.worker] = max(lease, view.lease_until_us), held + view.held
    return {name: row for name, row in found.items() if row[0] > now or row[1]}


def check_whole(seen: dict[str, Any]) -> None:
    """Every view tells the same story: no job in two places or in none, and the counts add up."""
    listed = [(id, state) for state, ids in seen["lists"].items() for id in ids]
    assert sorted(listed) == sorted((id, view.state) for id, view in seen["jobs"].items())
    for queue in seen["queues"]:
        states = [view.state for view in seen["jobs"].values() if view.queue == queue.name]
        counted = (queue.ready, queue.scheduled, queue.running, queue.parked, queue.failed)
        expected = (State.READY, State.SCHEDULED, State.RUNNING, State.PARKED, State.FAILED)
        assert counted == tuple(states.count(state) for state in expected), queue.name
    holders = [view.worker for view in seen["jobs"].values() if view.state == State.RUNNING]
    assert {name: row[1] for name, row in seen["workers"].items() if row[1]} == {
        name: holders.count(name) for name in holders
    }
