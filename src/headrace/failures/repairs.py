"""Questions and orders about failed jobs that take several operations, as generators; see `inquiries`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headrace.core import codec, trail
from headrace.core import operations as ops
from headrace.core.edits import Rules, correct
from headrace.core.failures import FailedFilter, FailureGroup, Grouping
from headrace.core.registers import Amend
from headrace.core.replays import AskTime
from headrace.core.states import State
from headrace.core.trail import Difference, Edit
from headrace.core.wording import near
from headrace.errors import ConfigError, RepairError, UnknownTask, UnreadableEnvelope
from headrace.inquiries import PAGE, Inquiry, Progress, Tasks
from headrace.task import Task

BODIES = 200  # jobs of a page that brings messages along: each may have 1 MB


class Retried(msgspec.Struct, frozen=True):
    """`retried`: how many are ready again; `skipped`: id -> why not."""

    retried: int
    skipped: dict[str, str]


class Edited(msgspec.Struct, frozen=True):
    """What a correction of a failed job changes. `stored`: False for a dry run, and where nothing differs.

    `notes`: what else there is to know, in sentences, such as of its keys.
    """

    id: str
    task: str
    diff: tuple[Difference, ...]
    notes: tuple[str, ...]
    stored: bool


# -- searching


def meant(queue: str | None, task: str | None, reason: str | None, where: FailedFilter | None) -> FailedFilter:
    """One filter of what was given.

    Raises:
        ConfigError: both a filter and a part of one are given.
    """
    if where is None:
        return FailedFilter(queue=queue, task=task, reason=reason)
    if queue is not None or task is not None or reason is not None:
        raise ConfigError("queue, task and reason are given beside where: put them into the FailedFilter too")
    return where


def find(where: FailedFilter, limit: int, cursor: str | None) -> Inquiry[ops.Page]:
    """A page of those that are meant, newest first.

    Raises:
        ConfigError: the limit is below 1, or the cursor is none that a page gave.
    """
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"limit is {limit!r}: use a whole number of at least 1")
    found: list[ops.JobView] = []
    while True:
        try:
            page: ops.Page = yield _listing(where, limit - len(found), cursor)
        except ValueError:
            raise ConfigError(f"cursor is {cursor!r}: use the one that the page before gave") from None
        found += filter(where.matches, page.jobs)
        cursor = None if page.jobs and where.is_past(page.jobs[-1]) else page.next
        if cursor is None or len(found) >= limit:
            return ops.Page(found, cursor)


def _listing(where: FailedFilter, limit: int, cursor: str | None) -> ops.List:
    bodies = where.needs_bodies
    most = min(limit, BODIES if bodies else PAGE)
    return ops.List(State.FAILED, where.queue, where.task, where.reason, most, cursor, bodies)


def collect(
    where: FailedFilter, between: Callable[[], Inquiry[object]] | None = None
) -> Inquiry[dict[str | None, list[str]]]:
    """The ids of all that are meant, by queue, newest first. `between`: asked after each page.

    They are collected before anything is done: what fails again meanwhile is not met a second time (B135).
    """
    found: dict[str | None, list[str]] = {}
    cursor = None
    while True:
        page: ops.Page = yield _listing(where, PAGE, cursor)
        for view in filter(where.matches, page.jobs):
            found.setdefault(view.queue, []).append(view.id)
        if between is not None:
            yield from between()
        cursor = page.next
        if cursor is None or (page.jobs and where.is_past(page.jobs[-1])):
            return found


def groups(where: FailedFilter, progress: Progress | None) -> Inquiry[list[FailureGroup]]:
    """Those that are meant, by what went wrong and where, the largest group first."""
    grouping, seen, cursor = Grouping(), 0, None
    while True:
        page: ops.Page = yield _listing(where, PAGE, cursor)
        for view in filter(where.matches, page.jobs):
            grouping.add(view)
        seen += len(page.jobs)
        if progress:
            progress(seen, 0)
        cursor = page.next
        if cursor is None or (page.jobs and where.is_past(page.jobs[-1])):
            return grouping.groups()


def store_now() -> Inquiry[int]:
    """The store's now."""
    (now_us,) = yield Amend((AskTime(),))
    return int(now_us)


# -- again, or away


def retry(ids: str | Iterable[str]) -> Inquiry[Retried]:
    """Make failed jobs ready again."""
    retried = 0
    skipped: dict[str, str] = {}
    for chunk in chunks([ids] if isinstance(ids, str) else list(ids)):
        answer: ops.Replayed = yield ops.Replay(chunk)
        retried += len(answer.replayed)
        skipped |= answer.skipped
    return Retried(retried, skipped)


def retry_failed(where: FailedFilter, progress: Progress | None) -> Inquiry[Retried]:
    """The same for all failed jobs that match and have failed before now: each once, however many ask for it (B135)."""
    before_us = (yield from store_now()) + 1
    by_queue = yield from collect(where)
    total = sum(map(len, by_queue.values()))
    retried, done = 0, 0
    skipped: dict[str, str] = {}
    for name, ids in by_queue.items():
        for chunk in chunks(ids):
            answer: ops.Replayed = yield ops.Replay(chunk, name, before_us)
            retried += len(answer.replayed)
            skipped |= answer.skipped
            done += len(chunk)
            if progress:
                progress(done, total)
    return Retried(retried, skipped)


def forget(ids: str | Iterable[str]) -> Inquiry[int]:
    """Delete failed or kept jobs."""
    forgotten = 0
    for chunk in chunks([ids] if isinstance(ids, str) else list(ids)):
        forgotten += yield ops.Forget(chunk)
    return forgotten


def forget_failed(where: FailedFilter, progress: Progress | None) -> Inquiry[int]:
    """The same for all failed jobs that match."""
    by_queue = yield from collect(where)
    total = sum(map(len, by_queue.values()))
    forgotten, done = 0, 0
    for name, ids in by_queue.items():
        for chunk in chunks(ids):
            forgotten += yield ops.Forget(chunk, name)
            done += len(chunk)
            if progress:
                progress(done, total)
    return forgotten


def prune(
    age_us: int | None, most: int | None, queue: str | None, task: str | None, progress: Progress | None
) -> Inquiry[int]:
    """Delete old failed jobs, batch by batch.

    Raises:
        ConfigError: neither an age nor a number is given, or the number is negative.
    """
    if age_us is None and most is None:
        raise ConfigError("prune needs older_than or most: what is to go?")
    if most is not None and (type(most) is not int or most < 0):
        raise ConfigError(f"most is {most!r}: use a whole number of 0 or more")
    pruned = 0
    while True:
        batch: ops.Pruned = yield ops.Prune(age_us, most, queue, task, PAGE)
        pruned += batch.failed
        if progress:
            progress(pruned, 0)
        if not batch.more:
            return pruned


def chunks(ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(ids), PAGE):
        yield tuple(ids[start : start + PAGE])


# -- correcting


def edit(
    id: str,
    tasks: Tasks,
    changes: Mapping[str, Any],
    drop: Collection[str] | None,
    *,
    by: str,
    why: str,
    dry_run: bool,
) -> Inquiry[Edited]:
    """Other arguments for a failed job, checked before they are stored.

    Raises:
        RepairError: there is no such job, it has not failed, or has changed meanwhile.
        UnknownTask: the app has no task of that name.
        InvalidArguments, PayloadTooLarge: they do not fit its signature.
        UnreadableEnvelope: the message cannot be read, so that nothing in it can be changed.
    """
    view: ops.JobView | None = yield ops.Get(id)
    if view is None or view.body is None:
        raise RepairError(f"there is no job {id}: it has ended and is not kept, or was forgotten")
    if view.state is not State.FAILED:
        raise RepairError(f"job {id} is {view.state.value}: only a failed job can be edited")
    task = _task_of(view.body, tasks)
    rules = Rules(task.arguments, task.once, task.unique)
    corrected = correct(view.body, rules, view.unique, changes, drop)
    if not dry_run and corrected.diff:
        now_us = yield from store_now()
        remembered = trail.decode(view.trail).with_edit(Edit(now_us, by, why, corrected.diff))
        done: bool = yield ops.Edit(id, view.queue, view.body, corrected.body, trail.encode(remembered))
        if not done:
            raise RepairError(f"job {id} has changed meanwhile, so nothing was: look at it again")
    return Edited(id, task.name, corrected.diff, corrected.notes, not dry_run and bool(corrected.diff))


def _task_of(body: bytes, tasks: Tasks) -> Task[..., Any]:
    try:
        name = codec.decode(body).task
    except UnreadableEnvelope as error:
        raise type(error)(f"{error}. It can be looked at and forgotten, but not edited") from None
    task = tasks.get(name)
    if task is None:
        close = near(name, sorted(tasks))
        hint = f": did you mean {' or '.join(close)}?" if close else ""
        raise UnknownTask(f"no task is named {name!r}{hint} Without its signature nothing can be checked")
    return task
