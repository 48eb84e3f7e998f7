"""`headrace failed retry`, `forget` and `prune`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from headrace.cli.exits import ExitCode
from headrace.cli.options import Settings, common, duration, pass_settings
from headrace.cli.output import note, now_us, say, say_json
from headrace.cli.progress import Progress, progress
from headrace.cli.selecting import Selection, confirm, confirmation, count, meant, selection, show_sample
from headrace.core.failures import FailedFilter
from headrace.core.states import LIVE, TERMINAL, State
from headrace.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.failures.repairs import Retried
    from headrace.jobs import Jobs

_ABSENT = "absent"


@click.command()
@selection
@confirmation
@common
@click.pass_context
@pass_settings
def retry(
    settings: Settings,
    context: click.Context,
    *,
    ids: tuple[str, ...],
    where: FailedFilter,
    every: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Make failed jobs ready again: same id, same options, counts at zero.

    Give ids, or - to read them from standard input, or filters. A job whose unique key another one holds by now is
    skipped. Exits with 1 if any was skipped, with 4 if none of the ids is there.

    \b
    Examples:
      headrace failed retry 0192f1c2-7a1e-7c3b-9d51-0f2a4b6c8d0e
      headrace failed retry --task shop.jobs.send_confirmation --reason SMTPConnectError --yes
      headrace failed retry --all --dry-run
    """
    chosen = Selection.of(ids, where, every=every)
    jobs = settings.jobs()
    number, go = _decide(settings, jobs, chosen, "retry", ask=chosen.ids is None, yes=yes, dry_run=dry_run)
    if go is not None:
        context.exit(go)
    with progress("retrying", number) as bar:
        result = _retry(jobs, chosen, bar)
    context.exit(_tell_retried(settings, result, chosen))


def _retry(jobs: Jobs, chosen: Selection, bar: Progress) -> Retried:
    if chosen.ids is not None:
        return jobs.retry(chosen.ids)
    return jobs.retry_failed(where=chosen.where, progress=told(bar))


def told(bar: Progress) -> Callable[[int, int], None]:
    """What tells the bar."""
    return lambda done, total: bar.update(done, total or None)


def _tell_retried(settings: Settings, result: Retried, chosen: Selection) -> ExitCode:
    if settings.json:
        say_json(result)
    else:
        skipped = f", {len(result.skipped):,} skipped" if result.skipped else ""
        say(f"{counted(result.retried, 'failed job')} made ready again{skipped}")
        for id, why in result.skipped.items():
            note(f"skipped {id}: {why}")
    if chosen.ids and result.retried == 0 and all(why == _ABSENT for why in result.skipped.values()):
        return ExitCode.NOT_FOUND
    return ExitCode.NO if result.skipped else ExitCode.OK


@click.command()
@selection
@confirmation
@common
@click.pass_context
@pass_settings
def forget(
    settings: Settings,
    context: click.Context,
    *,
    ids: tuple[str, ...],
    where: FailedFilter,
    every: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete failed jobs for good.

    Give ids, or - to read them from standard input, or filters. An id may also name another job that has ended and is
    kept. Exits with 1 if some of the ids are not there or have not ended, with 4 if none is there.

    \b
    Examples:
      headrace failed forget 0192f1c2-7a1e-7c3b-9d51-0f2a4b6c8d0e --yes
      headrace failed forget --queue reports --all --dry-run
    """
    chosen = Selection.of(ids, where, every=every)
    jobs = settings.jobs()
    number, go = _decide(settings, jobs, chosen, "forget", ask=True, yes=yes, dry_run=dry_run)
    if go is not None:
        context.exit(go)
    if chosen.ids is not None:
        context.exit(_forget(settings, jobs, chosen.ids))
    with progress("forgetting", number) as bar:
        forgotten = jobs.forget_failed(where=chosen.where, progress=told(bar))
    _tell(settings, "forgotten", forgotten)


def _forget(settings: Settings, jobs: Jobs, ids: tuple[str, ...]) -> ExitCode:
    """Forget these jobs and say what they were: an id may name a kept success as well as a failure."""
    before = {id: info.state for id in ids if (info := jobs.get(id)) is not None}
    forgotten = jobs.forget(ids)
    ended = Counter(state.value for state in before.values() if state in TERMINAL)
    if ended.total() != forgotten:  # somebody else was at them meanwhile
        ended = Counter({"ended": forgotten})
    if settings.json:
        say_json({"forgotten": forgotten})
    else:
        say(f"{' and '.join(counted(n, f'{state} job') for state, n in ended.items()) or '0 jobs'} forgotten")
    for id, state in before.items():
        if state in LIVE:
            note(
                f"job {id} is {state.value}: only jobs that have ended can be forgotten; `headrace job cancel` ends it"
            )
    if absent := len(ids) - len(before):
        note(f"{absent:,} of the ids {'is' if absent == 1 else 'are'} not there")
    if forgotten >= len(ids):
        return ExitCode.OK
    return ExitCode.NO if before else ExitCode.NOT_FOUND


def _decide(
    settings: Settings, jobs: Jobs, chosen: Selection, verb: str, *, ask: bool, yes: bool, dry_run: bool
) -> tuple[int | None, ExitCode | None]:
    """How many jobs it is about, and the exit code if nothing is to be done."""
    if not dry_run and (yes or not ask):
        return None if chosen.ids is None else len(chosen.ids), None
    states = TERMINAL if verb == "forget" else {State.FAILED}
    number, sample = count(chosen.found(jobs, states)) if dry_run or chosen.ids is None else (len(chosen.ids), [])
    what = "failed job" if chosen.ids is None or verb == "retry" else "job"
    if dry_run:
        _tell_dry_run(settings, verb, counted(number, what), number, lambda: show_sample(number, sample))
        return number, ExitCode.OK
    if number == 0:
        _tell(settings, f"{'retried' if verb == 'retry' else 'forgotten'}", 0)
        if hint := "" if chosen.ids is not None else meant(settings, chosen.where):
            note(f"no failed jobs match{hint}")
        return 0, ExitCode.OK
    if not confirm(f"{verb} {counted(number, what)}{chosen.words()}?", yes=yes):
        note("nothing was changed")
        return number, ExitCode.NO
    return number, None


def _tell_dry_run(settings: Settings, verb: str, what: str, number: int, details: Callable[[], None]) -> None:
    if settings.json:
        say_json({"dry_run": True, verb: number})
    else:
        say(f"would {verb} {what}")
        details()


def _tell(settings: Settings, done: str, number: int) -> None:
    if settings.json:
        say_json({done: number})
    else:
        say(f"{counted(number, 'failed job')} {done}")


@click.command()
@click.option("--older-than", type=duration, help="Those that failed longer ago than this, such as 30d.")
@click.option("--most", type=click.IntRange(min=0), metavar="N", help="The oldest, so that N are left.")
@click.option("--queue", metavar="NAME", help="Only of this queue.")
@click.option("--task", metavar="NAME", help="Only of this task.")
@confirmation
@common
@click.pass_context
@pass_settings
def prune(
    settings: Settings,
    context: click.Context,
    *,
    older_than: float | None,
    most: int | None,
    queue: str | None,
    task: str | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete old failed jobs for good.

    Workers do it by themselves for jobs that failed more than 30 days ago and beyond 100,000, unless the app says
    otherwise with keep_failed= and keep_failed_most=.

    \b
    Examples:
      headrace failed prune --older-than 7d
      headrace failed prune --most 10000 --queue mail --yes
    """
    if older_than is None and most is None:
        raise click.UsageError("say which: --older-than, --most, or both")
    jobs = settings.jobs()
    if dry_run or not yes:
        number, sample = _prunable(jobs, Selection(None, FailedFilter(queue=queue, task=task)), older_than, most)
        if dry_run:
            _tell_dry_run(settings, "prune", counted(number, "failed job"), number, sample)
            return
        if number and not confirm(f"prune {counted(number, 'failed job')}?", yes=yes):
            note("nothing was changed")
            context.exit(ExitCode.NO)
    with progress("pruning") as bar:
        pruned = jobs.prune(older_than=older_than, most=most, queue=queue, task=task, progress=told(bar))
    _tell(settings, "pruned", pruned)


def _prunable(
    jobs: Jobs, chosen: Selection, older_than: float | None, most: int | None
) -> tuple[int, Callable[[], None]]:
    """How many would go. This machine's clock stands in for the store's."""
    before = None if older_than is None else now_us() / 1_000_000 - older_than
    old = (
        info
        for place, info in enumerate(chosen.found(jobs))
        if (most is not None and place >= most)
        or (before is not None and info.finished is not None and info.finished.timestamp() <= before)
    )
    number, sample = count(old)
    return number, lambda: show_sample(number, sample)
