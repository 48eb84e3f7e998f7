"""`headrace failed replay`: many failed jobs again, by an operation that others can see, stop and resume."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.exits import ExitCode
from headrace.cli.failed_change import told
from headrace.cli.failed_edit import operator
from headrace.cli.options import NotFound, Settings, common, pass_settings
from headrace.cli.output import age, iso, note, now_us, printable, say, say_json, shortened, table
from headrace.cli.progress import progress
from headrace.cli.selecting import Selection, confirm, confirmation, count, meant, selection, show_sample
from headrace.core.failures import FailedFilter
from headrace.core.wording import counted
from headrace.errors import RepairError, StoreError

if TYPE_CHECKING:
    from headrace.core.replays import ReplayRun
    from headrace.jobs import Jobs

_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/([smh]))?")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_EVERY = "*"


def rate(text: str) -> float:
    """Jobs per second: `100`, `100/s`, `30/m`, `500/h`. Serves as the type of an option."""
    shape = _RATE.fullmatch(text.strip())
    found = float(shape[1]) / _SECONDS[shape[2] or "s"] if shape else 0.0
    if found <= 0:
        raise click.BadParameter(f"{text!r} is no rate: write 100/s, 30/m or 500/h")
    return found


@click.command()
@selection
@click.option("--canary", type=click.IntRange(0, 1_000), default=0, metavar="N", help="Try the newest N first.")
@click.option("--rate", type=rate, metavar="N/s", help="At most so many a second, such as 100/s or 30/m.")
@click.option("--by", metavar="NAME", help="Who does it. Default: the user of this shell.")
@click.option("--resume", metavar="RUN", help="Go on with a replay whose driver has left or died.")
@click.option("--cancel", metavar="RUN", help="End a replay where it is.")
@click.option("--status", is_flag=False, flag_value=_EVERY, metavar="[RUN]", help="Show replays, or one.")
@confirmation
@common
@click.pass_context
@pass_settings
def replay(
    settings: Settings,
    context: click.Context,
    *,
    ids: tuple[str, ...],
    where: FailedFilter,
    every: bool,
    canary: int,
    rate: float | None,
    by: str | None,
    resume: str | None,
    cancel: str | None,
    status: str | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Make failed jobs ready again: all that have failed until now and match, each once.

    The replay is noted in the store: it can be looked at and cancelled from elsewhere, and after Ctrl-C or a crash
    anybody can resume it. Two at once replay each job once. With --canary, the newest N go first, and the others when
    all of these have ended well; when one fails an attempt, the replay stops. Exits with 1 if it was stopped or
    cancelled, or has skipped a job.

    \b
    Examples:
      headrace failed replay --fingerprint 4f8a0c1b2d3e --canary 5 --rate 100/s
      headrace failed replay --all --since 2h --dry-run
      headrace failed replay --status
      headrace failed replay --resume 4f8a0c1b2d3e
    """
    jobs = settings.jobs()
    one = [text for text in (resume, cancel, status) if text is not None]
    if one:
        if len(one) > 1 or ids or every or where != FailedFilter():
            raise click.UsageError("--resume, --cancel and --status stand alone: each is about a replay that is there")
        context.exit(_one(settings, jobs, resume, cancel, status, by=by or operator()))
    chosen = Selection.of(ids, where, every=every)
    if dry_run or not (yes or chosen.ids is not None):
        number, sample = count(chosen.found(jobs))
        if dry_run:
            _tell_dry_run(settings, number, lambda: show_sample(number, sample))
            return
        if number == 0:
            note(f"no failed jobs match{meant(settings, chosen.where)}")
            return
        if not confirm(f"replay {counted(number, 'failed job')}{chosen.words()}?", yes=yes):
            note("nothing was changed")
            context.exit(ExitCode.NO)
    if chosen.ids is None and not jobs.find_failed(chosen.where, limit=1).jobs:
        note(f"no failed jobs match, so nothing was replayed{meant(settings, chosen.where)}")
        return
    which: dict[str, Any] = {"ids": chosen.ids} if chosen.ids is not None else {"where": chosen.where}
    run = jobs.replays.start(**which, canary=canary, rate=rate, by=by or operator())
    context.exit(_drive(settings, jobs, run.id))


def _tell_dry_run(settings: Settings, number: int, details: Any) -> None:
    if settings.json:
        say_json({"dry_run": True, "replay": number})
    else:
        say(f"would replay {counted(number, 'failed job')}")
        details()


def _one(
    settings: Settings, jobs: Jobs, resume: str | None, cancel: str | None, status: str | None, *, by: str
) -> ExitCode:
    if resume is not None:
        run = _known(jobs, resume)
        return _told(settings, run) if run.ended else _drive(settings, jobs, resume)
    if cancel is not None:
        before = _known(jobs, cancel)
        run = jobs.replays.cancel(cancel, by=by)
        if settings.json:
            say_json(_fields(run))
        else:
            ended = "has ended already" if before.ended else "is cancelled"
            say(printable(f"replay {run.id} {ended}: {_words(run)}"))
        return ExitCode.NO if before.ended else ExitCode.OK
    runs = jobs.replays.list() if status in (None, _EVERY) else [_known(jobs, status)]
    _show(settings, runs)
    return ExitCode.OK


def _known(jobs: Jobs, id: str) -> ReplayRun:
    try:
        return jobs.replays.get(id)
    except RepairError as error:
        raise NotFound(str(error)) from None


def _drive(settings: Settings, jobs: Jobs, id: str) -> ExitCode:
    """To its end, with a bar; interrupted, it can be resumed."""
    note(f"replay {id}: Ctrl-C leaves it to be resumed")
    try:
        with progress("replaying") as bar:
            run = jobs.replays.drive(id, progress=told(bar))
    except (KeyboardInterrupt, StoreError):
        note(f"replay {id} is interrupted; go on with: headrace failed replay --resume {id}")
        raise
    return _told(settings, run)


def _told(settings: Settings, run: ReplayRun) -> ExitCode:
    if settings.json:
        say_json(_fields(run))
    else:
        say(printable(f"replay {run.id} is {run.phase}: {_words(run)}"))
        for job, why in run.skips.items():
            note(f"skipped {job}: {why}")
        if run.skipped > len(run.skips):
            note(f"and {run.skipped - len(run.skips):,} more")
    return ExitCode.OK if run.phase == "done" and not run.skipped else ExitCode.NO


def _words(run: ReplayRun) -> str:
    skipped = f", {run.skipped:,} skipped" if run.skipped else ""
    of = f" of {run.total:,}" if run.total is not None and not (run.phase == "done" and not run.skipped) else ""
    why = f"; {run.why}" if run.why else ""
    return f"{run.replayed:,}{of} {'job' if run.replayed == 1 and not of else 'jobs'} made ready again{skipped}{why}"


def _show(settings: Settings, runs: Any) -> None:
    if settings.json:
        for run in runs:
            say_json(_fields(run))
        return
    if not runs:
        note("no replays in the last 30 days")
        return
    now = now_us()
    table(
        ["RUN", "STARTED", "BY", "PHASE", "REPLAYED", "SKIPPED", "OF", "WHICH", "WHY"],
        [
            [
                *(run.id, f"{age(now - run.started_us)} ago", run.by, _phase(run, now), run.replayed, run.skipped),
                *(run.total, _which(run), shortened(run.why)),
            ]
            for run in runs
        ],
    )


def _phase(run: ReplayRun, now: int) -> str:
    """One that nobody drives waits for somebody to resume it."""
    return run.phase if run.ended or run.lease_until_us > now else f"{run.phase}, left"


def _which(run: ReplayRun) -> str:
    if run.ids is not None:
        return counted(len(run.ids), "id")
    return Selection(None, run.where).words().removeprefix(" of ") or "all"


def _fields(run: ReplayRun) -> dict[str, Any]:
    names = ("id", "by", "rate", "canary", "phase", "why", "total", "replayed", "skipped", "skips", "driver", "ids")
    moments = {"started": iso(run.started_us), "ended": iso(run.ended_us)}
    return {name: getattr(run, name) for name in names} | moments | {"where": run.where}
